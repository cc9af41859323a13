package dbtest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared"
)

// instant is how both databases read an instant, in UTC.
const instant = "2006-01-02 15:04:05.000"

// Clock is the clock of one database, by which the statements of [shared.DB.SQL]
// and of retrytable go. It stands still until it is set.
type Clock struct {
	db     *shared.DB
	sqlite *sqliteClock // nil for PostgreSQL
}

// StopClock opens a database once more, with a clock that says at. A SQLite file
// has it only for who uses what is returned here, and in it a DEFAULT is always the
// instant at which its table was created.
func StopClock(t testing.TB, db *shared.DB, at time.Time) (*shared.DB, *Clock) {
	t.Helper()
	clock := &Clock{db: db}
	if db.Dialect == retrytable.SQLite {
		clock.sqlite = &sqliteClock{driver: db.Driver(), source: shared.SQLiteSource(db.DSN)}
		clock.Set(t, at)
		stopped := sql.OpenDB(clock.sqlite)
		stopped.SetMaxOpenConns(1)
		return cleanUp(t, &shared.DB{DB: stopped, Dialect: db.Dialect, DSN: db.DSN}, nil), clock
	}
	clock.Set(t, at)
	return reopenWith(t, db, func(settings url.Values) {
		settings.Set("search_path", settings.Get("search_path")+",pg_catalog") // where ours comes first
	}), clock
}

// Set sets the clock, to the millisecond.
func (c *Clock) Set(t testing.TB, at time.Time) {
	t.Helper()
	text := at.UTC().Format(instant)
	if c.sqlite != nil {
		c.sqlite.at.Store(&text)
		return
	}
	for _, name := range []string{"statement_timestamp", "clock_timestamp"} {
		Exec(t, c.db, fmt.Sprintf("CREATE OR REPLACE FUNCTION %s() RETURNS timestamptz "+
			"STABLE LANGUAGE sql AS $$ SELECT timestamptz '%s+00' $$", name, text))
	}
}

// sqliteClock opens connections whose statements have an instant instead of 'now'.
// A function of the same name would be one for all databases of the process.
type sqliteClock struct {
	driver driver.Driver
	source string
	at     atomic.Pointer[string]
}

func (c *sqliteClock) Connect(context.Context) (driver.Conn, error) {
	opened, err := c.driver.Open(c.source)
	if err != nil {
		return nil, err
	}
	return &sqliteConn{opened.(fullConn), c}, nil
}

func (c *sqliteClock) Driver() driver.Driver { return c.driver }

func (c *sqliteClock) stop(query string) string {
	return strings.ReplaceAll(query, "julianday('now')", "julianday('"+*c.at.Load()+"')")
}

// fullConn is what package sql asks of a connection, as far as the driver knows it.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
}

type sqliteConn struct {
	fullConn

	clock *sqliteClock
}

func (c *sqliteConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return c.fullConn.PrepareContext(ctx, c.clock.stop(query))
}

func (c *sqliteConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.fullConn.ExecContext(ctx, c.clock.stop(query), args)
}

func (c *sqliteConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.fullConn.QueryContext(ctx, c.clock.stop(query), args)
}
