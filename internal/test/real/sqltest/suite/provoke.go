package suite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// Provoke makes a database fail, and checks how that is judged. Several categories
// stand for a failure where the category, and whether it is proved that nothing
// was applied, depends on which of the two was faster.
func Provoke(t *testing.T, name string, fail func(t *testing.T) error, class retry.Class, categories ...string) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		err := fail(t)
		require.Error(t, err)
		v := retrysql.Classify(err)
		t.Logf("%T %q: %+v", err, err, v)
		assert.Equal(t, class, v.Class)
		assert.Contains(t, categories, v.Category)
		if len(categories) == 1 {
			assert.Equal(t, class >= retry.Retryable, v.NotApplied)
		}
	})
}

// Exec executes statements that succeed.
func Exec(t *testing.T, db Execer, queries ...string) {
	t.Helper()
	for _, query := range queries {
		require.NoError(t, Try(t, db, query), query)
	}
}

// Execer is a database, a connection or a transaction.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Try executes a statement that may fail.
func Try(t *testing.T, db Execer, query string) error {
	t.Helper()
	_, err := db.ExecContext(t.Context(), query)
	return err
}

// Conn takes a connection for the rest of the test. It is closed then, and not
// used again, because a test may have changed its settings.
func Conn(t *testing.T, db *sql.DB) *sql.Conn {
	t.Helper()
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { // some are closed by then
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		_ = conn.Close()
	})
	return conn
}

// Begin begins a transaction for the rest of the test.
func Begin(t *testing.T, db *sql.DB, isolation sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(context.WithoutCancel(t.Context()), &sql.TxOptions{Isolation: isolation})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() }) // some are over by then
	return tx
}

// Idle leaves idle connections in the pool, each after a statement.
func Idle(t *testing.T, db *sql.DB, n int, query string) {
	t.Helper()
	db.SetMaxIdleConns(n)
	conns := make([]*sql.Conn, n)
	for i := range conns {
		conns[i] = Conn(t, db)
		Exec(t, conns[i], query)
	}
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	require.Equal(t, n, db.Stats().Idle)
}

// Count returns the number of rows of a table.
func Count(t *testing.T, db *sql.DB, table string) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n))
	return n
}
