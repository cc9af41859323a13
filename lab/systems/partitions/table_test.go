//nolint:thelper // what Each calls is the test itself
package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// contents is all that a database has: the definitions, and the rows of the table.
func contents(t *testing.T, db *shared.DB) []string {
	t.Helper()
	queries := []string{"SELECT name || ' ' || coalesce(sql, '') FROM sqlite_master ORDER BY 1"}
	if db.Dialect == retrytable.PostgreSQL {
		queries = []string{
			`SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace ORDER BY 1`,
			`SELECT attname || ' ' || atttypid FROM pg_attribute a, pg_class c WHERE c.oid = attrelid
				AND relnamespace = current_schema()::regnamespace ORDER BY attrelid, attnum`,
			`SELECT CAST(p AS text) FROM partition_state p ORDER BY 1`,
		}
	} else {
		queries = append(queries, "SELECT updated_at || ' ' || attempt_count || ' ' || status FROM partition_state ORDER BY 1")
	}
	var all []string
	for _, query := range queries {
		some, err := shared.Query(t.Context(), db, func(rows *sql.Rows) (s string, err error) {
			var text sql.NullString
			err = rows.Scan(&text)
			return text.String, err
		}, query)
		if err == nil || !strings.Contains(query, "partition_state") { // there may be none
			require.NoError(t, err)
		}
		all = append(all, some...)
	}
	return all
}

// A table that does not fit is refused at the start, by every command that works on it,
// with the column and the statement to run. Nothing is changed.
func TestRefusal(t *testing.T) {
	t.Parallel()
	const table = "CREATE TABLE partition_state (customer text, query text, partition_key text, status text, " +
		"attempt_count bigint, error_message text, updated_at {instant});"
	const failed = "INSERT INTO partition_state (customer, query, partition_key, status, updated_at, attempt_count) " +
		"VALUES ('c', 'q', 'p', 'failed', "
	without := func(columns ...string) string {
		all := table
		for _, c := range columns {
			all = strings.Replace(all, c, "", 1)
		}
		return strings.Replace(all, ", )", ")", 1)
	}
	both := []retrytable.Dialect{retrytable.PostgreSQL, retrytable.SQLite}
	postgres, sqlite := both[:1], both[1:]
	for _, tt := range []struct {
		name     string
		dialects []retrytable.Dialect
		script   string
		want     []string
	}{
		{"no table", both, "", []string{"partition_state: ", "it has to have customer text, query text, partition_key text"}},
		{"half of the columns", both, without("customer text, ", "attempt_count bigint, ", "updated_at {instant}"), []string{
			"partition_state.customer: there is no such column; run: ALTER TABLE partition_state ADD COLUMN customer text",
			"partition_state.attempt_count: there is no such column; run: ALTER TABLE partition_state ADD COLUMN attempt_count bigint",
			"partition_state.updated_at: there is no such column; run: ALTER TABLE partition_state ADD COLUMN updated_at ",
		}},
		{"no status", both, without("status text, "), []string{"partition_state.status: there is no such column"}},
		{"text for an instant", postgres, strings.Replace(table, "{instant}", "text", 1), []string{
			"partition_state.updated_at: ", "operator does not exist: text",
			"; run: ALTER TABLE partition_state ALTER COLUMN updated_at TYPE timestamptz USING CAST(updated_at AS timestamptz)",
		}},
		{"no instants in text", sqlite, strings.Replace(table, "{instant}", "TIMESTAMP", 1) + failed + "'soon', 1)", []string{
			"partition_state.updated_at: is no instant of these years in 1 rows; run: UPDATE partition_state SET updated_at = (strftime(",
		}},
		{"an instant as text", sqlite, table + failed + "'2026-11-18 12:00:00', 1)", []string{
			"partition_state.updated_at: is no instant of these years in 1 rows; run: UPDATE partition_state SET updated_at = ",
		}},
		{"seconds", postgres, strings.Replace(table, "{instant}", "bigint", 1), []string{"partition_state.updated_at: ", "bigint"}},
		{"seconds", sqlite, table + failed + "unixepoch(), 1)", []string{"partition_state.updated_at: is no instant of these years in 1 rows"}},
		{"the past century", both, table + failed + "{now} - 900000000000000 * {microsecond}, 1)", []string{
			"partition_state.updated_at: is no instant of these years in 1 rows; run: UPDATE partition_state SET updated_at = ", " WHERE status = 'failed' AND ",
		}},
		{"no instant", both, table + failed + "NULL, 1)", []string{"partition_state.updated_at: is no instant of these years in 1 rows; run: UPDATE "}},
		{"for ever", postgres, table + failed + "'-infinity', 1)", []string{"partition_state.updated_at: is no instant of these years in 1 rows"}},
		{"a negative count", both, table + failed + "{now}, -1)", []string{
			"partition_state.attempt_count: is negative in 1 rows; run: UPDATE partition_state SET attempt_count = 1 " +
				"WHERE status = 'failed' AND attempt_count < 0",
		}},
		{"text for a count", postgres, strings.Replace(table, "bigint", "text", 1), []string{
			"partition_state.attempt_count: ", "; run: ALTER TABLE partition_state ALTER COLUMN attempt_count TYPE bigint USING ",
		}},
		{"json for a message", postgres, strings.Replace(table, "error_message text", "error_message jsonb", 1), []string{
			"partition_state.error_message: ", "; run: ALTER TABLE partition_state ALTER COLUMN error_message TYPE text USING ",
		}},
		{"a number for a status", postgres, strings.Replace(table, "status text", "status int", 1), []string{
			"partition_state.status: ", "; run: ALTER TABLE partition_state ALTER COLUMN status TYPE text USING ",
		}},
		{"an enum without a word", postgres, "CREATE TYPE state AS ENUM ('failed', 'success');" +
			strings.Replace(table, "status text", "status state", 1), []string{
			`partition_state.status: `, `invalid input value for enum state: "pending"`, "; run: ALTER TABLE partition_state ALTER COLUMN status TYPE text USING ",
		}},
	} {
		for _, dialect := range tt.dialects {
			t.Run(fmt.Sprint(dialect, " ", tt.name), func(t *testing.T) {
				t.Parallel()
				db := dbtest.New(t, dialect)
				dbtest.Exec(t, db, tt.script)
				before := contents(t, db)
				for _, command := range []string{"serve", "serve -dry-run", "state retry", "state retry -force", "state retry -dry-run"} {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // serve has no end otherwise
					err := program.Run(ctx, append(strings.Fields(command), "-dsn", db.DSN), io.Discard)
					cancel()
					for _, want := range tt.want {
						assert.ErrorContains(t, err, want, command)
					}
				}
				assert.Equal(t, before, contents(t, db))
			})
		}
	}
}

// SQLite's instants may be text, as in the tables of runs and tickets, in any of its forms.
func TestTextInstants(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, retrytable.SQLite)
	dbtest.Exec(t, db, "CREATE TABLE partition_state (customer text, query text, partition_key text, status text, "+
		"attempt_count bigint, error_message text, updated_at TIMESTAMP)")
	dbtest.Exec(t, db, `INSERT INTO partition_state VALUES
		('c', 'q', 'due', 'failed', 1, NULL, datetime('now', '-6 minutes')),
		('c', 'q', 'due too', 'failed', 1, NULL, strftime('%Y-%m-%dT%H:%M:%f', 'now', '+1 hour', '-6 minutes') || '+01:00'),
		('c', 'q', 'waits', 'failed', 1, NULL, datetime('now', '-4 minutes'))`)
	out := dbtest.Run(t, program.Run, "state", "retry", "-dsn", db.DSN)
	assert.Contains(t, out, "\n2 retried\n")
	kept := dbtest.Get[string](t, db, `SELECT group_concat(partition_key) FROM partition_state WHERE status = 'failed'`)
	assert.Equal(t, "waits", kept)
	assert.Equal(t, 2, dbtest.Get[int](t, db, `SELECT count(*) FROM partition_state WHERE status = 'pending'
		AND typeof(updated_at) = 'text' AND unixepoch('now') - unixepoch(updated_at) BETWEEN 0 AND 60`))
}

// A failure of the database is no fault of the table: no statement is told.
func TestFailureOfTheCheck(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, retrytable.PostgreSQL)
	dbtest.Exec(t, db, `CREATE FUNCTION broken() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
			RAISE EXCEPTION 'shutting down' USING ERRCODE = 'admin_shutdown'; END $$;
		CREATE TABLE rows (customer text, query text, partition_key text, status text, error_message text, updated_at timestamptz);
		INSERT INTO rows VALUES ('c', 'q', 'p', 'failed', '', now());
		CREATE VIEW partition_state AS SELECT *, broken() AS attempt_count FROM rows`)
	d, _ := newDaemon(db)
	err := d.check(t.Context())
	assert.ErrorContains(t, err, "shutting down")
	assert.NotContains(t, err.Error(), "ALTER TABLE")
}

// The statements that a refusal tells make the table fit.
func TestRepair(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		status := "text"
		if db.Dialect == retrytable.PostgreSQL {
			dbtest.Exec(t, db, "CREATE TYPE state AS ENUM ('failed', 'success')")
			status = "state DEFAULT 'success'"
		}
		dbtest.Exec(t, db, "CREATE TABLE partition_state (query text, status "+status+", updated_at text)")
		dbtest.Exec(t, db, "INSERT INTO partition_state VALUES ('q', 'failed', '1999-12-31 23:59:59')")
		dryRun := func() error {
			return program.Run(t.Context(), []string{"state", "retry", "-dry-run", "-dsn", db.DSN}, io.Discard)
		}
		for range 5 {
			err := dryRun()
			if err == nil {
				return
			}
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if _, statement, ok := strings.Cut(line, "; run: "); ok {
					dbtest.Exec(t, db, statement)
				}
			}
		}
		assert.NoError(t, dryRun())
	})
}

// No command makes anything in the database of a user, whatever its flags.
func TestNothingIsMade(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		create(t, db)
		insert(t, db, nth(0), time.Hour, nil)
		before := contents(t, db)
		for _, flags := range []string{"", " -force", " -customer c0", " -customer c0 -query q0 -force", " -base 1s -cap 2s -jitter 0"} {
			out := dbtest.Run(t, program.Run, append(strings.Fields("state retry -dry-run"+flags), "-dsn", db.DSN)...)
			assert.Contains(t, out, "\n1 would be retried\n", flags)
		}
		for _, flags := range []string{"", " -base 1s -cap 2s -jitter 0"} {
			served, stop := dbtest.Start(t, program.Run, append(strings.Fields("serve -dry-run -interval 1ms"+flags), "-dsn", db.DSN)...)
			served.Await(t, "msg=retry .* dry_run=true")
			assert.ErrorIs(t, stop(), context.Canceled)
		}
		index := dbtest.Run(t, program.Run, "index", "-dsn", db.DSN)
		assert.Equal(t, before, contents(t, db), "neither rows nor definitions")

		served, stop := dbtest.Start(t, program.Run, "serve", "-interval", "1ms", "-dsn", db.DSN)
		served.Await(t, `msg="sweeps without an index" statement="CREATE INDEX`)
		served.Await(t, "msg=retry .* dry_run=false")
		assert.ErrorIs(t, stop(), context.Canceled)
		assert.Equal(t, 1, strings.Count(served.String(), "without an index"), "said once")
		assert.Len(t, contents(t, db), len(before), "no definition")

		assert.Equal(t, db.Dialect == retrytable.PostgreSQL, strings.HasPrefix(index, "CREATE INDEX CONCURRENTLY IF NOT EXISTS "))
		for range 2 {
			dbtest.Exec(t, db, index)
		}
		served, stop = dbtest.Start(t, program.Run, "serve", "-interval", "1ms", "-dsn", db.DSN)
		served.Await(t, "msg=partitions")
		insert(t, db, nth(1), time.Hour, nil)
		served.Await(t, "msg=retry")
		assert.ErrorIs(t, stop(), context.Canceled)
		assert.NotContains(t, served.String(), "without an index")
	})
}

// A dry run cannot write, whatever the table does: here, to read it is to write.
func TestDryRunCannotWrite(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, retrytable.PostgreSQL)
	dbtest.Exec(t, db, `CREATE TABLE reads (at timestamptz);
		CREATE FUNCTION counted() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO reads VALUES (now()); RETURN 1; END $$;
		CREATE VIEW partition_state AS SELECT 'c' AS customer, 'q' AS query, 'p' AS partition_key, 'failed' AS status,
			counted() AS attempt_count, '' AS error_message, now() - interval '1 hour' AS updated_at`)
	for _, command := range []string{"serve -dry-run", "state retry -dry-run", "state retry -dry-run -force"} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := program.Run(ctx, append(strings.Fields(command), "-dsn", db.DSN), io.Discard)
		cancel()
		assert.ErrorContains(t, err, "read-only transaction", command)
	}
}

// A file that somebody else made keeps its journal.
func TestJournalStays(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, retrytable.SQLite)
	create(t, db)
	dbtest.Exec(t, db, "PRAGMA journal_mode = DELETE")
	for _, command := range []string{"index", "state retry", "state retry -dry-run"} {
		dbtest.Run(t, program.Run, append(strings.Fields(command), "-dsn", db.DSN)...)
	}
	other, err := sql.Open("sqlite", db.DSN)
	require.NoError(t, err)
	defer func() { _ = other.Close() }()
	var mode string
	require.NoError(t, other.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode))
	assert.Equal(t, "delete", mode)
}

// Instants that are text are written in the form that the table has.
func TestFormOfInstants(t *testing.T) {
	t.Parallel()
	for found, want := range map[string]string{
		"2024-05-06T07:08:09.123456":    `^[\d-]{10}T[\d:]{8}\.\d{3}$`,
		"2024-05-06 07:08:09":           `^[\d-]{10} [\d:]{8}$`,
		"2024-05-06T07:08:09Z":          `^[\d-]{10}T[\d:]{8}Z$`,
		"2024-05-06T07:08:09.123+00:00": `^[\d-]{10}T[\d:]{8}\.\d{3}\+00:00$`,
		"2024-05-06 09:08:09+02:00":     `^[\d-]{10} [\d:]{8}\+00:00$`,
	} {
		db := dbtest.New(t, retrytable.SQLite)
		dbtest.Exec(t, db, "CREATE TABLE partition_state (customer text, query text, partition_key text, status text, "+
			"attempt_count bigint, error_message text, updated_at text)")
		dbtest.Exec(t, db, "INSERT INTO partition_state VALUES ('c', 'q', 'p', 'failed', 1, NULL, '"+found+"')")
		dbtest.Run(t, program.Run, "state", "retry", "-dsn", db.DSN)
		assert.Regexp(t, want, dbtest.Get[string](t, db, "SELECT updated_at FROM partition_state WHERE status = 'pending'"))
	}
}
