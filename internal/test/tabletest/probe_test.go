//nolint:thelper // what forEach calls is the test itself
package tabletest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytable"
)

// rows is all that is in the table.
func (s *store) rows(t testing.TB) string {
	t.Helper()
	return fmt.Sprint(query(t, s.db, "SELECT * FROM jobs ORDER BY id"))
}

// A table that serves is probed without a trace, with all that a Worker has.
func TestProbe(t *testing.T) {
	t.Parallel()
	forEach(t, kinds, func(t *testing.T, s *store) {
		for _, orderBy := range []string{"", "id"} {
			table := jobs()
			table.OrderBy, table.Where, table.ClaimWhere = orderBy, "priority = $1", "1 = 0"
			table.Set = retrytable.Set{Fail: "note = $1", Promote: "kind = 'again'", Release: "note = $1"}
			s.create(t, table, 2)
			var outcomes []string
			p := retrytable.Probe[int64]{Worker: &retrytable.Worker[int64]{
				ClaimArgs:  []any{0},
				FinishArgs: func(*retrytable.Outcome[int64]) []any { return []any{"a note"} },
				InTx: func(ctx context.Context, tx *sql.Tx, o *retrytable.Outcome[int64]) error {
					outcomes = append(outcomes, fmt.Sprint(o.Err, " ", o.Decision.Retry))
					_, err := tx.ExecContext(ctx, "INSERT INTO jobs (id) VALUES (99)")
					return err
				},
			}}
			before := s.rows(t)
			require.NoError(t, table.Probe(t.Context(), s.db, p))
			assert.Equal(t, []string{"<nil> false", "probe true", "probe false"}, outcomes)
			assert.Equal(t, before, s.rows(t))
			run(t, s.db, "DROP TABLE jobs")
		}
	})
}

// Each write that is refused is told by its name, and the others are tried nevertheless.
func TestProbeRefused(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		for write, refuses := range map[string]string{
			"claim":             "NEW.status = 'running'",
			"extend":            "OLD.status = 'running' AND NEW.status = 'running'",
			"release":           "OLD.status = 'running' AND NEW.status = 'ready'",
			"succeed as done":   "NEW.status = 'done'",
			"succeed as sent":   "NEW.status = 'sent'",
			"fail, for a retry": "NEW.status = 'waiting' AND NEW.error IS NOT NULL",
			"fail, for good":    "NEW.status = 'dead'",
		} {
			table := jobs()
			table.Statuses.Done = []string{"done", "sent"}
			s.create(t, table, 0)
			run(t, s.db, "INSERT INTO jobs (id) VALUES (1)")
			s.refuse(t, refuses, s.raise())
			before := s.rows(t)
			err := table.Probe(t.Context(), s.db, retrytable.Probe[int64]{})
			require.ErrorIs(t, err, retrytable.ErrTable, write)
			assert.ErrorContains(t, err, "retrytable: probe: "+write+": ")
			assert.ErrorContains(t, err, "not this")
			assert.Equal(t, before, s.rows(t))
			run(t, s.db, "DROP TABLE jobs")
			if s.dialect == retrytable.PostgreSQL {
				run(t, s.db, "DROP FUNCTION no")
			}
		}
	})
}

// raise is what a trigger does that refuses a row.
func (k kind) raise() string {
	return map[retrytable.Dialect]string{
		retrytable.PostgreSQL: "RAISE EXCEPTION 'not this'",
		retrytable.MySQL:      "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this'",
		retrytable.SQLite:     "SELECT RAISE(ABORT, 'not this')",
	}[k.dialect]
}

// What the program writes may be refused too, and a constraint that is deferred does not hide.
func TestProbeOfTheProgram(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		table := jobs()
		s.create(t, table, 1)
		deferred := " DEFERRABLE INITIALLY DEFERRED"
		if s.dialect != retrytable.PostgreSQL {
			deferred = ""
		}
		run(t, s.db, "CREATE TABLE log (job bigint NOT NULL, FOREIGN KEY (job) REFERENCES jobs (id)"+deferred+")")
		if s.dialect == retrytable.SQLite {
			run(t, s.db, "PRAGMA foreign_keys = ON")
		}
		w := &retrytable.Worker[int64]{InTx: func(ctx context.Context, tx *sql.Tx, o *retrytable.Outcome[int64]) error {
			job := int64(17)
			if failed := o.Err != nil; failed {
				job = o.Job.ID
			}
			_, err := tx.ExecContext(ctx, "INSERT INTO log VALUES ($1)", job)
			return err
		}}
		err := table.Probe(t.Context(), s.db, retrytable.Probe[int64]{Worker: w})
		require.ErrorIs(t, err, retrytable.ErrTable)
		assert.ErrorContains(t, err, "probe: succeed as done: ")
		assert.NotContains(t, err.Error(), "probe: fail")

		mistake := errors.New("a mistake of the program")
		w.InTx = func(context.Context, *sql.Tx, *retrytable.Outcome[int64]) error { return mistake }
		assert.ErrorIs(t, table.Probe(t.Context(), s.db, retrytable.Probe[int64]{Worker: w}), mistake)
		w.InTx = func(context.Context, *sql.Tx, *retrytable.Outcome[int64]) error { panic("a panic of the program") }
		assert.ErrorContains(t, table.Probe(t.Context(), s.db, retrytable.Probe[int64]{Worker: w}), "a panic of the program")
	})
}

// An empty table is probed with a row that the program inserts.
func TestProbeInserts(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		table := jobs()
		table.Where = "priority = 3"
		s.create(t, table, 0)
		p := retrytable.Probe[int64]{}
		s.refuse(t, "NEW.status = 'done'", s.raise())
		require.NoError(t, table.Probe(t.Context(), s.db, p), "there is nothing to write")
		insert := func(values string) func(ctx context.Context, tx *sql.Tx) error {
			return func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO jobs (id, priority) VALUES "+values)
				return err
			}
		}
		p.Insert = insert("(1, 3)")
		assert.ErrorContains(t, table.Probe(t.Context(), s.db, p), "probe: succeed as done: ")
		p.Insert = insert("(1, 4)")
		assert.ErrorContains(t, table.Probe(t.Context(), s.db, p), "probe: Insert: a claim does not take its row")
		p.Insert = insert("(NULL, NULL)")
		assert.ErrorContains(t, table.Probe(t.Context(), s.db, p), "probe: Insert: ")
		assert.Empty(t, query(t, s.db, "SELECT id FROM jobs"))
	})
}

// A failure of the database is not taken for a fault of the table.
func TestProbeFails(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		table := jobs()
		s.create(t, table, 1)
		ctx, cancel := context.WithCancel(t.Context())
		w := &retrytable.Worker[int64]{InTx: func(context.Context, *sql.Tx, *retrytable.Outcome[int64]) error {
			cancel()
			return ctx.Err()
		}}
		err := table.Probe(ctx, s.db, retrytable.Probe[int64]{Worker: w})
		require.ErrorIs(t, err, context.Canceled)
		assert.NotErrorIs(t, err, retrytable.ErrTable)
	})
}
