//nolint:thelper // what each calls is the test itself
package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
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

// eachAuthors runs a test on the tables that somebody had before.
func eachAuthors(t *testing.T, test func(t *testing.T, db *shared.DB)) {
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		dbtest.Author(t, db)
		test(t, db)
	})
}

// ends counts tasks by what they were and what they are.
func ends(t *testing.T, db *shared.DB) map[string]int {
	t.Helper()
	found := map[string]int{}
	_, err := shared.Query(t.Context(), db, func(rows *sql.Rows) (_ any, err error) {
		var name string
		var n int
		err = rows.Scan(&name, &n)
		found[name] = n
		return nil, err
	}, "SELECT name || ' > ' || status || ' ' || attempt, count(*) FROM task GROUP BY name, status, attempt")
	require.NoError(t, err)
	return found
}

const hourly = `{"max_retries": 2, "initial_delay_secs": 3600, "max_delay_secs": 3600}`

// The service does with the tasks of a table that it did not make what the specification
// says, and with those that the specification adds.
func TestAuthorsTable(t *testing.T) {
	t.Parallel()
	eachAuthors(t, func(t *testing.T, db *shared.DB) {
		e := newEnv(t, db)
		assert.Equal(t, map[string]int{
			"waiting > waiting 0": 100, "pending > pending 0": 100, "claimed > claimed 0": 100, "claimed silent > claimed 0": 100,
			"running > running 0": 100, "running silent > running 0": 100, "failure > failure 0": 100, "success > success 0": 100,
			"paused > paused 0": 100, "canceled > canceled 0": 100,
		}, ends(t, db), "migrated only")
		dbtest.Exec(t, db, `UPDATE task SET name = name || ' with retries', retry_policy = '`+hourly+`'
			WHERE id IN (SELECT id FROM task WHERE name = 'running silent' LIMIT 50)`)
		dbtest.Exec(t, db, "UPDATE task SET retry_policy = '"+hourly+"' WHERE name = 'claimed silent'")
		waits := func(name, from, next string, n int) {
			dbtest.Exec(t, db, `UPDATE task SET name = '`+name+`', status = 'retry_pending', attempt = 1, retry_policy = '{"max_retries": 2}',
				next_retry_at = `+next+` WHERE id IN (SELECT id FROM task WHERE name = '`+from+`' ORDER BY id LIMIT $1)`, n)
		}
		waits("due", "failure", "{now} - 3600000000 * {microsecond}", 50)
		waits("waits", "success", "{now} + 3600000000 * {microsecond}", 50)
		waits("now by hand", "canceled", "{now} + 3600000000 * {microsecond}", 50)
		dbtest.Exec(t, db, "UPDATE task SET next_retry_at = {now} WHERE name = 'now by hand'")
		waits("pending by hand", "canceled", "{now} + 3600000000 * {microsecond}", 25)
		dbtest.Exec(t, db, "UPDATE task SET status = 'pending' WHERE name = 'pending by hand'")
		e.step()
		e.step() // what is pending since
		want := map[string]int{
			"waiting > waiting 0": 100, "pending > running 0": 100, "claimed > claimed 0": 100, "claimed silent > retry_pending 1": 100,
			"running > running 0": 100, "running silent > failure 0": 50, "running silent with retries > retry_pending 1": 50,
			"failure > failure 0": 50, "due > running 1": 50, "success > success 0": 50, "waits > retry_pending 1": 50,
			"paused > paused 0": 100, "canceled > canceled 0": 25, "now by hand > running 1": 50, "pending by hand > running 1": 25,
		}
		assert.Equal(t, want, ends(t, db))
		e.none("failure_reason <> CASE WHEN name LIKE 'claimed%' THEN 'lost: whoever called its on_start has died, or was cut off from the database' ELSE 'timeout: no word for 60 s' END")

		id := dbtest.Get[string](t, db, "SELECT id FROM task WHERE name = 'running' LIMIT 1") // the API serves them too
		e.patch(id, `{"status": "Success", "new_success": 2}`)
		e.is(id, "Success", 0, 0)
		e.post(`[{"id": "a", "name": "A", "kind": "x"}, {"id": "b", "name": "B", "kind": "x", "dependencies": ["a"]}]`)
		e.request(http.MethodGet, "/task/nobody", "", http.StatusNotFound, nil)
		require.NoError(t, e.db.Migrate(t.Context(), io.Discard, e.schema(), false), "again")
		require.NoError(t, e.ready(t.Context()))
	})
}

// Actions in a table of their own would not be called: a service does not start while tasks need
// them.
func TestActionsElsewhere(t *testing.T) {
	t.Parallel()
	eachAuthors(t, func(t *testing.T, db *shared.DB) {
		id := map[retrytable.Dialect]string{retrytable.PostgreSQL: "uuid", retrytable.SQLite: "text"}[db.Dialect]
		dbtest.Exec(t, db, "CREATE TABLE action (task_id "+id+", url text)")
		dbtest.Exec(t, db, "CREATE TABLE note (task_id "+id+")")
		dbtest.Exec(t, db, "INSERT INTO note SELECT id FROM task")
		dbtest.Exec(t, db, "INSERT INTO action SELECT id, 'http://x' FROM task WHERE name IN ('pending', 'success')")
		dbtest.Run(t, program.Run, "migrate", "-dsn", db.DSN)
		err := program.Run(t.Context(), []string{"serve", "-dsn", db.DSN}, io.Discard)
		assert.ErrorContains(t, err, "action: has actions of 100 tasks that have not ended, such as ")
		assert.ErrorContains(t, err, "copy them to the columns on_start, on_success and on_failure of task")
		assert.NotContains(t, err.Error(), "note")
		dbtest.Exec(t, db, `UPDATE task SET on_success = '{"kind": "Webhook", "params": {"url": "http://x", "verb": "Post"}}' WHERE name = 'pending'`)
		assert.NoError(t, newService(db, config{}, slog.New(slog.DiscardHandler)).ready(t.Context()))
	})
}

// The services of before and of now work on one table for as long as dbtest.Together says, and
// it is migrated meanwhile: each task is started once, and all of them end.
func TestOldAndNewWorkers(t *testing.T) {
	t.Parallel()
	eachAuthors(t, func(t *testing.T, db *shared.DB) {
		dbtest.Exec(t, db, "DELETE FROM task WHERE name NOT IN ('pending', 'running silent')")
		var mu sync.Mutex
		started := map[string]int{}
		count := func(id string) {
			mu.Lock()
			defer mu.Unlock()
			started[id]++
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var workers sync.WaitGroup
		for range 2 {
			old := dbtest.Reopen(t, db)
			workers.Go(func() {
				for ctx.Err() == nil {
					oldStep(ctx, t, old, count)
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		e := newEnv(t, dbtest.Reopen(t, db)) // migrates
		hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			id, _, _ := strings.Cut(r.Header.Get("Idempotency-Key"), ":")
			count(id)
			_, err := e.apply(r.Context(), id, patch{Status: success})
			assert.NoError(t, err)
		}))
		defer hook.Close()
		dbtest.Exec(t, db, `UPDATE task SET on_start = '{"kind": "Webhook", "params": {"url": "`+hook.URL+`", "verb": "Post"}}'
			WHERE status = 'pending'`)
		e.poll, e.interval = 20*time.Millisecond, 20*time.Millisecond
		workers.Go(func() { _ = e.work(ctx) })
		more := 0
		for end := time.Now().Add(dbtest.Together(t)); time.Now().Before(end); more++ {
			e.post(`[{"id": "a", "name": "A", "kind": "x", "timeout": 3600,
				"on_start": {"kind": "Webhook", "params": {"url": "` + hook.URL + `", "verb": "Post"}}}]`)
			time.Sleep(15 * time.Millisecond)
		}
		require.Eventually(t, func() bool {
			return dbtest.Get[int](t, db, "SELECT count(*) FROM task WHERE status NOT IN ('success', 'failure')") == 0
		}, time.Minute, 50*time.Millisecond)
		stop()
		workers.Wait()
		assert.Len(t, started, 100+more)
		for id, n := range started {
			assert.Equal(t, 1, n, id)
		}
		e.none("name = 'running silent' AND (status <> 'failure' OR failure_reason IS NULL)")
		e.none("name <> 'running silent' AND status <> 'success'")
	})
}

// oldStep is the start loop and the timeout loop of before, which know nothing of retries.
// What they have started reports its success at once.
func oldStep(ctx context.Context, t *testing.T, db *shared.DB, started func(id string)) {
	skip := ""
	if db.Dialect == retrytable.PostgreSQL {
		skip = " FOR UPDATE SKIP LOCKED"
	}
	run := func(statement string, args ...any) []string {
		ids, err := shared.Query(ctx, db, func(rows *sql.Rows) (id string, err error) { return id, rows.Scan(&id) }, db.SQL(statement), args...)
		if ctx.Err() == nil {
			assert.NoError(t, err)
		}
		return ids
	}
	for _, id := range run(`UPDATE task SET status = 'claimed', last_updated = {now} WHERE id IN
			(SELECT id FROM task WHERE status = 'pending' ORDER BY created_at LIMIT 2` + skip + `) RETURNING id`) {
		started(id)
		run("UPDATE task SET status = 'running', started_at = {now}, last_updated = {now} WHERE id = $1 AND status = 'claimed' RETURNING id", id)
		run("UPDATE task SET status = 'success', ended_at = {now}, last_updated = {now} WHERE id = $1 AND status = 'running' RETURNING id", id)
	}
	run(`UPDATE task SET status = 'failure', failure_reason = 'Timeout', ended_at = {now} WHERE status = 'running'
		AND started_at IS NOT NULL AND last_updated + timeout * CAST(1000000 AS bigint) * {microsecond} < {now} RETURNING id`)
}

// A table that does not fit is refused, with what is wrong and the statement to run, and
// nothing is changed. That statement mends it.
func TestUnfitTables(t *testing.T) {
	t.Parallel()
	const only, sqlite, postgres = 0, 1, 2
	for _, tt := range []struct {
		name, damage, want string
		on                 int
	}{
		{
			"half of the columns", "ALTER TABLE task DROP COLUMN failures; ALTER TABLE task DROP COLUMN ended_at",
			"ALTER TABLE task ADD COLUMN ended_at ", only,
		},
		{
			"no status", "DROP INDEX task_status; ALTER TABLE task DROP COLUMN status",
			"task.status: there is no such column; run: ALTER TABLE task ADD COLUMN status text NOT NULL DEFAULT 'paused'", only,
		},
		{"an enum without words", "", "ALTER TYPE status_kind ADD VALUE IF NOT EXISTS 'retry_pending'", postgres},
		{
			"negative counts", "UPDATE task SET failures = -1 WHERE name = 'running'",
			"task.failures: is negative or NULL in 100 rows; run: UPDATE task SET failures = 0 WHERE coalesce(failures, -1) < 0", only,
		},
		{
			"a negative attempt", "ALTER TABLE task ADD COLUMN attempt integer; UPDATE task SET attempt = -3 WHERE name = 'running'",
			"task.attempt: is negative or NULL in 1000 rows; run: UPDATE task SET attempt = 0 WHERE coalesce(attempt, -1) < 0", only,
		},
		{
			"a retry in the past century", "ALTER TABLE task ADD COLUMN next_retry_at timestamptz; UPDATE task SET next_retry_at = '1926-11-24Z'",
			"task.next_retry_at: is in a past century in 1000 rows; run: UPDATE task SET next_retry_at = ", postgres,
		},
		{
			"a retry in the past century", "ALTER TABLE task ADD COLUMN next_retry_at integer; UPDATE task SET next_retry_at = -1361000000000000",
			"task.next_retry_at: is in a past century in 1000 rows; run: UPDATE task SET next_retry_at = ", sqlite,
		},
		{
			"text for an instant", "ALTER TABLE task ADD COLUMN next_retry_at text; UPDATE task SET next_retry_at = '2026-11-24 10:00:00Z'",
			"is text", postgres,
		},
		{
			"text for an instant", "UPDATE task SET last_updated = '2026-11-24 10:00:00'",
			"task.last_updated: is no instant in 1000 rows; run: UPDATE task SET last_updated = unixepoch(last_updated) * 1000000", sqlite,
		},
		{
			"text for a count", "ALTER TABLE task ALTER COLUMN success DROP DEFAULT, ALTER COLUMN success TYPE text",
			"task.success: is text: ", postgres,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachAuthors(t, func(t *testing.T, db *shared.DB) {
				if tt.on == postgres && db.Dialect != retrytable.PostgreSQL || tt.on == sqlite && db.Dialect != retrytable.SQLite {
					return
				}
				if tt.damage != "" {
					dbtest.Exec(t, db, tt.damage)
				}
				before := schemaOf(t, db)
				s := newService(db, config{}, slog.New(slog.DiscardHandler))
				err := s.ready(t.Context())
				require.ErrorContains(t, err, tt.want)
				_ = s.db.Migrate(t.Context(), io.Discard, s.schema(), true) // says the same, or prints
				assert.Equal(t, before, schemaOf(t, db), "changed")
				for line := range strings.SplitSeq(err.Error(), "\n") {
					for _, before := range []string{"; run: ", "; to convert it: "} {
						if _, mend, ok := strings.Cut(line, before); ok {
							dbtest.Exec(t, db, mend)
						}
					}
				}
				require.NoError(t, s.db.Migrate(t.Context(), io.Discard, s.schema(), false))
				assert.NoError(t, s.ready(t.Context()))
			})
		})
	}
}

// A table of calls in which others have columns that need a value is refused at the start, and not
// when a webhook has been called.
func TestProbe(t *testing.T) {
	t.Parallel()
	eachAuthors(t, func(t *testing.T, db *shared.DB) {
		e := newEnv(t, db)
		dbtest.Exec(t, db, "DROP TABLE webhook_execution")
		dbtest.Exec(t, db, "CREATE TABLE webhook_execution (trigger text NOT NULL, idempotency_key text PRIMARY KEY, task_id text, "+
			"attempt int, status text, attempts bigint, due_at {instant}, lease_until {instant}, fence bigint, error text)")
		assert.ErrorContains(t, db.Migrate(t.Context(), io.Discard, e.schema(), false), "retrytable: probe: fail, for good: ")
		assert.ErrorContains(t, e.ready(t.Context()), "the tables lack something", "nothing is changed")
	})
}

// schemaOf is what a table and its rows are.
func schemaOf(t *testing.T, db *shared.DB) string {
	t.Helper()
	query := "SELECT sql FROM sqlite_master UNION ALL SELECT total_changes()"
	if db.Dialect == retrytable.PostgreSQL {
		query = `SELECT t::text FROM task AS t UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema()
			UNION ALL SELECT table_name || column_name || data_type FROM information_schema.columns WHERE table_schema = current_schema()
			UNION ALL SELECT enumlabel FROM pg_enum WHERE enumtypid = to_regtype('status_kind') ORDER BY 1`
	}
	all, err := shared.Query(t.Context(), db, func(rows *sql.Rows) (line sql.NullString, err error) { return line, rows.Scan(&line) }, query)
	require.NoError(t, err)
	return fmt.Sprint(all)
}

// A table without rows gets the status that retrytable has for new ones.
func TestMigrateWithoutRows(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		dbtest.Exec(t, db, "CREATE TABLE task (id text PRIMARY KEY)")
		assert.NotContains(t, dbtest.Run(t, program.Run, "migrate", "-dsn", db.DSN), "'paused'")
		assert.Equal(t, "-- nothing is missing\n", dbtest.Run(t, program.Run, "migrate", "-dsn", db.DSN))
	})
}

// The command prints what it would do, and does it once.
func TestMigrate(t *testing.T) {
	t.Parallel()
	eachAuthors(t, func(t *testing.T, db *shared.DB) {
		err := program.Run(t.Context(), []string{"serve", "-dsn", db.DSN}, io.Discard)
		require.ErrorContains(t, err, "the tables lack something; tasks migrate runs")
		printed := dbtest.Run(t, program.Run, "migrate", "-print", "-dsn", db.DSN)
		assert.Contains(t, err.Error(), strings.TrimSpace(printed))
		for _, want := range []string{"retry_policy jsonb", "attempt", "next_retry_at"} {
			assert.Contains(t, printed, want)
		}
		assert.Equal(t, printed, dbtest.Run(t, program.Run, "migrate", "-print", "-dsn", db.DSN))
		assert.Equal(t, printed, dbtest.Run(t, program.Run, "migrate", "-dsn", db.DSN))
		assert.Equal(t, "-- nothing is missing\n", dbtest.Run(t, program.Run, "migrate", "-dsn", db.DSN))
		dbtest.Exec(t, dbtest.Reopen(t, db), "ALTER TABLE task DROP COLUMN on_failure")
		err = program.Run(t.Context(), []string{"serve", "-dsn", db.DSN}, io.Discard)
		assert.ErrorContains(t, err, "prints:\nALTER TABLE task ADD COLUMN on_failure jsonb;")
	})
}
