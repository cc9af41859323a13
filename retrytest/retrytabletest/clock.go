// Package retrytabletest has what tests of programs over package retrytable need.
package retrytabletest

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"sync"
	"time"
)

// Clock is the clock of a database, as the statements of package retrytable see it. It
// stands still until it is set, so that a test needs no time for delays and leases:
//
//	clock := retrytabletest.NewClock(time.Now())
//	db := sql.OpenDB(clock.Connector(retrytabletest.Opener(&sqlite.Driver{}, "file:test.db")))
//
// In the text of each statement that goes through a connection of [Clock.Connector], it
// puts an instant in the place of statement_timestamp() and clock_timestamp() of
// PostgreSQL, and of julianday('now') of SQLite. What does not go through such a
// connection, or is evaluated by the database itself, such as the DEFAULT of a column,
// has the real clock; so does a statement that names another function.
//
// A Clock is safe for concurrent use.
type Clock struct {
	mu sync.RWMutex
	at time.Time
}

// NewClock returns a Clock that says at, to the millisecond.
func NewClock(at time.Time) *Clock { return &Clock{at: at} }

// Set sets the clock, forward or back.
func (c *Clock) Set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

// Advance moves the clock on, or back by a negative d.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// Now returns what the clock says.
func (c *Clock) Now() time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.at.UTC().Truncate(time.Millisecond)
}

// Connector returns a connector for [database/sql.OpenDB] whose connections have this
// clock. The driver must know contexts, as all that are in use do.
func (c *Clock) Connector(of driver.Connector) driver.Connector { return &connector{of, c} }

// Opener returns a connector for drivers that have none of their own.
func Opener(d driver.Driver, name string) driver.Connector { return opener{d, name} }

type opener struct {
	driver driver.Driver
	name   string
}

// Connect implements [driver.Connector].
func (o opener) Connect(context.Context) (driver.Conn, error) { return o.driver.Open(o.name) }

// Driver implements [driver.Connector].
func (o opener) Driver() driver.Driver { return o.driver }

type connector struct {
	driver.Connector

	clock *Clock
}

// Connect implements [driver.Connector].
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	opened, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	full, ok := opened.(fullConn)
	if !ok {
		return nil, errors.Join(errors.New("retrytabletest: the driver knows no contexts"), opened.Close())
	}
	return &conn{full, c.clock}, nil
}

// fullConn is what package sql asks of a connection.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
}

type conn struct {
	fullConn

	clock *Clock
}

func (c *conn) text(query string) string {
	now := c.clock.Now().Format("2006-01-02 15:04:05.000")
	postgres := "timestamptz '" + now + "+00'"
	return strings.NewReplacer("julianday('now')", "julianday('"+now+"')",
		"statement_timestamp()", postgres, "clock_timestamp()", postgres).Replace(query)
}

// PrepareContext implements [driver.ConnPrepareContext]. A prepared statement keeps the
// instant.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return c.fullConn.PrepareContext(ctx, c.text(query))
}

// ExecContext implements [driver.ExecerContext].
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.fullConn.ExecContext(ctx, c.text(query), args)
}

// QueryContext implements [driver.QueryerContext].
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.fullConn.QueryContext(ctx, c.text(query), args)
}

// CheckNamedValue implements [driver.NamedValueChecker], if the driver does.
func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.fullConn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// ResetSession implements [driver.SessionResetter], if the driver does.
func (c *conn) ResetSession(ctx context.Context) error {
	if resetter, ok := c.fullConn.(driver.SessionResetter); ok {
		return resetter.ResetSession(ctx)
	}
	return nil
}

// IsValid implements [driver.Validator], if the driver does.
func (c *conn) IsValid() bool {
	validator, ok := c.fullConn.(driver.Validator)
	return !ok || validator.IsValid()
}
