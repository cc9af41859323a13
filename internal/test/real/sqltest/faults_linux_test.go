package sqltest_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"flag"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/real/sqltest/suite"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

var update = flag.Bool("update", false, "write testdata/faults_*.txt")

// TestFaults fails the exchange with the server with every errno, at every step of BEGIN, of
// a statement and of COMMIT, and compares what InTx repeats with testdata/faults_*.txt.
// Nothing is ever done twice.
func TestFaults(t *testing.T) {
	t.Parallel()
	for driver, open := range map[string]func(t *testing.T, w *testkit.Wire) *sql.DB{
		"pgx": openWiredPGX, "pq": openWiredPQ, "mysql": openWiredMySQL,
	} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			w := &testkit.Wire{}
			db := open(t, w)
			suite.Exec(t, db, "CREATE TABLE effect (name VARCHAR(80) NOT NULL)")
			begin := "begin"
			if driver == "mysql" {
				begin = "start transaction"
			}
			file := filepath.Join("testdata", "faults_"+driver+".txt")
			testkit.TxFaults(t, w, begin, file, *update, func(fault testkit.Fault) testkit.Tx { return failing(t, db, w, fault) })
		})
	}
}

// failing runs a transaction that fails once.
func failing(t *testing.T, db *sql.DB, w *testkit.Wire, fault testkit.Fault) (tx testkit.Tx) {
	t.Helper()
	db.SetMaxIdleConns(0)
	if fault.Step != testkit.Dial {
		db.SetMaxIdleConns(2)
		suite.Exec(t, db, "SELECT 1") // leaves a connection
	}
	key := rand.Text()
	w.Fail(fault)
	policy := &retry.Policy{Backoff: retry.Constant(0), NonIdempotent: true}
	tx.Err = retrysql.InTx(t.Context(), db, policy, nil, func(ctx context.Context, in *sql.Tx) error {
		tx.Attempts++
		_, err := in.ExecContext(ctx, "INSERT INTO effect VALUES ('"+key+"')")
		return err
	})
	tx.Unknown = errors.Is(tx.Err, retrysql.ErrCommitUnknown)
	count := "SELECT COUNT(*) FROM effect WHERE name = '" + key + "'"
	require.NoError(t, db.QueryRowContext(t.Context(), count).Scan(&tx.Rows))
	return tx
}

func openWiredPGX(t *testing.T, w *testkit.Wire) *sql.DB {
	t.Helper()
	config := testkit.Must(pgx.ParseConfig(pgURL(t, newFaultSchema(t)).String()))(t)
	config.DialFunc = w.DialContext
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // a statement is one message
	return closing(t, stdlib.OpenDB(*config))
}

func openWiredPQ(t *testing.T, w *testkit.Wire) *sql.DB {
	t.Helper()
	connector := testkit.Must(pq.NewConnector(pgURL(t, newFaultSchema(t)).String()))(t)
	connector.Dialer(pqDialer{w})
	return closing(t, sql.OpenDB(connector))
}

func openWiredMySQL(t *testing.T, w *testkit.Wire) *sql.DB {
	t.Helper()
	config := newMariaDB(t)
	config.DialFunc = w.DialContext
	return openMariaDB(t, config)
}

// newFaultSchema makes a schema whose commits do not wait for the disk: there are hundreds.
func newFaultSchema(t *testing.T) settings {
	t.Helper()
	with := newSchema(t)
	with["synchronous_commit"] = "off"
	return with
}

// pqDialer is a Wire with the methods that lib/pq wants.
type pqDialer struct{ wire *testkit.Wire }

func (d pqDialer) Dial(network, address string) (net.Conn, error) {
	return d.wire.DialContext(context.Background(), network, address)
}

func (d pqDialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.wire.DialContext(ctx, network, address)
}
