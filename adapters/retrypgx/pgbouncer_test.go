package retrypgx_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrypgx"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// gate lets connections through to a server, or ends them all.
type gate struct {
	target string

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

// set closes the gate, or opens it.
func (g *gate) set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
	for _, conn := range g.conns {
		if closed {
			_ = conn.Close()
		}
	}
}

func (g *gate) serve(client net.Conn) {
	server, err := net.Dial("tcp", g.target)
	if err != nil {
		return
	}
	g.mu.Lock()
	if g.closed {
		_ = client.Close()
	}
	g.conns = append(g.conns, client, server)
	g.mu.Unlock()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
}

// TestPgBouncer loses the server behind a pooler: in a statement, and for a while after it.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	d := open(t)
	server, err := url.Parse(dsn())
	require.NoError(t, err)
	g := &gate{target: server.Host}
	server.Host = provoke.Serve(t, g.serve).Addr
	config, err := pgxpool.ParseConfig(testkit.PgBouncer(t, server).String())
	require.NoError(t, err)
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)

	attempts, failures := 0, 0
	policy := &retry.Policy{
		MaxAttempts: 100, Backoff: retry.Constant(50 * time.Millisecond), NonIdempotent: true,
		Observer: retry.ObserverFunc(func(_ context.Context, e retry.Event) {
			t.Log(e.Verdict.Category, e.Err)
			var answer *pgconn.PgError
			if failures++; errors.As(e.Err, &answer) {
				assert.Equal(t, "08P01", answer.Code)
			}
			g.set(failures < 4)
		}),
	}
	require.NoError(t, retrypgx.InTx(t.Context(), pool, policy, nil, func(ctx context.Context, tx pgx.Tx) error {
		if err := d.increment(ctx, tx); err != nil {
			return err
		}
		if attempts++; attempts == 1 {
			g.set(true)
		}
		_, err := tx.Exec(ctx, "SELECT 1")
		return err
	}))
	assert.GreaterOrEqual(t, failures, 4)
	assert.Equal(t, 1, d.n(t))

	// The pooler answers for a server that was lost in a commit, and does not know either.
	err = retrypgx.InTx(t.Context(), pool, policy, nil, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "CREATE TEMP TABLE late (id int)")
		if err == nil {
			_, err = tx.Exec(ctx, "CREATE FUNCTION pg_temp.sleep() RETURNS trigger LANGUAGE plpgsql AS "+
				"$$ BEGIN PERFORM pg_sleep(5); RETURN NULL; END $$")
		}
		if err == nil {
			_, err = tx.Exec(ctx, "CREATE CONSTRAINT TRIGGER sleep AFTER INSERT ON late "+
				"DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pg_temp.sleep()")
		}
		if err == nil {
			_, err = tx.Exec(ctx, "INSERT INTO late VALUES (1)")
		}
		time.AfterFunc(200*time.Millisecond, func() { g.set(true) })
		return err
	})
	require.ErrorIs(t, err, retrypgx.ErrCommitUnknown)
	assert.Equal(t, "08P01", testkit.As[*pgconn.PgError](t, err).Code)
}
