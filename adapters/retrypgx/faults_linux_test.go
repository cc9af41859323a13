package retrypgx_test

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
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
	pool := wired(t, w)
	testkit.TxFaults(t, w, "begin", filepath.Join("testdata", "faults.txt"), *update, func(fault testkit.Fault) testkit.Tx {
		return failing(t, d, pool, w, fault)
	})
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

// failing runs a transaction that fails once.
func failing(t *testing.T, d *database, pool *pgxpool.Pool, w *testkit.Wire, fault testkit.Fault) (tx testkit.Tx) {
	t.Helper()
	if fault.Step == testkit.Dial {
		pool.Reset()
	} else {
		require.NoError(t, pool.Ping(t.Context()), "%+v", fault) // leaves a connection
	}
	key := rand.Text()
	w.Fail(fault)
	policy, _ := quick(3)
	policy.NonIdempotent = true
	tx.Err = retrypgx.InTx(t.Context(), pool, policy, nil, func(ctx context.Context, in pgx.Tx) error {
		tx.Attempts++
		_, err := in.Exec(ctx, "INSERT INTO "+d.table+" (id, name) VALUES (nextval('"+d.table+"_id'), '"+key+"')")
		return err
	})
	tx.Unknown = errors.Is(tx.Err, retrypgx.ErrCommitUnknown)
	require.NoError(t, d.QueryRow(t.Context(), "SELECT count(*) FROM "+d.table+" WHERE name = $1", key).Scan(&tx.Rows))
	return tx
}
