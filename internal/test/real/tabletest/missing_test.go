//nolint:thelper // what forEach calls is the test itself
package tabletest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// missing runs what a table lacks, until it lacks nothing, and returns what was run first.
func missing(t *testing.T, s *store, table *retrytable.Table[int64]) []string {
	t.Helper()
	statements := testkit.Must(table.Missing(t.Context(), s.db))(t)
	for _, statement := range statements {
		run(t, s.db, statement)
	}
	assert.Empty(t, testkit.Must(table.Missing(t.Context(), s.db))(t))
	return statements
}

// A table has what is missing after the statements, and what was in it. Schema is the sum
// of the same.
func TestMissing(t *testing.T) {
	t.Parallel()
	forEach(t, kinds, func(t *testing.T, s *store) {
		for _, orderBy := range []string{"", "id"} {
			table := s.jobs()
			table.OrderBy = orderBy
			run(t, s.db, "CREATE TABLE jobs (id bigint PRIMARY KEY, STATUS "+s.text()+" NOT NULL DEFAULT 'ready', polls integer)")
			run(t, s.db, "INSERT INTO jobs (id) VALUES (1), (2)")
			if s.dialect == retrytable.PostgreSQL {
				assert.Contains(t, strings.Join(missing(t, s, table), "\n"), "CREATE INDEX CONCURRENTLY")
			} else {
				missing(t, s, table)
			}
			require.NoError(t, table.Check(t.Context(), s.db))
			assert.ElementsMatch(t, []int64{1, 2}, claimed(t, s, table, 3))
			run(t, s.db, "DROP TABLE jobs")

			s.create(t, table, 1)
			assert.Empty(t, missing(t, s, table), "Schema adds all")
			run(t, s.db, "DROP TABLE jobs")
		}
	})
}

// An index alone may be missing. In PostgreSQL, one that could not be made stays behind.
func TestMissingIndex(t *testing.T) {
	t.Parallel()
	forEachTable(t, databases, jobs, 2, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		switch s.dialect {
		case retrytable.MySQL:
			run(t, s.db, "ALTER TABLE jobs DROP INDEX sweep_3aab1c53")
			assert.Equal(t, []string{"ALTER TABLE `jobs` ADD INDEX sweep_3aab1c53 (sweep_3aab1c53)"}, missing(t, s, table))
			return
		case retrytable.PostgreSQL:
			run(t, s.db, "DROP INDEX jobs_claim")
			_, err := s.db.ExecContext(t.Context(), "CREATE UNIQUE INDEX CONCURRENTLY jobs_claim ON jobs (status)")
			require.Error(t, err, "not unique: it stays invalid")
			statements := missing(t, s, table)
			require.Len(t, statements, 3)
			assert.Equal(t, "DROP INDEX CONCURRENTLY IF EXISTS jobs_claim", statements[0])
			assert.Equal(t, `ANALYZE "jobs"`, statements[2])
		}
		run(t, s.db, "DROP INDEX jobs_sweep")
		require.NoError(t, table.Check(t.Context(), s.db), "it works without")
		statements := missing(t, s, table)
		assert.Contains(t, statements[0], "jobs_sweep")
		if s.dialect == retrytable.SQLite {
			assert.Len(t, statements, 1)
		}
	})
}

// PostgreSQL makes no index of a partitioned table CONCURRENTLY, and drops none.
func TestMissingPartitioned(t *testing.T) {
	t.Parallel()
	s := databases[0].open(t)
	run(t, s.db, "CREATE TABLE jobs (id bigint PRIMARY KEY) PARTITION BY HASH (id)")
	for i := range 2 {
		run(t, s.db, fmt.Sprintf("CREATE TABLE jobs_%d PARTITION OF jobs FOR VALUES WITH (MODULUS 2, REMAINDER %d)", i, i))
	}
	run(t, s.db, "INSERT INTO jobs SELECT generate_series(1, 10)")
	table := jobs()
	table.KeepAutovacuum = true
	missing(t, s, table)
	run(t, s.db, "DROP INDEX jobs_sweep")
	run(t, s.db, "CREATE INDEX jobs_sweep ON ONLY jobs (lease_until)") // which is not valid
	assert.Contains(t, missing(t, s, table), "DROP INDEX IF EXISTS jobs_sweep")
	w, _ := patient(s, table, 10)
	assert.Equal(t, 10, testkit.Must(w.Once(t.Context()))(t))
	assert.Equal(t, [][]any{{int64(10)}}, query(t, s.db, "SELECT count(*) FROM jobs WHERE status = 'done'"))
}

// An enum gets its words, and keeps what it had besides.
func TestMissingWords(t *testing.T) {
	t.Parallel()
	forEach(t, of(databases, retrytable.PostgreSQL, retrytable.MySQL), func(t *testing.T, s *store) {
		status := "ENUM ('ready', 'it''s done') CHARACTER SET latin1 NOT NULL DEFAULT 'it''s done' COMMENT 'how''s it \\\\'"
		if s.dialect == retrytable.PostgreSQL {
			run(t, s.db, `CREATE TYPE "Word" AS ENUM ('ready', 'it''s done')`)
			status = `"Word" NOT NULL DEFAULT 'it''s done'`
		}
		run(t, s.db, "CREATE TABLE jobs (id bigint PRIMARY KEY, status "+status+")")
		run(t, s.db, "INSERT INTO jobs (id) VALUES (1)")
		run(t, s.db, "INSERT INTO jobs (id, status) VALUES (2, 'ready')")
		table := s.jobs()
		table.Statuses.Done = []string{"it's done"}
		err := table.Check(t.Context(), s.db)
		add := `ALTER TYPE "Word" ADD VALUE IF NOT EXISTS 'waiting'; ALTER TYPE "Word" ADD VALUE IF NOT EXISTS 'dead'`
		if s.dialect == retrytable.MySQL {
			add = "ALTER TABLE `jobs` MODIFY COLUMN `status` enum('ready','it''s done','waiting','dead','running')"
		}
		assert.ErrorContains(t, err, `has no ["waiting" "dead" "running"]; run: `+add)
		missing(t, s, table)
		require.NoError(t, table.Check(t.Context(), s.db))
		run(t, s.db, "INSERT INTO jobs (id) VALUES (3)")
		assert.Equal(t, [][]any{{"it's done", int64(2)}, {"ready", int64(1)}},
			query(t, s.db, "SELECT trim(CAST(status AS char(9))), count(*) FROM jobs GROUP BY 1 ORDER BY 1"))
		assert.Equal(t, []int64{2}, claimed(t, s, table, 3))
		if s.dialect == retrytable.MySQL {
			assert.Equal(t, [][]any{{`how's it \`, "latin1"}}, query(t, s.db, "SELECT COLUMN_COMMENT, CHARACTER_SET_NAME "+
				"FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'jobs' AND COLUMN_NAME = 'status'"))
		}
	})
}

// Rows that have failed for good, and share their word with waiting rows, stay so when the table
// gets a due time.
func TestMissingDue(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		table := s.jobs()
		table.Statuses.Waiting, table.Statuses.Dead = "error", "error"
		run(t, s.db, "CREATE TABLE jobs (id bigint PRIMARY KEY, status "+s.text()+")")
		run(t, s.db, "INSERT INTO jobs (id, status) VALUES (1, 'error'), (2, 'ready')")
		missing(t, s, table)
		assert.Equal(t, []int64{2}, claimed(t, s, table, 3))
	})
}

// In PostgreSQL, a timestamp without time zone becomes one with it. It means the same to who
// compares it with now(), is not rewritten in UTC, and is written as before.
func TestMissingTimeZone(t *testing.T) {
	t.Parallel()
	forEach(t, of(databases, retrytable.PostgreSQL), func(t *testing.T, s *store) {
		for _, zone := range []string{"UTC", "Asia/Kathmandu"} {
			db := openDB(t, "pgx", pgDSN(t, pgDSN(t, s.dsn, "timezone", zone), "default_query_exec_mode", "exec"))
			table := jobs()
			table.Dialect = s.dialect
			run(t, db, "CREATE TABLE jobs (id bigint PRIMARY KEY, due_at timestamp, status text)")
			run(t, db, "INSERT INTO jobs VALUES (1, now() - interval '1 second', 'ready'), (2, now() + interval '1 hour', 'ready')")
			file := query(t, db, "SELECT pg_relation_filenode('jobs')")
			assert.ErrorContains(t, table.Check(t.Context(), db), `Columns.Due: "due_at": is timestamp without time zone, `+
				`but Instants wants timestamp with time zone; run: ALTER TABLE "jobs" ALTER COLUMN "due_at" TYPE timestamptz`)
			missing(t, &store{kind: s.kind, db: db}, table)
			assert.Equal(t, zone == "UTC", assert.ObjectsAreEqual(file, query(t, db, "SELECT pg_relation_filenode('jobs')")))
			run(t, db, "INSERT INTO jobs VALUES (3, LOCALTIMESTAMP - interval '1 second', 'ready')")
			run(t, db, "INSERT INTO jobs VALUES (4, $1, 'ready')", time.Now().Add(-time.Second).In(time.FixedZone("", 3*3600)).Format(time.RFC3339))
			assert.ElementsMatch(t, []int64{1, 3, 4}, claimed(t, s, table, 9))
			run(t, db, "DROP TABLE jobs")
		}
	})
}

// What cannot be added is refused, and nothing is offered.
func TestMissingRefuses(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		table := s.jobs()
		statements, err := table.Missing(t.Context(), s.db)
		require.ErrorIs(t, err, retrytable.ErrTable)
		assert.ErrorContains(t, err, "there is no such table")
		assert.Empty(t, statements)
		run(t, s.db, "CREATE TABLE jobs (id bigint PRIMARY KEY, due_at text)")
		statements, err = table.Missing(t.Context(), s.db)
		require.ErrorIs(t, err, retrytable.ErrTable)
		assert.ErrorContains(t, err, `Columns.Due: "due_at": is `)
		assert.NotContains(t, err.Error(), "lease_until", "which the statements would add")
		assert.Empty(t, statements)
	})
}

// Tables that differ in their Where have indexes of their own.
func TestMissingOfAnotherWhere(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		table := &retrytable.Table[int64]{Name: "jobs", Where: "priority = 1"}
		s.create(t, table, 0)
		assert.Empty(t, missing(t, s, table))
		other := &retrytable.Table[int64]{Name: "jobs", Where: "priority = 2", Dialect: s.dialect, Instants: s.instants}
		assert.NotEmpty(t, missing(t, s, other))
		assert.Empty(t, missing(t, s, table))
	})
}

// A trigger with an older function is replaced, and is one afterwards. A large table without statistics,
// as a migration leaves it that is killed before its end, gets them.
func TestMissingOfAnOlderMigration(t *testing.T) {
	t.Parallel()
	forEach(t, of(databases, retrytable.PostgreSQL), func(t *testing.T, s *store) {
		table := &retrytable.Table[int64]{Name: "jobs", Notify: "jobs_$"}
		s.create(t, table, 1)
		run(t, s.db, fmt.Sprintf("CREATE OR REPLACE FUNCTION %q() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
			query(t, s.db, "SELECT proname FROM pg_trigger JOIN pg_proc p ON p.oid = tgfoid WHERE tgrelid = 'jobs'::regclass")[0][0]))
		other := &retrytable.Table[int64]{Name: "jobs", Notify: "jobs_$", Statuses: retrytable.Statuses{Ready: "new"}}
		statements := missing(t, s, table)
		require.Len(t, statements, 2, "the trigger, and statistics")
		triggers := query(t, s.db, "SELECT prosrc FROM pg_trigger JOIN pg_proc p ON p.oid = tgfoid WHERE tgrelid = 'jobs'::regclass")
		require.Len(t, triggers, 1)
		assert.Contains(t, triggers[0][0], "'ready'")
		assert.NotEmpty(t, missing(t, s, other), "what is ready to it is another word")
		assert.Empty(t, missing(t, s, table), "and has a trigger of its own")
		run(t, s.db, "DROP TABLE jobs")

		s.create(t, table, 0)
		run(t, s.db, "ALTER TABLE jobs SET (autovacuum_enabled = false)")
		run(t, s.db, "INSERT INTO jobs (id) SELECT generate_series(1, 2000)")
		run(t, s.db, "VACUUM jobs")
		assert.Equal(t, []string{`ANALYZE "jobs"`}, missing(t, s, table))
	})
}

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
	forEachTable(t, databases, jobs, 1, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
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
	forEachTable(t, databases, jobs, 1, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
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
