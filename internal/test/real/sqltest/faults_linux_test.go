package sqltest_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"
	"github.com/stretchr/testify/assert"
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
			var table strings.Builder
			fmt.Fprintf(&table, "What InTx makes of failures of the network with this driver, written by\n"+
				"go test -run TestFaults -update\n")
			for _, message := range []string{begin, "insert", "commit"} {
				for _, step := range []testkit.Step{testkit.Dial, testkit.Unwritten, testkit.PartlyWritten, testkit.Unanswered} {
					if step == testkit.Dial && message != begin {
						continue // the connection is there
					}
					fmt.Fprintf(&table, "\n%s %s\n%s", message, step, testkit.Outcomes(t, func(name string, errno syscall.Errno) string {
						return fail(t, db, w, name, testkit.Fault{Step: step, Message: message, Errno: errno})
					}))
				}
			}
			golden(t, filepath.Join("testdata", "faults_"+driver+".txt"), table.String())
		})
	}
}

// golden compares a text with a file, or writes the file.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "go test -run TestFaults -update writes it")
	require.Equal(t, string(want), got, "go test -run TestFaults -update writes it anew")
}

// fail runs a transaction that fails once, and returns what became of it.
func fail(t *testing.T, db *sql.DB, w *testkit.Wire, name string, fault testkit.Fault) string {
	t.Helper()
	what := fmt.Sprintf("%s %s %s", fault.Message, fault.Step, name)
	db.SetMaxIdleConns(0)
	if fault.Step != testkit.Dial {
		db.SetMaxIdleConns(2)
		suite.Exec(t, db, "SELECT 1") // leaves a connection
	}
	key := rand.Text()
	w.Fail(fault)
	attempts := 0
	policy := &retry.Policy{Backoff: retry.Constant(0), NonIdempotent: true}
	err := retrysql.InTx(t.Context(), db, policy, nil, func(ctx context.Context, tx *sql.Tx) error {
		attempts++
		_, err := tx.ExecContext(ctx, "INSERT INTO effect VALUES ('"+key+"')")
		return err
	})
	require.True(t, w.Failed(), what)
	done := effects(t, db, key)
	switch {
	case err == nil:
		assert.Equal(t, 1, done, what)
		return "repeated"
	case errors.Is(err, retrysql.ErrCommitUnknown):
		assert.Equal(t, "commit", fault.Message, what)
		assert.Equal(t, 1, attempts, what)
		if fault.Step == testkit.Unanswered {
			assert.Equal(t, 1, done, what)
		} else {
			assert.Zero(t, done, what)
		}
		return "unknown"
	default:
		assert.Zero(t, done, what)
		assert.NotEqual(t, "commit", fault.Message, what)
		return "final"
	}
}

// effects counts what a transaction did.
func effects(t *testing.T, db *sql.DB, key string) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM effect WHERE name = '"+key+"'").Scan(&n))
	return n
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
