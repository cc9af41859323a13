//nolint:thelper // what Each calls is the test itself
package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// authorsColumns is all that the author's program knows of a ticket, in a form that does
// not depend on the type of an instant.
func authorsColumns(db *shared.DB) string {
	columns := "t.id, t.title, t.state, t.assignee_type, t.priority, t.vm_id, t.error, t.hold_reason, t.retry_count, t.rejection_count, t.retry_strategy"
	for _, instant := range []string{"retry_after", "created_at", "updated_at", "completed_at"} {
		if db.Dialect == retrytable.PostgreSQL {
			columns += ", extract(epoch FROM t." + instant + ")"
		} else {
			columns += ", julianday(t." + instant + ")"
		}
	}
	return columns
}

// snapshot returns the tickets by their IDs, as the author's program sees them.
func snapshot(t *testing.T, db *shared.DB, where string) map[string]string {
	t.Helper()
	all := map[string]string{}
	_, err := shared.Query(t.Context(), db, func(rows *sql.Rows) (any, error) {
		columns, err := rows.Columns()
		require.NoError(t, err)
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		err = rows.Scan(into...)
		all[fmt.Sprint(values[0])] = fmt.Sprint(values...)
		return nil, err
	}, "SELECT "+authorsColumns(db)+" FROM tickets t WHERE "+where)
	require.NoError(t, err)
	return all
}

// objects describes the tables and indexes.
func objects(t *testing.T, db *shared.DB) string {
	t.Helper()
	query := "SELECT name || coalesce(sql, '') FROM sqlite_master ORDER BY 1"
	if db.Dialect == retrytable.PostgreSQL {
		query = "SELECT concat(c.relname, ' ', c.relfilenode, ' ', a.attname, ' ', a.atttypid::regtype) FROM pg_class c " +
			"JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relnamespace = current_schema()::regnamespace ORDER BY 1"
	}
	lines, err := shared.Query(t.Context(), db, func(rows *sql.Rows) (line string, err error) {
		err = rows.Scan(&line)
		return line, err
	}, query)
	require.NoError(t, err)
	return strings.Join(lines, "\n")
}

func count(t *testing.T, db *shared.DB, where string) int {
	t.Helper()
	return dbtest.Get[int](t, db, "SELECT count(*) FROM tickets WHERE "+where)
}

// byDesign is an agent that does what the name of the design says.
func byDesign(_ context.Context, w ticket) error {
	return map[string]error{"good": nil, "limited": errLimited, "broken": errSyntax}[w.Design]
}

// finish has an engine work until no ticket is ready for it.
func finish(t *testing.T, e *engine) {
	t.Helper()
	w := e.worker(20)
	for n := 1; n > 0; {
		var err error
		n, err = w.Once(t.Context())
		require.NoError(t, err)
	}
}

// The author's table is migrated with its tickets in flight, twice, and an engine does with
// each what the document says.
func TestAuthorsTable(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		dbtest.Author(t, db)
		require.Equal(t, 1000, count(t, db, "true"))
		before, was := objects(t, db), snapshot(t, db, "true")

		err := program.Run(t.Context(), []string{"work", "-dsn", db.DSN}, io.Discard)
		assert.ErrorContains(t, err, "tickets migrate runs, and with -print prints:\n")
		assert.ErrorContains(t, err, "ADD COLUMN")
		assert.ErrorContains(t, err, "lease_until")
		printed := dbtest.Run(t, program.Run, "migrate", "-print", "-dsn", db.DSN)
		assert.Contains(t, printed, "lease_until")
		assert.Equal(t, before, objects(t, db), "nothing is changed")
		assert.Equal(t, printed, dbtest.Run(t, program.Run, "migrate", "-dsn", db.DSN))
		after := objects(t, db)
		assert.NotEqual(t, before, after)
		assert.Equal(t, "-- nothing is missing\n", dbtest.Run(t, program.Run, "migrate", "-dsn", db.DSN))
		assert.Equal(t, after, objects(t, db))
		assert.Equal(t, was, snapshot(t, db, "true"), "the tickets are what they were")

		const untouched = "title IN ('waits', 'in work', 'reviewed', 'held', 'cancelled', 'of a person')"
		was = snapshot(t, db, untouched)
		e := newTestEngine(t, db, byDesign)
		finish(t, e)
		assert.Equal(t, was, snapshot(t, db, untouched))
		for title, want := range map[string]string{
			"new":      "state = 'needs_review' AND coalesce(retry_count, 0) = 0 AND retry_after IS NULL AND error IS NULL AND completed_at IS NOT NULL",
			"due":      "state = 'needs_review' AND retry_count = 1 AND retry_after IS NULL AND error IS NULL",
			"limited":  "state = 'ready' AND retry_count = 1 AND retry_after IS NOT NULL AND error LIKE '429%' AND hold_reason IS NULL AND completed_at IS NULL",
			"last try": "state = 'on_hold' AND retry_count = 3 AND hold_reason = 'Max retries exceeded: transient' AND completed_at IS NOT NULL",
			"broken":   "state = 'on_hold' AND retry_count = 1 AND hold_reason = 'Max retries exceeded: code_error'",
		} {
			where := "title = '" + title + "'"
			assert.Equal(t, count(t, db, where), count(t, db, where+" AND vm_id IS NULL AND "+want), title)
			assert.NotZero(t, count(t, db, where), title)
		}
		s := &system{engine: e, t: t}
		limited := dbtest.Get[string](t, db, "SELECT id FROM tickets WHERE title = 'limited' LIMIT 1")
		s.waitsFor(limited, 1, 30*time.Second)

		// The column that the author has is the truth: what another program writes decides.
		dbtest.Exec(t, db, "UPDATE tickets SET retry_after = CURRENT_TIMESTAMP WHERE title = 'waits'")
		finish(t, e)
		assert.Equal(t, count(t, db, "title = 'waits'"), count(t, db, "title = 'waits' AND state = 'needs_review' AND retry_count = 2"))

		// When the last old engine has ended, nobody works on what it had.
		assert.Regexp(t, "^[1-9][0-9]* adopted\n$", dbtest.Run(t, program.Run, "adopt", "-dsn", db.DSN))
		if db.Dialect == retrytable.SQLite {
			time.Sleep(time.Second) // its CURRENT_TIMESTAMP is in seconds
		}
		finish(t, e)
		assert.Equal(t, count(t, db, "title = 'in work'"),
			count(t, db, "title = 'in work' AND state = 'ready' AND retry_count = 2 AND retry_after IS NOT NULL AND vm_id IS NULL"))
		dbtest.Run(t, program.Run, "list", "-dsn", db.DSN, "-state", "cancelled")
	})
}

// A table that the program cannot work on is refused, by work and by migrate, with the
// column and the statement to run, and nothing is changed.
func TestRefusedTables(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		postgres, sqlite string // what is wrong with the table
		faults           []string
		lacks            bool // which migrate mends
	}{
		"half of the columns": {
			"ALTER TABLE tickets DROP COLUMN hold_reason, DROP COLUMN retry_after",
			"ALTER TABLE tickets DROP COLUMN hold_reason; ALTER TABLE tickets DROP COLUMN retry_after",
			[]string{"ALTER TABLE tickets ADD COLUMN hold_reason text;\n", `ALTER TABLE .tickets. ADD COLUMN .*retry_after.`},
			true,
		},
		"negative counts": {
			"UPDATE tickets SET retry_count = -3, rejection_count = -1 WHERE title = 'new'", "",
			[]string{
				`tickets.retry_count: is negative in \d+ rows; run: UPDATE tickets SET retry_count = 0 WHERE retry_count < 0\n`,
				"tickets.rejection_count: is negative in .* run: UPDATE tickets SET rejection_count = 0 WHERE rejection_count < 0$",
			},
			false,
		},
		"the past century": {
			"UPDATE tickets SET retry_after = '1970-01-01T00:00:01' WHERE title = 'due'", "",
			[]string{"tickets.retry_after: is in a past century in .* run: UPDATE tickets SET retry_after = NULL WHERE retry_after < '2000-01-01'$"},
			false,
		},
		"text": {
			"ALTER TABLE tickets ALTER COLUMN retry_after TYPE text",
			"UPDATE tickets SET retry_after = 'soon' WHERE title = 'due'",
			[]string{`"retry_after": (?:is text.* ALTER TABLE|has "soon", which is no instant.* UPDATE)`},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, db *shared.DB) {
				dbtest.Author(t, db)
				statement := test.postgres
				if db.Dialect == retrytable.SQLite {
					statement = cmp.Or(test.sqlite, statement)
				}
				_, err := db.ExecContext(t.Context(), statement)
				require.NoError(t, err)
				before, was := objects(t, db), count(t, db, "retry_count < 0")
				commands := []string{"work", "migrate"}
				if test.lacks {
					commands = commands[:1]
				}
				for _, command := range commands {
					err = program.Run(t.Context(), []string{command, "-dsn", db.DSN}, io.Discard)
					require.Error(t, err)
					for _, fault := range test.faults {
						assert.Regexp(t, fault, err.Error(), command)
					}
					assert.Equal(t, before, objects(t, db), command)
					assert.Equal(t, was, count(t, db, "retry_count < 0"), command)
				}
				if !test.lacks { // what it says to run
					for _, match := range regexp.MustCompile(`(?:run|convert it): (.+)`).FindAllStringSubmatch(err.Error(), -1) {
						dbtest.Exec(t, db, match[1])
					}
				}
				dbtest.Run(t, program.Run, "migrate", "-dsn", db.DSN)
				assert.Equal(t, "-- nothing is missing\n", dbtest.Run(t, program.Run, "migrate", "-dsn", db.DSN))
			})
		})
	}
}

// A table of activities in which others have columns that need a value is refused before anything is
// changed, and not when an agent has done its work.
func TestProbe(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		dbtest.Author(t, db)
		dbtest.Exec(t, db, "DELETE FROM tickets") // no ticket is needed to find that out
		dbtest.Exec(t, db, "CREATE TABLE activity (kind text NOT NULL)")
		before := objects(t, db)
		for _, command := range []string{"migrate", "work"} {
			err := program.Run(t.Context(), []string{command, "-dsn", db.DSN}, io.Discard)
			assert.ErrorContains(t, err, "activity.kind: must have a value in each row")
			assert.Equal(t, before, objects(t, db))
		}
	})
}

// A definition that is JSON is no command.
func TestDefinitionIsText(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, retrytable.PostgreSQL)
	dbtest.Author(t, db)
	dbtest.Exec(t, db, "ALTER TABLE designs DROP COLUMN definition")
	dbtest.Exec(t, db, "ALTER TABLE designs ADD COLUMN definition jsonb")
	for _, command := range []string{"migrate", "work"} {
		err := program.Run(t.Context(), []string{command, "-dsn", db.DSN}, io.Discard)
		assert.ErrorContains(t, err, "designs.definition: is jsonb")
	}
}

// A state or a VM that an engine cannot write is told before anything is changed.
func TestUnfitForAnEngine(t *testing.T) {
	t.Parallel()
	for _, damage := range []string{
		"ALTER TABLE tickets ALTER COLUMN vm_id TYPE integer USING NULL",
		"CREATE TABLE vms (id text PRIMARY KEY); UPDATE tickets SET vm_id = NULL; ALTER TABLE tickets ADD FOREIGN KEY (vm_id) REFERENCES vms (id)",
		"UPDATE tickets SET state = 'ready'; ALTER TABLE tickets ADD CHECK (state IN ('ready', 'in_progress', 'needs_review'))",
	} {
		db := dbtest.New(t, retrytable.PostgreSQL)
		dbtest.Author(t, db)
		dbtest.Exec(t, db, damage)
		before := objects(t, db)
		err := program.Run(t.Context(), []string{"migrate", "-dsn", db.DSN}, io.Discard)
		assert.ErrorIs(t, err, retrytable.ErrTable, damage)
		assert.ErrorContains(t, err, "retrytable: probe: ")
		assert.Equal(t, before, objects(t, db))
	}
}

// Whoever uses the tables is not held up by a migration that waits for somebody else.
func TestMigrationHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, retrytable.PostgreSQL)
	dbtest.Author(t, db)
	reading, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = reading.ExecContext(t.Context(), "SELECT FROM tickets LIMIT 1")
	require.NoError(t, err)
	out, stop := dbtest.Start(t, program.Run, "migrate", "-dsn", db.DSN)
	defer func() { _ = stop() }()
	out.Await(t, `ALTER TABLE "tickets"`)
	for range 3 { // while it waits and waits again
		eventually(t, func() bool { return waiting(t, db) }, "it waits for a lock")
		ctx, stop := context.WithTimeout(t.Context(), limit)
		_, err := db.ExecContext(ctx, "UPDATE tickets SET priority = 9 WHERE title = 'new'")
		stop()
		require.NoError(t, err)
	}
	require.NoError(t, reading.Rollback())
	out.Await(t, "CREATE INDEX CONCURRENTLY .*tickets_sweep")
	eventually(t, func() bool {
		missing, err := newTable(db).Missing(t.Context(), db)
		return err == nil && len(missing) == 0
	}, "migrated")
}

// waiting reports whether somebody waits for a lock on a table in the schema.
func waiting(t *testing.T, db *shared.DB) bool {
	t.Helper()
	return dbtest.Get[bool](t, db, "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted "+
		"AND relation = to_regclass('tickets'))")
}

// old is an engine as the document has it, in plain SQL, without leases.
type old struct {
	db   *shared.DB
	vm   string
	now  string // SQL
	work func(id string, retries int) error
}

// step has it work on a ticket, and reports whether there was one.
func (o *old) step(ctx context.Context) (bool, error) {
	due := "state = 'ready' AND assignee_type = 'agent' AND (retry_after IS NULL OR retry_after <= " + o.now + ")"
	var id string
	var retries int
	err := o.db.QueryRowContext(ctx, "UPDATE tickets SET state = 'in_progress', vm_id = $1, updated_at = CURRENT_TIMESTAMP "+
		"WHERE id = (SELECT id FROM tickets WHERE "+due+" ORDER BY priority DESC, created_at LIMIT 1) AND "+due+
		" RETURNING id, coalesce(retry_count, 0)", o.vm).Scan(&id, &retries)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	}
	statement := "UPDATE tickets SET state = 'needs_review', vm_id = NULL, completed_at = CURRENT_TIMESTAMP WHERE id = $1"
	args := []any{id}
	if err := o.work(id, retries); err != nil {
		statement = "UPDATE tickets SET state = 'ready', vm_id = NULL, retry_count = coalesce(retry_count, 0) + 1, " +
			"retry_after = $2, error = $3, updated_at = CURRENT_TIMESTAMP WHERE id = $1"
		args = append(args, time.Now().Add(50*time.Millisecond).UTC().Format("2006-01-02T15:04:05.000Z"), err.Error())
	}
	_, err = o.db.ExecContext(ctx, statement, args...)
	return true, err
}

// Old engines and new ones work on one table for as long as dbtest.Together says, and it is
// migrated meanwhile: no ticket is worked on twice, and all come to their end.
func TestOldAndNewEngines(t *testing.T) {
	t.Parallel()
	span := dbtest.Together(t)
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		dbtest.Author(t, db)
		dbtest.Exec(t, db, "DELETE FROM tickets")
		var mu sync.Mutex
		done, failed := map[string]int{}, map[string]int{}
		byOld, byNew := 0, 0
		work := func(id string, retries int, by *int) error {
			mu.Lock()
			defer mu.Unlock()
			*by++
			if retries == 0 {
				failed[id]++
				return errLimited
			}
			done[id]++
			return nil
		}
		ctx, stop := context.WithTimeout(t.Context(), span+limit)
		defer stop()
		var engines sync.WaitGroup
		for n := range 2 {
			again := dbtest.Reopen(t, db)
			o := &old{db: again, vm: fmt.Sprint("old-", n), now: "NOW()", work: func(id string, retries int) error { return work(id, retries, &byOld) }}
			if db.Dialect == retrytable.SQLite {
				o.now = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
			} else {
				o.db.SetMaxOpenConns(2)
			}
			engines.Go(func() {
				for ctx.Err() == nil {
					worked, err := o.step(ctx)
					assert.True(t, err == nil || ctx.Err() != nil, err)
					if !worked {
						time.Sleep(5 * time.Millisecond)
					}
				}
			})
		}
		const each = "INSERT INTO tickets (title, state, assignee_type, design_id) SELECT 'mixed', 'ready', 'agent', id FROM designs"
		dbtest.Exec(t, db, each)
		dbtest.Run(t, program.Run, "migrate", "-dsn", db.DSN)
		e := newTestEngine(t, dbtest.Reopen(t, db), func(_ context.Context, w ticket) error { return work(w.ID, w.Retries, &byNew) })
		e.policy = newPolicy(50*time.Millisecond, time.Second)
		engines.Go(func() { assert.ErrorIs(t, e.worker(4).Run(ctx), context.Canceled) })
		for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if count(t, db, "state = 'ready'") < 30 { // not more than they can do
				dbtest.Exec(t, db, each)
			}
		}
		eventually(t, func() bool { return count(t, db, "state <> 'needs_review'") == 0 }, "none is stuck")
		stop()
		engines.Wait()
		n := count(t, db, "retry_count = 1 AND vm_id IS NULL")
		assert.Equal(t, n, count(t, db, "true"))
		assert.Len(t, done, n)
		assert.Len(t, failed, n)
		for id := range done {
			assert.Equal(t, [2]int{1, 1}, [2]int{done[id], failed[id]}, id)
		}
		assert.Greater(t, byOld, n/10, "both work")
		assert.Greater(t, byNew, n/10, "both work")
		t.Log(n, "tickets; attempts by old engines:", byOld, "by new ones:", byNew)
	})
}
