package tabletest_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytable"
)

// errDown is what a database says that is down.
var errDown = errors.New("the database is down")

// bubbled is SQLite with the clock of a testing/synctest bubble, which can be switched
// off.
type bubbled struct {
	driver driver.Driver
	source string
	down   atomic.Bool
	breaks atomic.Int32 // so many of the next commits, and finishes beside transactions, take effect and yet fail
}

// openBubbled opens a new database, which must be closed within the bubble.
func openBubbled(t testing.TB) (*store, *bubbled) {
	t.Helper()
	memory, err := sql.Open("sqlite", ":memory:")
	require.NoError(t, err)
	require.NoError(t, memory.Close())
	b := &bubbled{driver: memory.Driver(), source: sqliteDSN(filepath.Join(t.TempDir(), "test.db"))}
	db := sql.OpenDB(b)
	db.SetMaxOpenConns(1)
	return &store{kinds[5], db, b.source}, b
}

func (b *bubbled) Connect(context.Context) (driver.Conn, error) {
	if b.down.Load() {
		return nil, errDown
	}
	conn, err := b.driver.Open(b.source)
	if err != nil {
		return nil, err
	}
	return &bubbledConn{conn.(fullConn), b, false}, nil
}

func (b *bubbled) Driver() driver.Driver { return b.driver }

// fullConn is what package sql asks of a connection, as far as the driver knows it.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
}

type bubbledConn struct {
	fullConn

	database *bubbled
	inTx     bool
}

func (c *bubbledConn) now(query string) string {
	const instant = "2006-01-02 15:04:05.000"
	return strings.ReplaceAll(query, "julianday('now')", fmt.Sprintf("julianday('%s')", time.Now().UTC().Format(instant)))
}

func (c *bubbledConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if c.database.down.Load() {
		return nil, errDown
	}
	result, err := c.fullConn.ExecContext(ctx, c.now(query), args)
	if err == nil && !c.inTx && strings.Contains(query, "`lease_until` = NULL") && c.database.breaks.Load() > 0 {
		c.database.breaks.Add(-1)
		return nil, errDown
	}
	return result, err
}

func (c *bubbledConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.database.down.Load() {
		return nil, errDown
	}
	return c.fullConn.QueryContext(ctx, c.now(query), args)
}

func (c *bubbledConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	if c.database.down.Load() {
		return nil, errDown
	}
	tx, err := c.fullConn.BeginTx(ctx, options)
	c.inTx = err == nil
	return &bubbledTx{tx, c}, err
}

type bubbledTx struct {
	driver.Tx

	conn *bubbledConn
}

func (tx *bubbledTx) Commit() error {
	tx.conn.inTx = false
	err := tx.Tx.Commit()
	if breaks := &tx.conn.database.breaks; err == nil && breaks.Load() > 0 {
		breaks.Add(-1)
		return errDown
	}
	return err
}

func (tx *bubbledTx) Rollback() error {
	tx.conn.inTx = false
	return tx.Tx.Rollback()
}

var _ retrytable.DB = (*sql.DB)(nil)
