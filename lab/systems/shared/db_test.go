//nolint:thelper // what Each calls is the test itself
package shared_test

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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

// A database of a test goes with all it has, and hides what there is beside it.
func TestNew(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		var dsn string
		dbtest.Exec(t, db, "CREATE TABLE x (id bigint)")
		t.Run("another", func(t *testing.T) {
			other := dbtest.New(t, db.Dialect)
			dbtest.Exec(t, other, "CREATE TABLE x (id bigint)")
			dsn = other.DSN
		})
		again, err := shared.OpenExisting(t.Context(), dsn)
		if err == nil {
			_, err = again.ExecContext(t.Context(), "SELECT 1 FROM x")
			require.NoError(t, again.Close())
		}
		assert.Error(t, err, "it has gone")
		dbtest.Exec(t, dbtest.Reopen(t, db), "INSERT INTO x VALUES (1)")
	})
}

// A database that was named stays.
func TestFile(t *testing.T) {
	t.Parallel()
	dsn := filepath.Join(t.TempDir(), "a ? & %20 #.db")
	for range 2 {
		db, err := shared.Open(t.Context(), dsn)
		require.NoError(t, err)
		dbtest.Exec(t, db, "CREATE TABLE IF NOT EXISTS x (id bigint)")
		mode := dbtest.Get[string](t, db, "PRAGMA journal_mode")
		assert.Equal(t, "wal", mode)
		require.NoError(t, db.Close())
		assert.FileExists(t, dsn)
	}
}

// A DSN that cannot be right is an error, which does not show it, and no new file of
// that name.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	text := filepath.Join(folder, "text")
	require.NoError(t, os.WriteFile(text, []byte("this is a text, and no database"), 0o600))
	for dsn, want := range map[string]string{
		"":                                            "the DSN is missing: postgres://user@host/name or the name of a file",
		"mysql://root:secret@h/test":                  "the DSN must be postgres://user@host/name or the name of a file",
		"host=h password=secret":                      "the DSN must be postgres://user@host/name or the name of a file; a new one ends in .db, .sqlite or .sqlite3",
		filepath.Join(folder, "host=h"):               "the DSN must be",
		filepath.Join(folder, "data"):                 "the DSN must be",
		filepath.Join(folder, ".db5"):                 "the DSN must be",
		"postgres://postgres:secret@127.0.0.1:1/test": "",
		"postgres://postgres:secret@127.0.0.1:x/test": "",
		text:   "file is not a database",
		folder: "unable to open database file",
	} {
		for _, open := range []shared.Opener{shared.Open, shared.OpenExisting, shared.OpenReadOnly} {
			_, err := open(t.Context(), dsn)
			assert.ErrorContains(t, err, "open database: "+want, dsn)
			assert.NotContains(t, fmt.Sprint(err), "secret")
		}
	}
	missing := filepath.Join(folder, "no", "test.db")
	_, err := shared.Open(t.Context(), missing)
	assert.ErrorContains(t, err, "open database: unable to open database file")
	for _, open := range []shared.Opener{shared.OpenExisting, shared.OpenReadOnly} {
		_, err := open(t.Context(), missing)
		assert.ErrorIs(t, err, fs.ErrNotExist)
		_, err = open(t.Context(), filepath.Join(folder, "typo.db"))
		assert.ErrorIs(t, err, fs.ErrNotExist)
	}
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Len(t, files, 1, "none is made")
}

// One that has to be there can be written to, if it is not for reading only.
func TestOpenExisting(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		dbtest.Exec(t, db, "CREATE TABLE x (id bigint)")
		again, err := shared.OpenExisting(t.Context(), db.DSN)
		require.NoError(t, err)
		dbtest.Exec(t, again, "INSERT INTO x VALUES (7)")
		require.NoError(t, again.Close())

		again, err = shared.OpenReadOnly(t.Context(), db.DSN)
		require.NoError(t, err)
		defer func() { assert.NoError(t, again.Close()) }()
		for _, statement := range []string{"INSERT INTO x VALUES (8)", "DROP TABLE x", "CREATE INDEX y ON x (id)"} {
			_, err = again.ExecContext(t.Context(), statement)
			assert.ErrorContains(t, err, map[retrytable.Dialect]string{
				retrytable.PostgreSQL: "read-only transaction", retrytable.SQLite: "readonly database",
			}[db.Dialect])
		}
		id := dbtest.Get[int](t, again, "SELECT id FROM x")
		assert.Equal(t, 7, id)
	})
}

// Instants are written and read, compared, and moved by microseconds.
func TestInstants(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		dbtest.Exec(t, db, "CREATE TABLE x (at {instant})")
		var at, later shared.Instant
		require.NoError(t, db.QueryRowContext(t.Context(),
			db.SQL("INSERT INTO x VALUES ({now}) RETURNING at, at + $1 * {microsecond}"), 90_000_001).Scan(&at, &later))
		assert.WithinDuration(t, time.Now(), at.Time, 10*time.Second)
		assert.Equal(t, 90*time.Second+time.Microsecond, later.Sub(at.Time))
		assert.Equal(t, time.UTC, at.Location())

		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT NULL").Scan(&at))
		assert.True(t, at.IsZero())
		assert.ErrorContains(t, db.QueryRowContext(t.Context(), "SELECT 'soon'").Scan(&at), "is no instant")
	})
}

// ofTwo is a schema with a table of jobs, which is made, and another one.
func ofTwo(db *shared.DB) *shared.Schema {
	s := shared.MustSchema(`
program: prog
tables:
  - name: x
    new: id bigint PRIMARY KEY
    id: bigint
    columns: |
      a bigint
      at {instant}
    indexes: x_at (at, fence)
  - name: y
    columns: x_id {x}
    indexes: y_x (x_id)
`)
	s.Jobs = &retrytable.Table[string]{Dialect: db.Dialect, Name: "x"}
	return s
}

// Migrations that run together do what is missing once.
func TestMigrateTogether(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		dbtest.Exec(t, db, "CREATE TABLE y (id bigint PRIMARY KEY)")
		assert.ErrorContains(t, db.Check(t.Context(), ofTwo(db)), "the tables lack something; prog migrate runs, and with -print prints:\nCREATE TABLE x")
		var wg sync.WaitGroup
		for range 6 {
			process := dbtest.Reopen(t, db)
			wg.Go(func() { assert.NoError(t, process.Migrate(t.Context(), io.Discard, ofTwo(db), false)) })
		}
		wg.Wait()
		assert.NoError(t, db.Check(t.Context(), ofTwo(db)))
		dbtest.Exec(t, db, "INSERT INTO x (id, a, at) VALUES (1, 2, {now})")
	})
}

// A migration is printed, and done unless it is only to be printed.
func TestMigrate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		dbtest.Exec(t, db, "CREATE TABLE y (id bigint PRIMARY KEY)")
		var printed, done, again strings.Builder
		require.NoError(t, db.Migrate(t.Context(), &printed, ofTwo(db), true))
		assert.Contains(t, printed.String(), "CREATE TABLE x (id bigint PRIMARY KEY);\nALTER TABLE x ADD COLUMN a bigint;\n")
		found, err := db.Existing(t.Context(), db, "x")
		require.NoError(t, err)
		assert.Empty(t, found)
		require.NoError(t, db.Migrate(t.Context(), &done, ofTwo(db), false))
		assert.Equal(t, printed.String(), done.String())
		require.NoError(t, db.Migrate(t.Context(), &again, ofTwo(db), false))
		assert.Equal(t, "-- nothing is missing\n", again.String())
	})
}

// The database is closed when the action has ended.
func TestOn(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, retrytable.SQLite)
	var used *shared.DB
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	action := shared.On(flags, shared.Open, func(_ context.Context, db *shared.DB, _ io.Writer) error {
		used = db
		return context.Canceled
	})
	assert.ErrorContains(t, action(t.Context(), nil), "the DSN is missing")
	require.NoError(t, flags.Parse([]string{"-dsn", db.DSN}))
	assert.ErrorIs(t, action(t.Context(), nil), context.Canceled)
	assert.ErrorContains(t, used.PingContext(t.Context()), "database is closed")
}

// All rows are read, from a transaction too, and none are half read.
func TestQuery(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		scan := func(rows *sql.Rows) (n int, err error) {
			err = rows.Scan(&n)
			return n, err
		}
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		all, err := shared.Query(t.Context(), tx, scan, "SELECT 1 UNION SELECT $1 ORDER BY 1", 2)
		require.NoError(t, err)
		assert.Equal(t, []int{1, 2}, all)
		require.NoError(t, tx.Rollback())

		_, err = shared.Query(t.Context(), db, scan, "SELECT 'one' UNION SELECT 'two'")
		assert.ErrorContains(t, err, "Scan error")
		_, err = shared.Query(t.Context(), db, scan, "SELECT FROM WHERE")
		assert.Error(t, err)
		_, err = db.ExecContext(t.Context(), "CREATE TABLE x (id bigint)") // the connection is free
		assert.NoError(t, err)
	})
}
