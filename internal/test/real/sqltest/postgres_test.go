//nolint:thelper // what provokes an error is the test itself
package sqltest_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"maps"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/examples/recipes"
	"github.com/seed-5ff3c98e/retry/internal/test/real/sqltest/suite"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// pgDrivers are the names of the drivers of PostgreSQL.
var pgDrivers = []string{"pgx", "postgres"}

// settings are parameters of a connection.
type settings map[string]string

// pgURL returns the address of the server, with settings.
func pgURL(t *testing.T, with settings) *url.URL {
	t.Helper()
	testkit.Needs(t, "PostgreSQL")
	u := testkit.Must(url.Parse(cmp.Or(os.Getenv("RETRY_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test")))(t)
	query := u.Query()
	if !query.Has("sslmode") {
		query.Set("sslmode", "disable")
	}
	for name, value := range with {
		query.Set(name, value)
	}
	u.RawQuery = query.Encode()
	return u
}

func openPG(t *testing.T, driver string, u *url.URL) *sql.DB {
	t.Helper()
	return closing(t, testkit.Must(sql.Open(driver, u.String()))(t))
}

// closing closes a database at the end, when none of its connections may be in use.
func closing(t *testing.T, db *sql.DB) *sql.DB {
	t.Helper()
	t.Cleanup(func() {
		testkit.Idle(t, db)
		assert.NoError(t, db.Close())
	})
	return db
}

// randomName returns a name that nobody else uses.
func randomName() string { return "retry_" + strings.ToLower(rand.Text()[:16]) }

// newSchema makes a schema for one test and returns the settings to use it.
// Locks that wait for each other are found at once.
func newSchema(t *testing.T) settings {
	t.Helper()
	name := randomName()
	db := openPG(t, "pgx", pgURL(t, nil))
	suite.Exec(t, db, "CREATE SCHEMA "+name)
	testkit.AtEnd(t, db, "DROP SCHEMA "+name+" CASCADE")
	return settings{"search_path": name, "deadlock_timeout": "10ms"}
}

// forPG runs a test with each driver, in a schema of its own.
func forPG(t *testing.T, test func(t *testing.T, driver string, db *sql.DB)) {
	t.Helper()
	for _, driver := range pgDrivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			test(t, driver, openPG(t, driver, pgURL(t, newSchema(t))))
		})
	}
}

// insert is a transaction of one statement.
func insert(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO item VALUES (1)")
	return err
}

func TestPostgresErrors(t *testing.T) {
	t.Parallel()
	forPG(t, func(t *testing.T, driver string, db *sql.DB) {
		t.Helper()
		suite.Exec(t, db, "CREATE TABLE item (id INT PRIMARY KEY, n INT NOT NULL)", "INSERT INTO item VALUES (1, 0), (2, 0)")
		for category, statement := range map[string]string{
			"sql_23505": "INSERT INTO item VALUES (1, 1)",
			"sql_42601": "INSERT OVER item",
			"sql_22012": "SELECT 1/0",
			"sql_P0001": "DO $$BEGIN RAISE EXCEPTION 'no'; END$$",
			"sql_0A000": "SELECT n FROM item GROUP BY n FOR UPDATE",
		} {
			suite.Provoke(t, statement, func(t *testing.T) error {
				return suite.Try(t, db, statement)
			}, retry.Final, category)
		}
		suite.Provoke(t, "serialization failure", func(t *testing.T) error {
			one := suite.Begin(t, db, sql.LevelRepeatableRead)
			suite.Exec(t, one, "SELECT n FROM item")
			suite.Exec(t, db, "UPDATE item SET n = n + 1 WHERE id = 1")
			return suite.Try(t, one, "UPDATE item SET n = n + 1 WHERE id = 1")
		}, retry.Retryable, "sql_40001")
		suite.Provoke(t, "serialization failure at the commit", func(t *testing.T) error {
			one, two := suite.Begin(t, db, sql.LevelSerializable), suite.Begin(t, db, sql.LevelSerializable)
			suite.Exec(t, one, "SELECT n FROM item")
			suite.Exec(t, two, "SELECT n FROM item")
			suite.Exec(t, one, "UPDATE item SET n = n + 1 WHERE id = 1")
			suite.Exec(t, two, "UPDATE item SET n = n + 1 WHERE id = 2")
			require.NoError(t, one.Commit())
			return two.Commit()
		}, retry.Retryable, "sql_40001")
		suite.Provoke(t, "deadlock", func(t *testing.T) error {
			return deadlock(t, db)
		}, retry.Retryable, "sql_40P01")
		suite.Provoke(t, "locked", func(t *testing.T) error {
			one := suite.Begin(t, db, sql.LevelDefault)
			suite.Exec(t, one, "UPDATE item SET n = n + 1 WHERE id = 1")
			return suite.Try(t, db, "SELECT n FROM item WHERE id = 1 FOR UPDATE NOWAIT")
		}, retry.Retryable, "sql_55P03")
		suite.Provoke(t, "statement timeout", func(t *testing.T) error {
			conn := suite.Conn(t, db)
			suite.Exec(t, conn, "SET statement_timeout = '10ms'")
			return suite.Try(t, conn, "SELECT pg_sleep(10)")
		}, retry.Final, "sql_57014")
		failed := suite.Begin(t, db, sql.LevelDefault)
		require.Error(t, suite.Try(t, failed, "SELECT 1/0"))
		suite.Provoke(t, "failed transaction", func(t *testing.T) error {
			return suite.Try(t, failed, "SELECT 1")
		}, retry.Final, "sql_25P02")
		suite.Provoke(t, "commit of a failed transaction", func(*testing.T) error {
			return failed.Commit()
		}, retry.Final, "sql_25P02")
		suite.Provoke(t, "read-only", func(t *testing.T) error {
			conn := suite.Conn(t, db)
			suite.Exec(t, conn, "SET default_transaction_read_only = on")
			return suite.Try(t, conn, "INSERT INTO item VALUES (3, 3)")
		}, retry.Retryable, "sql_25006")
		suite.Provoke(t, "cached plan", func(t *testing.T) error {
			suite.Exec(t, db, "CREATE TABLE wide (a INT)")
			stmt := testkit.Must(suite.Conn(t, db).PrepareContext(t.Context(), "SELECT * FROM wide"))(t)
			t.Cleanup(func() { _ = stmt.Close() })
			suite.Exec(t, db, "ALTER TABLE wide ADD COLUMN b INT")
			_, err := stmt.ExecContext(t.Context())
			return err
		}, retry.Retryable, "sql_0A000")
		suite.Provoke(t, "statement that is gone", func(t *testing.T) error {
			conn := suite.Conn(t, db)
			stmt := testkit.Must(conn.PrepareContext(t.Context(), "SELECT 1"))(t)
			t.Cleanup(func() { _ = stmt.Close() })
			suite.Exec(t, conn, "DEALLOCATE ALL")
			_, err := stmt.ExecContext(t.Context())
			return err
		}, retry.Retryable, "sql_26000")
		suite.Provoke(t, "idle in a transaction", func(t *testing.T) error {
			tx := suite.Begin(t, db, sql.LevelDefault)
			var pid int
			require.NoError(t, tx.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
			suite.Exec(t, tx, "SET idle_in_transaction_session_timeout = '20ms'")
			awaitBackendEnd(t, db, pid)
			return suite.Try(t, tx, "SELECT 1")
		}, retry.Retryable, lost("sql_25P03")...)
		suite.Provoke(t, "terminated before the commit", func(t *testing.T) error {
			tx := suite.Begin(t, db, sql.LevelDefault)
			terminate(t, db, tx)
			return tx.Commit()
		}, retry.Retryable, lost("sql_57P01")...)
		suite.Provoke(t, "too many connections", func(t *testing.T) error {
			role := randomName()
			suite.Exec(t, db, "CREATE ROLE "+role+" LOGIN CONNECTION LIMIT 1")
			u := pgURL(t, nil)
			u.User = url.User(role)
			other := openPG(t, driver, u)
			testkit.AtEnd(t, db, "DROP ROLE "+role)
			suite.Conn(t, other)
			_, err := other.Conn(t.Context())
			return err
		}, retry.RateLimited, "sql_53300")
		suite.Provoke(t, "no such database", func(t *testing.T) error {
			u := pgURL(t, nil)
			u.Path = "/" + randomName()
			return openPG(t, driver, u).PingContext(t.Context())
		}, retry.Final, "sql_3D000")
	})
}

// lost are the categories of a connection that the server has ended: it depends
// on the driver and the moment whether the reason arrives.
func lost(reason string) []string {
	return []string{reason, "eof", "conn_reset", "broken_pipe", "unsent", "sql_bad_conn"}
}

// deadlock runs two transactions that wait for each other, and returns the error of the one
// that the server chose to fail.
func deadlock(t *testing.T, db *sql.DB) error {
	t.Helper()
	one, two := suite.Begin(t, db, sql.LevelDefault), suite.Begin(t, db, sql.LevelDefault)
	suite.Exec(t, one, "UPDATE item SET n = n + 1 WHERE id = 1")
	suite.Exec(t, two, "UPDATE item SET n = n + 1 WHERE id = 2")
	errs := make(chan error, 2)
	update := func(tx *sql.Tx, id int) {
		err := suite.Try(t, tx, fmt.Sprintf("UPDATE item SET n = n + 1 WHERE id = %d", id))
		_ = tx.Rollback() // the other may go on
		errs <- err
	}
	go update(one, 2)
	go update(two, 1)
	return cmp.Or(<-errs, <-errs)
}

// terminate ends the connection of a transaction from another one.
func terminate(t *testing.T, db *sql.DB, tx *sql.Tx) {
	t.Helper()
	var pid int
	require.NoError(t, tx.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
	suite.Exec(t, db, fmt.Sprintf("SELECT pg_terminate_backend(%d)", pid))
	awaitBackendEnd(t, db, pid)
}

// awaitBackendEnd waits until a process of the server has ended.
func awaitBackendEnd(t *testing.T, db *sql.DB, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		var n int
		err := db.QueryRowContext(t.Context(), fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE pid = %d", pid)).Scan(&n)
		return err == nil && n == 0
	}, 10*time.Second, 5*time.Millisecond)
}

// TestPostgresRowsLeftOpen has an fn that does not close what it opens.
func TestPostgresRowsLeftOpen(t *testing.T) {
	t.Parallel()
	forPG(t, func(t *testing.T, _ string, db *sql.DB) {
		t.Helper()
		for _, want := range []error{nil, sql.ErrNoRows} {
			err := retrysql.InTx(t.Context(), db, nil, nil, func(ctx context.Context, tx *sql.Tx) error {
				rows, err := tx.QueryContext(ctx, "SELECT generate_series(1, 100000)") //nolint:rowserrcheck,sqlclosecheck // on purpose
				assert.True(t, err == nil && rows.Next())
				return want
			})
			assert.Equal(t, want, err)
			testkit.Idle(t, db)
		}
	})
}

// TestPostgresCommitUnanswered waits for the answer to a COMMIT no longer than the
// attempt may take, and does not take that for a timeout like others.
func TestPostgresCommitUnanswered(t *testing.T) {
	t.Parallel()
	forPG(t, func(t *testing.T, _ string, db *sql.DB) {
		t.Helper()
		suite.Exec(t, db, "CREATE TABLE item (id INT PRIMARY KEY)",
			"CREATE FUNCTION slow() RETURNS TRIGGER LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(2); RETURN NULL; END$$",
			"CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON item DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()")
		policy := &retry.Policy{AttemptTimeout: 300 * time.Millisecond}
		require.ErrorIs(t, retrysql.InTx(t.Context(), db, policy, nil, insert), retrysql.ErrCommitUnknown)
	})
}

func TestPostgresTransfers(t *testing.T) {
	t.Parallel()
	with := newSchema(t)
	maps.Copy(with, settings{"synchronous_commit": "off"})
	db := openPG(t, "pgx", pgURL(t, with))
	db.SetMaxOpenConns(6)
	db.SetMaxIdleConns(6)
	suite.Bank{DB: db, Isolation: sql.LevelSerializable, Goroutines: 64, Transfers: 200}.Run(t)
}

// TestStalePool: the server has ended more connections of the pool than there are attempts.
func TestStalePool(t *testing.T) {
	t.Parallel()
	for _, driver := range pgDrivers {
		with := newSchema(t)
		with["application_name"] = randomName()
		db := openPG(t, driver, pgURL(t, with))
		require.NoError(t, recipes.Ready(t.Context(), db))
		suite.Exec(t, db, "CREATE TABLE users (id INT, name TEXT)")
		suite.Exec(t, db, "INSERT INTO users VALUES (1, 'ann')")
		testkit.Warm(t, db, 12)
		suite.Exec(t, openPG(t, driver, pgURL(t, nil)),
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '"+with["application_name"]+"'")
		require.NoError(t, recipes.Rename(t.Context(), db, 1, "bea"), driver)
		var name string
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT name FROM users WHERE id = 1").Scan(&name))
		assert.Equal(t, "bea", name)
	}
}
