package tabletest_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql/driver"
	"errors"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// mariaConfig returns how to reach the server. What is in the DSN beyond the name of the
// database is kept.
func mariaConfig(t testing.TB) *mysql.Config {
	t.Helper()
	testkit.Needs(t, "MariaDB")
	config := testkit.Must(mysql.ParseDSN(cmp.Or(os.Getenv("RETRY_TEST_MARIADB"), "root@tcp(127.0.0.1:3306)/test")))(t)
	return config
}

// newMariaDB makes a database, and returns its address, with these settings of the
// connection.
func newMariaDB(t testing.TB, settings string) string {
	t.Helper()
	config := mariaConfig(t)
	name := "retry_" + strings.ToLower(rand.Text()[:16])
	db := openDB(t, "mysql", config.FormatDSN())
	run(t, db, "CREATE DATABASE "+name)
	testkit.AtEnd(t, db, "DROP DATABASE "+name)
	config.DBName = name
	return mariaDSN(config.FormatDSN(), settings)
}

// mariaDSN is an address with more settings of the connection.
func mariaDSN(dsn, settings string) string {
	switch {
	case settings == "":
		return dsn
	case strings.Contains(dsn, "?"):
		return dsn + "&" + settings
	default:
		return dsn + "?" + settings
	}
}

// dollars is the driver of MySQL for the statements of the tests, which have the
// parameters of PostgreSQL: $1, $2. Those of a Table have none left.
type dollars struct{}

func (dollars) Open(dsn string) (driver.Conn, error) {
	return dollarConnector{dsn: dsn}.Connect(context.Background())
}

// dollarConnector is that driver with a way of its own to connect.
type dollarConnector struct {
	dollars

	dsn  string
	dial func(ctx context.Context, network, address string) (net.Conn, error) // nil means the usual one
}

func (c dollarConnector) Driver() driver.Driver { return c.dollars }

func (c dollarConnector) Connect(ctx context.Context) (driver.Conn, error) {
	config, err := mysql.ParseDSN(c.dsn)
	if err != nil {
		return nil, err
	}
	config.DialFunc = c.dial
	config.Logger = &mysql.NopLogger{} // connections are cut
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	conn, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return dollarConn{conn.(mariaConn)}, nil
}

// mariaConn is what package sql asks of a connection, as far as the driver knows it.
type mariaConn interface {
	fullConn
	driver.NamedValueChecker
	driver.SessionResetter
	driver.Validator
}

type dollarConn struct{ mariaConn }

var dollar = regexp.MustCompile(`\$[0-9]+|'[^']*'`)

// translate puts the arguments in the order in which they are asked for.
func translate(query string, args []driver.NamedValue) (string, []driver.NamedValue) {
	var ordered []driver.NamedValue
	translated := dollar.ReplaceAllStringFunc(query, func(p string) string {
		if p[0] != '$' {
			return p
		}
		n, _ := strconv.Atoi(p[1:])
		ordered = append(ordered, driver.NamedValue{Ordinal: len(ordered) + 1, Value: args[n-1].Value})
		return "?"
	})
	if ordered == nil {
		return query, args
	}
	return translated, ordered
}

func (c dollarConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	translated, ordered := translate(query, args)
	result, err := c.mariaConn.ExecContext(ctx, translated, ordered)
	if !errors.Is(err, driver.ErrSkip) {
		return result, err
	}
	statement, err := c.PrepareContext(ctx, translated)
	if err != nil {
		return nil, err
	}
	defer func() { _ = statement.Close() }()
	return statement.(driver.StmtExecContext).ExecContext(ctx, ordered)
}

func (c dollarConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	translated, ordered := translate(query, args)
	rows, err := c.mariaConn.QueryContext(ctx, translated, ordered)
	if !errors.Is(err, driver.ErrSkip) {
		return rows, err
	}
	statement, err := c.PrepareContext(ctx, translated)
	if err != nil {
		return nil, err
	}
	rows, err = statement.(driver.StmtQueryContext).QueryContext(ctx, ordered)
	if err != nil {
		return nil, errors.Join(err, statement.Close())
	}
	return closing{rows, statement}, nil
}

// closing closes a statement with its rows.
type closing struct {
	driver.Rows

	statement driver.Stmt
}

func (c closing) Close() error { return errors.Join(c.Rows.Close(), c.statement.Close()) }
