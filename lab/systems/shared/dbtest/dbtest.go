// Package dbtest gives tests of the systems the databases that they run on, with
// clocks that stand still and workers that are killed, and what they print.
//
// PostgreSQL and MariaDB are where RETRY_TEST_POSTGRES and RETRY_TEST_MARIADB say, or else
// the databases test on loopback, where the users postgres and root get in without a
// password. A test fails if its server is not there.
package dbtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/retrytest/retrytabletest"
)

// Each runs a test on PostgreSQL and SQLite, and on MariaDB if the program imports its driver and so
// names it, in parallel. Each database is empty and its own.
func Each(t *testing.T, test func(t *testing.T, db *shared.DB), more ...retrytable.Dialect) {
	t.Helper()
	for _, dialect := range append(more, retrytable.PostgreSQL, retrytable.SQLite) {
		t.Run(names[dialect], func(t *testing.T) {
			t.Parallel()
			test(t, New(t, dialect))
		})
	}
}

var names = map[retrytable.Dialect]string{
	retrytable.PostgreSQL: "postgres", retrytable.SQLite: "sqlite", retrytable.MySQL: "mariadb",
}

// New returns an empty database that goes with the test: a schema with a random name, or a file.
// A test that is killed leaves the schema behind, whose name begins with retry_.
func New(t testing.TB, dialect retrytable.Dialect) *shared.DB {
	t.Helper()
	if dialect == retrytable.SQLite {
		return Reopen(t, &shared.DB{DSN: filepath.Join(t.TempDir(), "test.db")})
	}
	if os.Getenv("RETRY_TEST_SERVERS") == "none" {
		t.Skip("needs a server: " + names[dialect])
	}
	schema := "retry_" + strings.ToLower(rand.Text()[:16])
	outside := cmp.Or(os.Getenv("RETRY_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test")
	inside := shared.With(outside, "search_path="+schema+"&synchronous_commit=off") // no test ends the server
	drop := "DROP SCHEMA " + schema + " CASCADE"
	if dialect == retrytable.MySQL {
		outside = "mysql://" + cmp.Or(os.Getenv("RETRY_TEST_MARIADB"), "root@tcp(127.0.0.1:3306)/test")
		address, settings, _ := strings.Cut(outside, "?")
		inside, drop = address[:strings.LastIndexByte(address, '/')+1]+schema+"?"+settings, "DROP SCHEMA "+schema
	}
	server, err := shared.Open(t.Context(), outside)
	require.NoError(t, err)
	server.SetMaxIdleConns(-1) // it is needed now, and at the end
	Exec(t, server, "CREATE SCHEMA "+schema)
	t.Cleanup(func() {
		_, err := server.ExecContext(context.WithoutCancel(t.Context()), drop)
		assert.NoError(t, errors.Join(err, server.Close()))
	})
	return Reopen(t, &shared.DB{DSN: inside})
}

// Together is for how long programs of before and of now work on one table: 3 seconds, or
// RETRY_TEST_TOGETHER.
func Together(t testing.TB) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(cmp.Or(os.Getenv("RETRY_TEST_TOGETHER"), "3s"))
	require.NoError(t, err)
	return d
}

// Reopen opens a database once more, as another process would.
func Reopen(t testing.TB, db *shared.DB) *shared.DB {
	t.Helper()
	again, err := shared.Open(t.Context(), db.DSN)
	return cleanUp(t, again, err)
}

func cleanUp(t testing.TB, db *shared.DB, err error) *shared.DB {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(func() {
		// Package sql gives a connection back on a goroutine of its own when a context ends.
		assert.Eventually(t, func() bool { return db.Stats().InUse == 0 }, 10*time.Second, time.Millisecond, "connections in use")
		assert.NoError(t, db.Close())
	})
	return db
}

// Exec executes a statement of [shared.DB.SQL].
func Exec(t testing.TB, db *shared.DB, statement string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), db.SQL(statement), args...)
	require.NoError(t, err, statement)
}

// Get returns the only value that a query of [shared.DB.SQL] has.
func Get[T any](t testing.TB, db *shared.DB, query string, args ...any) (value T) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), db.SQL(query), args...).Scan(&value), query)
	return value
}

// Author makes the tables that the author of a document has, with what is in them: by the script
// testdata/author.postgres.sql, and so on, in which words are replaced as in [strings.NewReplacer].
func Author(t testing.TB, db *shared.DB, words ...string) {
	t.Helper()
	script, err := os.ReadFile("testdata/author." + names[db.Dialect] + ".sql")
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), strings.NewReplacer(words...).Replace(string(script)))
	require.NoError(t, err)
}

// StopClock opens a database once more, with a clock that says at and stands still until it is set.
// Only who uses what is returned here has it, and no DEFAULT does.
func StopClock(t testing.TB, db *shared.DB, at time.Time) (*shared.DB, *retrytabletest.Clock) {
	t.Helper()
	clock, stopped, source := retrytabletest.NewClock(at), *db, db.DSN
	if db.Dialect == retrytable.SQLite {
		source = shared.SQLiteSource(source)
	}
	stopped.DB = sql.OpenDB(clock.Connector(retrytabletest.Opener(db.Driver(), source)))
	stopped.SetMaxOpenConns(db.Stats().MaxOpenConnections)
	return cleanUp(t, &stopped, nil), clock
}

// Plan is a [retrytable.DB] that notes how the database goes about each query.
type Plan struct {
	*shared.DB

	t    testing.TB
	text strings.Builder
}

// Explain returns a database that notes its plans.
func Explain(t testing.TB, db *shared.DB) *Plan {
	t.Helper()
	return &Plan{DB: db, t: t}
}

// String returns the plans so far.
func (p *Plan) String() string { return p.text.String() }

// QueryContext implements [retrytable.DB].
func (p *Plan) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	p.t.Helper()
	explain, unused := "EXPLAIN ", []any{}
	if p.Dialect == retrytable.SQLite {
		explain, unused = "EXPLAIN QUERY PLAN ", []any{new(int), new(int), new(int)}
	}
	lines, err := shared.Query(ctx, p.DB, func(rows *sql.Rows) (line string, err error) {
		return line, rows.Scan(append(unused, &line)...)
	}, explain+query, args...)
	require.NoError(p.t, err)
	p.text.WriteString(strings.Join(lines, "\n") + "\n")
	return p.DB.QueryContext(ctx, query, args...)
}
