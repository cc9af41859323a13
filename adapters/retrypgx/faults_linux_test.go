package retrypgx_test

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/adapters/retrypgx"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

var update = flag.Bool("update", false, "write testdata/faults.txt")

// TestFaults fails the exchange with the server with every errno, at every step of BEGIN, of
// a statement and of COMMIT, and compares what InTx repeats with testdata/faults.txt.
// Nothing is ever done twice.
func TestFaults(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.exec(t, "ALTER TABLE "+d.table+" ADD COLUMN name text; ALTER TABLE "+d.table+" ALTER COLUMN n SET DEFAULT 0")
	d.exec(t, "CREATE SEQUENCE "+d.table+"_id START 2 OWNED BY "+d.table+".id")
	w := &testkit.Wire{}
	var table strings.Builder
	table.WriteString("What InTx makes of failures of the network, written by\ngo test -run TestFaults -update\n")
	for _, message := range []string{"begin", "insert", "commit"} {
		for _, step := range []testkit.Step{testkit.Dial, testkit.Unwritten, testkit.PartlyWritten, testkit.Unanswered} {
			if step == testkit.Dial && message != "begin" {
				continue // the connection is there
			}
			pool := wired(t, w)
			fmt.Fprintf(&table, "\n%s %s\n%s", message, step, testkit.Outcomes(t, func(name string, errno syscall.Errno) string {
				return fail(t, d, pool, w, name, testkit.Fault{Step: step, Message: message, Errno: errno})
			}))
		}
	}
	path := filepath.Join("testdata", "faults.txt")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(table.String()), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "go test -run TestFaults -update writes it")
	require.Equal(t, string(want), table.String(), "go test -run TestFaults -update writes it anew")
}

// wired returns a pool whose connections fail where the wire does.
func wired(t *testing.T, w *testkit.Wire) *pgxpool.Pool {
	t.Helper()
	config := testkit.Must(pgxpool.ParseConfig(dsn()))(t)
	config.ConnConfig.TLSConfig, config.ConnConfig.Fallbacks = nil, nil // the wire reads along
	config.ConnConfig.DialFunc = w.DialContext
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // a statement is one message
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
	pool := testkit.Must(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(pool.Close)
	return pool
}

// fail runs a transaction that fails once, and returns what became of it.
func fail(t *testing.T, d *database, pool *pgxpool.Pool, w *testkit.Wire, name string, fault testkit.Fault) string {
	t.Helper()
	what := fmt.Sprintf("%s %s %s", fault.Message, fault.Step, name)
	if fault.Step == testkit.Dial {
		pool.Reset()
	} else {
		require.NoError(t, pool.Ping(t.Context()), what) // leaves a connection
	}
	key := rand.Text()
	w.Fail(fault)
	attempts := 0
	policy, _ := quick(3)
	policy.NonIdempotent = true
	err := retrypgx.InTx(t.Context(), pool, policy, nil, func(ctx context.Context, tx pgx.Tx) error {
		attempts++
		_, err := tx.Exec(ctx, "INSERT INTO "+d.table+" (id, name) VALUES (nextval('"+d.table+"_id'), '"+key+"')")
		return err
	})
	require.True(t, w.Failed(), what)
	var done int
	require.NoError(t, d.QueryRow(t.Context(), "SELECT count(*) FROM "+d.table+" WHERE name = $1", key).Scan(&done))
	switch {
	case err == nil:
		assert.Equal(t, 1, done, what)
		return "repeated"
	case errors.Is(err, retrypgx.ErrCommitUnknown):
		assert.Equal(t, "commit", fault.Message, what)
		assert.Equal(t, 1, attempts, what)
		assert.Equal(t, fault.Step == testkit.Unanswered, done == 1, what)
		return "unknown"
	default:
		assert.Zero(t, done, what)
		assert.NotEqual(t, "commit", fault.Message, what)
		return "final"
	}
}
