package main

import (
	"database/sql/driver"
	"net/url"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"

	"github.com/seed-5ff3c98e/retry/examples/shared"
	"github.com/seed-5ff3c98e/retry/examples/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// clockOff is the variable that sets the clock of SQLite off, in all of a process.
const clockOff = "RETRY_EXAMPLE_RUNS_CLOCK_OFF"

func TestMain(m *testing.M) {
	if off, err := time.ParseDuration(os.Getenv(clockOff)); err == nil {
		setSQLiteClock(off)
	}
	dbtest.Main(m, crashWorker)
}

// A worker whose clock is an hour off, in either direction, breaks nothing. It is
// the clock of the database that is set here: the two differ all the same.
func TestWorkerClockOff(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		t.Run("postgres "+off.String(), func(t *testing.T) {
			t.Parallel()
			assertClockOff(t, postgresWithClock(t, off), off)
		})
		t.Run("sqlite "+off.String(), func(t *testing.T) {
			t.Parallel()
			if os.Getenv(clockOff) == off.String() {
				assertClockOff(t, dbtest.New(t, retrytable.SQLite), off)
				return
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^TestWorkerClockOff$/^sqlite_"+off.String()+"$")
			cmd.Env = append(os.Environ(), clockOff+"="+off.String())
			out, err := cmd.CombinedOutput()
			assert.NoError(t, err, "%s", out)
			assert.Contains(t, string(out), "--- PASS: TestWorkerClockOff/sqlite_"+off.String())
		})
	}
}

// setSQLiteClock replaces the functions that tell the time, before there is a
// connection.
func setSQLiteClock(off time.Duration) {
	now := func() float64 { return float64(time.Now().Add(off).UnixMilli()) / 1000 }
	sqlite.MustRegisterScalarFunction("julianday", 1, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		return now()/86400 + 2440587.5, nil
	})
	sqlite.MustRegisterScalarFunction("unixepoch", 1, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		return now(), nil
	})
}

// postgresWithClock returns a database in whose schema the function that tells the
// time is another one.
func postgresWithClock(t *testing.T, off time.Duration) *shared.DB {
	t.Helper()
	db := dbtest.New(t, retrytable.PostgreSQL)
	dbtest.Exec(t, db, `CREATE FUNCTION statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
		AS $$ SELECT pg_catalog.statement_timestamp() + interval '`+off.String()+`' $$`)
	u, err := url.Parse(db.DSN)
	require.NoError(t, err)
	query := u.Query()
	query.Set("search_path", query.Get("search_path")+",pg_catalog")
	u.RawQuery = query.Encode()
	db.DSN = u.String()
	return dbtest.Reopen(t, db)
}

func assertClockOff(t *testing.T, db *shared.DB, off time.Duration) {
	t.Helper()
	p := newTest(t, db)
	var now shared.Instant
	require.NoError(t, db.QueryRowContext(t.Context(), db.SQL("SELECT {now}")).Scan(&now))
	require.WithinDuration(t, time.Now().Add(off), now.Time, 10*time.Second, "the test can tell")

	submit(t, db, "web", "a")
	p.errs = []error{errPassing, limited(2 * time.Minute)}
	p.one(true)
	assert.Equal(t, record{"error", 1, "retryable", time.Minute, false}, read(t, db, "a"))
	forward(t, db, 55*time.Second)
	p.one(false)
	forward(t, db, 5*time.Second)
	p.one(true)
	r := read(t, db, "a")
	assert.GreaterOrEqual(t, r.due, 2*time.Minute)
	assert.LessOrEqual(t, r.due, 132*time.Second)
	p.one(false)
	forward(t, db, r.due)

	// Dead, and not taken over as long as the lease holds.
	assert.Equal(t, []string{"a"}, claimed(t, p.store, 1))
	forward(t, db, 55*time.Second)
	p.one(false)
	assert.Equal(t, record{"processing", 2, "rate_limited", 0, true}, read(t, db, "a"))
	forward(t, db, 5*time.Second)
	p.one(false)
	assert.Equal(t, record{"error", 2, "retryable", 2 * time.Minute, false}, read(t, db, "a"))
	forward(t, db, 2*time.Minute)
	p.one(true)
	assert.Equal(t, record{status: "passed"}, read(t, db, "a"))
}
