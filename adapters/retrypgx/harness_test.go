package retrypgx_test

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// dsn is that of a real server, see .ci/services.sh.
func dsn() string {
	return cmp.Or(os.Getenv("RETRY_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test")
}

// TestMain leaves the examples out where the tests do without servers. The tests leave
// themselves out.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("RETRY_TEST_SERVERS") == "none" {
		_ = flag.Set("test.skip", "^Example")
	}
	os.Exit(m.Run())
}

// database is a pool with a table of its own.
type database struct {
	*pgxpool.Pool

	table string
	lose  atomic.Int32 // so many commits get through and their answers are lost
}

func open(t *testing.T) *database {
	t.Helper()
	testkit.Needs(t, "PostgreSQL")
	d := &database{table: fmt.Sprintf("retrypgx_%x", rand.Uint64())}
	config := testkit.Must(pgxpool.ParseConfig(dsn()))(t)
	config.MaxConns = 4
	config.ConnConfig.TLSConfig, config.ConnConfig.Fallbacks = nil, nil // lossy reads along
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &lossy{Conn: conn, d: d}, err
	}
	d.Pool = testkit.Must(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(d.Close)
	d.exec(t, "CREATE TABLE "+d.table+" (id int PRIMARY KEY, n int NOT NULL)")
	d.exec(t, "INSERT INTO "+d.table+" VALUES (1, 0)")
	t.Cleanup(func() {
		_, _ = d.Exec(context.Background(), "DROP TABLE "+d.table)
	})
	return d
}

func (d *database) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	testkit.Must(d.Exec(t.Context(), statement, args...))(t)
}

// n returns the number in the only row.
func (d *database) n(t *testing.T) (n int) {
	t.Helper()
	require.NoError(t, d.QueryRow(t.Context(), "SELECT n FROM "+d.table+" WHERE id = 1").Scan(&n))
	return n
}

// increment adds one to that number.
func (d *database) increment(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "UPDATE "+d.table+" SET n = n + 1 WHERE id = 1")
	return err
}

// kill ends the connections of the pool that are idle, from another one.
func (d *database) kill(t *testing.T) {
	t.Helper()
	var pids []uint32
	for _, conn := range d.AcquireAllIdle(t.Context()) {
		pids = append(pids, conn.Conn().PgConn().PID())
		defer conn.Release()
	}
	require.NotEmpty(t, pids)
	killAll(t, pids...)
}

func killAll(t *testing.T, pids ...uint32) {
	t.Helper()
	conn := testkit.Must(pgx.Connect(t.Context(), dsn()))(t)
	defer func() { _ = conn.Close(context.Background()) }()
	for _, pid := range pids {
		testkit.Must(conn.Exec(t.Context(), "SELECT pg_terminate_backend($1, 5000)", pid))(t)
	}
}

// lossy is a connection that loses the answers to commits.
type lossy struct {
	net.Conn

	d    *database
	lost atomic.Bool
}

func (c *lossy) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("commit")) && c.d.lose.Add(-1) >= 0 {
		c.lost.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *lossy) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.lost.Load() {
		_ = c.Close()
		return 0, io.EOF
	}
	return n, err
}

// quick is a policy whose waits take no time.
func quick(attempts int) (*retry.Policy, *retrytest.Recorder) {
	r := &retrytest.Recorder{}
	return &retry.Policy{
		MaxAttempts: attempts, Backoff: retry.Constant(time.Second), Clock: &retrytest.Clock{}, Observer: r.Observer(),
	}, r
}
