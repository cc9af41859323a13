//nolint:thelper // what provokes an error is the test itself
package sqltest_test

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/real/sqltest/suite"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// mariaConfig returns how to reach the server.
func mariaConfig(t *testing.T) *mysql.Config {
	t.Helper()
	testkit.Needs(t, "MariaDB")
	config := testkit.Must(mysql.ParseDSN(cmp.Or(os.Getenv("RETRY_TEST_MARIADB"), "root@tcp(127.0.0.1:3306)/test")))(t)
	config.Logger = &mysql.NopLogger{} // connections break on purpose
	return config
}

func openMariaDB(t *testing.T, config *mysql.Config) *sql.DB {
	t.Helper()
	return closing(t, sql.OpenDB(testkit.Must(mysql.NewConnector(config))(t)))
}

// newMariaDB makes a database for one test and returns how to reach it.
func newMariaDB(t *testing.T) *mysql.Config {
	t.Helper()
	config := mariaConfig(t)
	name := randomName()
	db := openMariaDB(t, config)
	suite.Exec(t, db, "CREATE DATABASE "+name)
	testkit.AtEnd(t, db, "DROP DATABASE "+name)
	config = config.Clone()
	config.DBName = name
	return config
}

func TestMariaDBErrors(t *testing.T) {
	t.Parallel()
	config := newMariaDB(t)
	db := openMariaDB(t, config)
	suite.Exec(t, db,
		"CREATE TABLE item (id INT PRIMARY KEY, n INT NOT NULL)",
		"CREATE TABLE part (item INT NOT NULL, name VARCHAR(3) CHECK (name <> 'x'), FOREIGN KEY (item) REFERENCES item (id))",
		"INSERT INTO item VALUES (1, 0), (2, 0)",
	)
	final := map[string]string{
		"mysql_1062": "INSERT INTO item VALUES (1, 1)",
		"mysql_1048": "INSERT INTO item VALUES (1, NULL)",
		"mysql_1452": "INSERT INTO part VALUES (9, 'a')",
		"mysql_1451": "DELETE FROM item WHERE id = 1",
		"mysql_1406": "INSERT INTO part VALUES (1, 'abcd')",
		"mysql_4025": "INSERT INTO part VALUES (1, 'x')",
		"mysql_1366": "INSERT INTO item VALUES ('y', 1)",
		"mysql_1364": "INSERT INTO item (id) VALUES (7)",
		"mysql_1264": "INSERT INTO item VALUES (99999999999, 1)",
		"mysql_1064": "INSERT OVER item",
		"mysql_1146": "INSERT INTO items VALUES (1)",
		"mysql_1054": "UPDATE item SET m = 1",
		"mysql_1049": "USE nothing_of_that_name",
		"mysql_1969": "SET STATEMENT max_statement_time = 0.02 FOR SELECT SUM(seq * RAND()) FROM seq_1_to_1000000000",
	}
	suite.Exec(t, db, "INSERT INTO part VALUES (1, 'a')")
	for category, query := range final {
		suite.Provoke(t, category, func(t *testing.T) error {
			return suite.Try(t, suite.Conn(t, db), query)
		}, retry.Final, category)
	}
	suite.Provoke(t, "deadlock", func(t *testing.T) error {
		return deadlock(t, db)
	}, retry.Retryable, "mysql_1213")
	suite.Provoke(t, "lock wait timeout", func(t *testing.T) error {
		one := suite.Begin(t, db, sql.LevelDefault)
		suite.Exec(t, one, "UPDATE item SET n = n + 1 WHERE id = 1")
		conn := suite.Conn(t, db)
		suite.Exec(t, conn, "SET innodb_lock_wait_timeout = 0")
		return suite.Try(t, conn, "UPDATE item SET n = n + 1 WHERE id = 1")
	}, retry.Retryable, "mysql_1205")
	suite.Provoke(t, "changed since it was read", func(t *testing.T) error {
		conn := suite.Conn(t, db)
		suite.Exec(t, conn, "SET innodb_snapshot_isolation = ON", "START TRANSACTION WITH CONSISTENT SNAPSHOT")
		suite.Exec(t, db, "UPDATE item SET n = n + 1 WHERE id = 1")
		return suite.Try(t, conn, "UPDATE item SET n = n + 1 WHERE id = 1")
	}, retry.Retryable, "mysql_1020")
	suite.Provoke(t, "read-only", func(t *testing.T) error {
		conn := suite.Conn(t, db)
		suite.Exec(t, conn, "START TRANSACTION READ ONLY")
		return suite.Try(t, conn, "INSERT INTO item VALUES (3, 3)")
	}, retry.Retryable, "mysql_1792")
	suite.Provoke(t, "interrupted", func(t *testing.T) error {
		return killed(t, db, "KILL QUERY")
	}, retry.Final, "mysql_1317")
	suite.Provoke(t, "killed", func(t *testing.T) error {
		return killed(t, db, "KILL")
	}, retry.Retryable, "mysql_1927", "mysql_1317", "mysql_invalid_conn", "sql_bad_conn", "eof")
	suite.Provoke(t, "too many connections", func(t *testing.T) error {
		user := randomName()[:20]
		suite.Exec(t, db, "CREATE USER "+user+"@'%' WITH MAX_USER_CONNECTIONS 1", "GRANT ALL ON "+config.DBName+".* TO "+user+"@'%'")
		testkit.AtEnd(t, db, "DROP USER "+user+"@'%'")
		as := config.Clone()
		as.User, as.Passwd = user, ""
		other := openMariaDB(t, as)
		suite.Conn(t, other)
		_, err := other.Conn(t.Context())
		return err
	}, retry.RateLimited, "mysql_1226")
	suite.Provoke(t, "wrong password", func(t *testing.T) error {
		as := config.Clone()
		as.User, as.Passwd = randomName()[:20], "wrong"
		return openMariaDB(t, as).PingContext(t.Context())
	}, retry.Final, "mysql_1045", "mysql_1698")
}

// killed runs a statement that is killed from another connection, and returns its
// error.
func killed(t *testing.T, db *sql.DB, how string) error {
	t.Helper()
	conn := suite.Conn(t, db)
	var id int
	require.NoError(t, conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
	failed := make(chan error, 1)
	go func() {
		_, err := conn.ExecContext(t.Context(), "SELECT SUM(seq * RAND()) FROM seq_1_to_1000000000")
		failed <- err
	}()
	running := fmt.Sprintf("SELECT COUNT(*) FROM information_schema.processlist WHERE id = %d AND info LIKE '%%seq_1%%'", id)
	require.Eventually(t, func() bool {
		var n int
		return db.QueryRowContext(t.Context(), running).Scan(&n) == nil && n == 1
	}, 10*time.Second, 5*time.Millisecond)
	suite.Exec(t, db, fmt.Sprintf("%s %d", how, id))
	return <-failed
}

func TestMariaDBTransfers(t *testing.T) {
	t.Parallel()
	db := openMariaDB(t, newMariaDB(t))
	db.SetMaxOpenConns(6)
	db.SetMaxIdleConns(6)
	suite.Bank{DB: db, Isolation: sql.LevelSerializable, Goroutines: 16, Transfers: 25}.Run(t)
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	for name, driver := range map[string]string{"modernc": "sqlite", "mattn": mattn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if driver == "" {
				t.Skip("needs a C compiler")
			}
			suite.SQLite{
				Open:     func(dsn string) (*sql.DB, error) { return sql.Open(driver, dsn) },
				CantOpen: retry.Verdict{Category: "sqlite_14"},
			}.Run(t)
		})
	}
}

// TestSQLServerErrors uses the error types of the driver, without a server.
func TestSQLServerErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want retry.Verdict
	}{
		{mssql.Error{Number: 1205}, retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: "mssql_1205"}},
		{mssql.Error{Number: 40613}, retry.Verdict{Class: retry.Retryable, Category: "mssql_40613"}},
		{mssql.Error{Number: 2627}, retry.Verdict{Class: retry.Final, Category: "mssql_2627"}},
		{mssql.ServerError{}, retry.Verdict{}},
		{mssql.StreamError{InnerError: io.EOF}, retry.Verdict{}},
		{mssql.RetryableError{}, retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: "sql_bad_conn"}},
	} {
		t.Run(fmt.Sprintf("%T", tt.err), func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, retrysql.Classify(tt.err))
			assert.Equal(t, tt.want, retrysql.Classify(errors.Join(errors.New("x"), fmt.Errorf("y: %w", tt.err))))
		})
	}
}
