//nolint:thelper // what provokes an error is the test itself
package suite

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// SQLite tests a driver of SQLite.
type SQLite struct {
	Open     func(dsn string) (*sql.DB, error)
	CantOpen retry.Verdict // of a file in a directory that does not exist
}

// Run runs the tests.
func (s SQLite) Run(t *testing.T) {
	t.Helper()
	t.Run("Errors", s.errors)
	t.Run("Deferred constraint", s.deferred)
	t.Run("Timeout", s.timeout)
	t.Run("Transfers", func(t *testing.T) {
		db := s.open(t)
		db.SetMaxOpenConns(4)
		Bank{DB: db, Goroutines: 8, Transfers: 50}.Run(t)
	})
}

// open opens a new file. The drivers take their settings by different names, and
// ignore those of others. A locked database is an error at once. A transaction takes its
// lock when it writes first; ncruces/go-sqlite3 would take it at BEGIN.
func (s SQLite) open(t *testing.T) *sql.DB {
	t.Helper()
	return s.reopen(t, filepath.Join(t.TempDir(), "test.db"), "&_journal_mode=wal&_pragma=journal_mode(wal)")
}

func (s SQLite) reopen(t *testing.T, path, settings string) *sql.DB {
	t.Helper()
	db, err := s.Open("file:" + filepath.ToSlash(path) +
		"?_txlock=deferred&_busy_timeout=0&_foreign_keys=1&_pragma=busy_timeout(0)&_pragma=foreign_keys(1)" + settings)
	require.NoError(t, err)
	t.Cleanup(func() {
		testkit.Idle(t, db)
		assert.NoError(t, db.Close())
	})
	return db
}

func (s SQLite) errors(t *testing.T) {
	db := s.open(t)
	Exec(t, db, "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL)", "INSERT INTO item VALUES (1, 'a')")
	Provoke(t, "locked by another writer", func(t *testing.T) error {
		one := Begin(t, db, sql.LevelDefault)
		Exec(t, one, "INSERT INTO item VALUES (2, 'b')")
		return Try(t, db, "INSERT INTO item VALUES (3, 'c')")
	}, retry.Retryable, "sqlite_5")
	Provoke(t, "read from an old snapshot", func(t *testing.T) error {
		one := Begin(t, db, sql.LevelDefault)
		var name string
		require.NoError(t, one.QueryRowContext(t.Context(), "SELECT name FROM item WHERE id = 1").Scan(&name))
		Exec(t, db, "UPDATE item SET name = 'x' WHERE id = 1")
		return Try(t, one, "UPDATE item SET name = 'y' WHERE id = 1")
	}, retry.Retryable, "sqlite_517")
	Provoke(t, "primary key", func(t *testing.T) error {
		return Try(t, db, "INSERT INTO item VALUES (1, 'z')")
	}, retry.Final, "sqlite_1555")
	Provoke(t, "unique", func(t *testing.T) error {
		return Try(t, db, "INSERT INTO item VALUES (9, 'x')")
	}, retry.Final, "sqlite_2067")
	Provoke(t, "not null", func(t *testing.T) error {
		return Try(t, db, "INSERT INTO item VALUES (9, NULL)")
	}, retry.Final, "sqlite_1299")
	Provoke(t, "syntax", func(t *testing.T) error {
		return Try(t, db, "INSERT OVER item")
	}, retry.Final, "sqlite_1")
	Provoke(t, "full", func(t *testing.T) error {
		conn := Conn(t, db)
		var pages int
		require.NoError(t, conn.QueryRowContext(t.Context(), "PRAGMA max_page_count = 1").Scan(&pages))
		return Try(t, conn, "INSERT INTO item VALUES (10, hex(zeroblob(100000)))")
	}, retry.Final, "sqlite_13")
	Provoke(t, "read-only", func(t *testing.T) error {
		path := filepath.Join(t.TempDir(), "ro.db")
		Exec(t, s.reopen(t, path, ""), "CREATE TABLE item (id INTEGER)")
		return Try(t, s.reopen(t, path, "&mode=ro"), "INSERT INTO item VALUES (1)")
	}, retry.Final, "sqlite_8")
	Provoke(t, "no such directory", func(t *testing.T) error {
		return Try(t, s.reopen(t, filepath.Join(t.TempDir(), "none", "x.db"), ""), "CREATE TABLE item (id INTEGER)")
	}, s.CantOpen.Class, s.CantOpen.Category)
}

// deferred has a COMMIT that fails and leaves the transaction open. It is Final,
// and the connection can be used again.
func (s SQLite) deferred(t *testing.T) {
	db := s.open(t)
	db.SetMaxOpenConns(1)
	Exec(t, db, "CREATE TABLE parent (id INTEGER PRIMARY KEY)",
		"CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")
	err := retrysql.InTx(t.Context(), db, nil, nil, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO child VALUES (1)")
		return err
	})
	assert.Equal(t, "sqlite_787", retrysql.Classify(err).Category)
	require.NotErrorIs(t, err, retrysql.ErrCommitUnknown)
	Exec(t, db, "INSERT INTO parent VALUES (1)")
	assert.Zero(t, Count(t, db, "child"))
	assert.Equal(t, 1, Count(t, db, "parent"))
}

// timeout interrupts a statement that does not end.
func (s SQLite) timeout(t *testing.T) {
	db := s.open(t)
	Exec(t, db, "CREATE TABLE item (id INTEGER)")
	var attempts atomic.Int32
	p := &retry.Policy{AttemptTimeout: 100 * time.Millisecond, Backoff: retry.Constant(0)}
	require.NoError(t, retrysql.InTx(t.Context(), db, p, nil, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO item VALUES (1)"); err != nil {
			return err
		}
		if attempts.Add(1) > 1 {
			return nil
		}
		_, err := tx.ExecContext(ctx, `WITH RECURSIVE forever(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM forever)
			INSERT INTO item SELECT n FROM forever WHERE n < 0`)
		return err
	}))
	assert.EqualValues(t, 2, attempts.Load())
	assert.Equal(t, 1, Count(t, db, "item"))
}
