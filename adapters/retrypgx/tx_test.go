package retrypgx_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"runtime"
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
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// checkIdle checks that no connection is held. The pool counts one that is broken as
// acquired until it is closed, on a goroutine of the pool's.
func checkIdle(t *testing.T, d *database) {
	t.Helper()
	assert.Eventually(t, func() bool { return d.Stat().AcquiredConns() == 0 }, 30*time.Second, time.Millisecond)
}

// TestSerialization has transactions that are in each other's way.
func TestSerialization(t *testing.T) {
	t.Parallel()
	const tasks, times = 4, 10
	d := open(t)
	policy := &retry.Policy{MaxAttempts: 100, Backoff: retry.Constant(time.Millisecond), Jitter: retry.FullJitter, NonIdempotent: true}
	attempts := make([]int, tasks)
	var all sync.WaitGroup
	for task := range tasks {
		all.Go(func() {
			for range times {
				err := retrypgx.InTx(t.Context(), d, policy, &retrypgx.Options{Tx: pgx.TxOptions{IsoLevel: pgx.Serializable}},
					func(ctx context.Context, tx pgx.Tx) error {
						attempts[task]++
						var n int
						if err := tx.QueryRow(ctx, "SELECT n FROM "+d.table+" WHERE id = 1").Scan(&n); err != nil {
							return err
						}
						time.Sleep(time.Millisecond) // lets another one in
						_, err := tx.Exec(ctx, "UPDATE "+d.table+" SET n = $1 WHERE id = 1", n+1)
						return err
					})
				assert.NoError(t, err)
			}
		})
	}
	all.Wait()
	assert.Equal(t, tasks*times, d.n(t))
	sum := 0
	for _, n := range attempts {
		sum += n
	}
	assert.Greater(t, sum, tasks*times, "it would show nothing")
	checkIdle(t, d)
}

// TestErrors has transactions that fail in all places.
func TestErrors(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, tt := range []struct {
		name     string
		fn       func(ctx context.Context, d *database, tx pgx.Tx) error
		opts     *retrypgx.Options
		attempts int
		is       error
		code     string
	}{
		{"an error that nobody knows", func(context.Context, *database, pgx.Tx) error { return boom }, nil, 1, boom, ""},
		{"a mark", func(context.Context, *database, pgx.Tx) error { return retry.MarkRetryable(boom) }, nil, 3, boom, ""},
		{"a mistake", func(ctx context.Context, _ *database, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SELEKT")
			return err
		}, nil, 1, nil, "42601"},
		{"an error that is ignored", func(ctx context.Context, _ *database, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, "SELEKT")
			return nil
		}, nil, 1, pgx.ErrTxCommitRollback, ""},
		{"committed by fn", func(ctx context.Context, _ *database, tx pgx.Tx) error { return tx.Commit(ctx) }, nil, 1, nil, ""},
		{"committed by fn, which fails", func(ctx context.Context, _ *database, tx pgx.Tx) error {
			return errors.Join(tx.Commit(ctx), retry.MarkRetryable(boom))
		}, nil, 1, boom, ""},
		{"a constraint at the commit", func(ctx context.Context, _ *database, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "CREATE TEMP TABLE late (id int UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP")
			return errors.Join(err, func() error { _, err := tx.Exec(ctx, "INSERT INTO late VALUES (1), (1)"); return err }())
		}, nil, 1, nil, "23505"},
		{"to write what is only to be read", func(ctx context.Context, d *database, tx pgx.Tx) error {
			return d.increment(ctx, tx)
		}, &retrypgx.Options{Tx: pgx.TxOptions{AccessMode: pgx.ReadOnly}}, 1, nil, "25006"},
		{"a server that is only to be read", func(ctx context.Context, d *database, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SET TRANSACTION READ ONLY")
			return errors.Join(err, d.increment(ctx, tx))
		}, nil, 3, nil, "25006"},
		{"its own connection lost", func(ctx context.Context, _ *database, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
			return err
		}, nil, 3, nil, "57P01"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			policy, _ := quick(3)
			policy.NonIdempotent = true
			attempts := 0
			err := retrypgx.InTx(t.Context(), d, policy, tt.opts, func(ctx context.Context, tx pgx.Tx) error {
				attempts++
				return tt.fn(ctx, d, tx)
			})
			require.Error(t, err)
			require.NotErrorIs(t, err, retrypgx.ErrCommitUnknown)
			if tt.is != nil {
				require.ErrorIs(t, err, tt.is)
			}
			var answer *pgconn.PgError
			if tt.code != "" && assert.ErrorAs(t, err, &answer) {
				assert.Equal(t, tt.code, answer.Code)
			}
			assert.Equal(t, tt.attempts, attempts)
			assert.Zero(t, d.n(t))
			checkIdle(t, d)
		})
	}
}

// TestCommitUnknown has commits that take effect and whose answers are lost, and one that
// ends with its server.
func TestCommitUnknown(t *testing.T) {
	t.Parallel()
	t.Run("not repeated", func(t *testing.T) {
		t.Parallel()
		d := open(t)
		policy, recorder := quick(3)
		d.lose.Store(1)
		err := retrypgx.InTx(t.Context(), d, policy, nil, d.increment)
		require.ErrorIs(t, err, retrypgx.ErrCommitUnknown)
		require.ErrorIs(t, err, retrysql.ErrCommitUnknown)
		assert.Equal(t, 1, d.n(t))
		assert.Equal(t, "commit_unknown", recorder.Events()[0].Verdict.Category)
		assert.False(t, recorder.Events()[0].Verdict.NotApplied)
		checkIdle(t, d)
	})
	t.Run("repeated where that is allowed", func(t *testing.T) {
		t.Parallel()
		d := open(t)
		policy, _ := quick(3)
		policy.NonIdempotent = true
		d.lose.Store(2)
		attempts := 0
		err := retrypgx.InTx(t.Context(), d, policy, &retrypgx.Options{Idempotent: true}, func(ctx context.Context, tx pgx.Tx) error {
			attempts++
			_, err := tx.Exec(ctx, "UPDATE "+d.table+" SET n = 7 WHERE id = 1")
			return err
		})
		require.NoError(t, err)
		assert.Equal(t, 3, attempts)
		assert.Equal(t, 7, d.n(t))
	})
	t.Run("read only", func(t *testing.T) {
		t.Parallel()
		d := open(t)
		policy, _ := quick(3)
		d.lose.Store(1)
		err := retrypgx.InTx(t.Context(), d, policy, &retrypgx.Options{Tx: pgx.TxOptions{AccessMode: pgx.ReadOnly}},
			func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "SELECT n FROM "+d.table)
				return err
			})
		require.NoError(t, err)
	})
	t.Run("the server ends", func(t *testing.T) {
		t.Parallel()
		d := open(t)
		policy, _ := quick(3)
		d.exec(t, "CREATE FUNCTION "+d.table+`_f() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$`)
		t.Cleanup(func() { _, _ = d.Exec(context.Background(), "DROP FUNCTION "+d.table+"_f CASCADE") })
		d.exec(t, "CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON "+d.table+
			" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "+d.table+"_f()")
		attempts := 0
		err := retrypgx.InTx(t.Context(), d, policy, nil, func(ctx context.Context, tx pgx.Tx) error {
			attempts++
			return d.increment(ctx, tx)
		})
		require.ErrorIs(t, err, retrypgx.ErrCommitUnknown)
		assert.Equal(t, 1, attempts)
	})
}

// TestBrokenPool has idle connections that are all lost: they cost no attempt.
func TestBrokenPool(t *testing.T) {
	t.Parallel()
	d := open(t)
	var held []pgx.Tx
	for range 3 {
		tx := testkit.Must(d.Begin(t.Context()))(t)
		held = append(held, tx)
	}
	for _, tx := range held {
		require.NoError(t, tx.Rollback(t.Context()))
	}
	d.kill(t)
	policy, _ := quick(1)
	require.NoError(t, retrypgx.InTx(t.Context(), d, policy, nil, d.increment))
	assert.Equal(t, 1, d.n(t))
}

// TestConn has connections that cannot be replaced.
func TestConn(t *testing.T) {
	t.Parallel()
	d := open(t)
	pooled := testkit.Must(d.Acquire(t.Context()))(t)
	defer pooled.Release()
	single := testkit.Must(pgx.Connect(t.Context(), dsn()))(t)
	defer func() { _ = single.Close(context.Background()) }()
	for _, db := range []retrypgx.DB{pooled, single} {
		policy, recorder := quick(3)
		require.NoError(t, retrypgx.InTx(t.Context(), db, policy, nil, d.increment))
		pid := single.PgConn().PID()
		if db == retrypgx.DB(pooled) {
			pid = pooled.Conn().PgConn().PID()
		}
		killAll(t, pid)
		require.Error(t, retrypgx.InTx(t.Context(), db, policy, nil, d.increment))
		require.Error(t, retrypgx.InTx(t.Context(), db, policy, nil, d.increment))
		assert.Empty(t, recorder.Waits())
	}
	assert.Equal(t, 2, d.n(t))
}

// TestPanic has functions that do not return.
func TestPanic(t *testing.T) {
	t.Parallel()
	d := open(t)
	policy, _ := quick(3)
	assert.PanicsWithValue(t, "boom", func() {
		_ = retrypgx.InTx(t.Context(), d, policy, nil, func(ctx context.Context, tx pgx.Tx) error {
			_ = d.increment(ctx, tx)
			panic("boom")
		})
	})
	var ended sync.WaitGroup
	ended.Go(func() {
		_ = retrypgx.InTx(t.Context(), d, policy, nil, func(ctx context.Context, tx pgx.Tx) error {
			_ = d.increment(ctx, tx)
			runtime.Goexit()
			return nil
		})
	})
	ended.Wait()
	assert.Zero(t, d.n(t))
	checkIdle(t, d)
}

// TestContext has a context that ends in a statement, and one that ends before the commit.
func TestContext(t *testing.T) {
	t.Parallel()
	d := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := retrypgx.InTx(ctx, d, nil, nil, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT pg_sleep(60)")
		return err
	})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, retrypgx.ErrCommitUnknown)

	ctx, cancel = context.WithCancel(t.Context())
	err = retrypgx.InTx(ctx, d, nil, nil, func(ctx context.Context, tx pgx.Tx) error {
		defer cancel()
		return d.increment(ctx, tx)
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, retrypgx.ErrCommitUnknown)
	assert.Zero(t, d.n(t))
	checkIdle(t, d)

	// The timeout of an attempt is no end.
	attempts := 0
	err = retrypgx.InTx(t.Context(), d, &retry.Policy{AttemptTimeout: 3 * time.Second, Backoff: retry.Constant(0)}, nil,
		func(ctx context.Context, tx pgx.Tx) error {
			if attempts++; attempts == 1 {
				_, err := tx.Exec(ctx, "SELECT pg_sleep(60)")
				return err
			}
			return d.increment(ctx, tx)
		})
	require.NoError(t, err)
	assert.Equal(t, 2, attempts)
	assert.Equal(t, 1, d.n(t))
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	require.EqualError(t, retrypgx.InTx(t.Context(), nil, nil, nil, nil), "retrypgx: db is nil")
	require.EqualError(t, retrypgx.InTx(t.Context(), open(t), nil, nil, nil), "retrypgx: fn is nil")
	require.EqualError(t, retrypgx.Listen(t.Context(), nil, retrypgx.Listener{}),
		"retrypgx: a Listener needs Connect, Channels, and Notified or Wake")
}

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
	server := testkit.Must(url.Parse(dsn()))(t)
	g := &gate{target: server.Host}
	server.Host = provoke.Serve(t, g.serve).Addr
	config := testkit.Must(pgxpool.ParseConfig(testkit.PgBouncer(t, server).String()))(t)
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool := testkit.Must(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(pool.Close)

	attempts, failures := 0, 0
	policy := &retry.Policy{
		MaxAttempts: 100, Backoff: retry.Constant(50 * time.Millisecond), NonIdempotent: true,
		Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) {
			t.Log(e.Verdict.Category, e.Err)
			var answer *pgconn.PgError
			if failures++; errors.As(e.Err, &answer) {
				assert.Equal(t, "08P01", answer.Code)
			}
			g.set(failures < 4)
		}},
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
	err := retrypgx.InTx(t.Context(), pool, policy, nil, func(ctx context.Context, tx pgx.Tx) error {
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
