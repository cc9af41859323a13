package retrypgx_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrypgx"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// TestListen loses the connection of a listener several times, more often than the policy
// has attempts.
func TestListen(t *testing.T) {
	t.Parallel()
	d := open(t)
	channel := d.table + `"; DROP` // a name is quoted
	listening := make(chan uint32)
	heard := make(chan string)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- retrypgx.Listen(ctx, &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}, retrypgx.Listener{
			Connect:  func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, dsn()) },
			Channels: []string{channel},
			Listening: func(_ context.Context, conn *pgx.Conn) error {
				listening <- conn.PgConn().PID()
				return nil
			},
			Notified: func(_ context.Context, n *pgconn.Notification) error {
				heard <- n.Payload
				return nil
			},
		})
	}()
	for range 4 {
		pid := <-listening
		d.exec(t, "SELECT pg_notify($1, 'job')", channel)
		assert.Equal(t, "job", <-heard)
		killAll(t, pid)
	}
	<-listening
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestListenGivesUp(t *testing.T) {
	t.Parallel()
	policy, recorder := quick(3)
	l := retrypgx.Listener{
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			return pgx.Connect(ctx, "postgres://nobody@127.0.0.1:1/nowhere?connect_timeout=5")
		},
		Channels: []string{"jobs"},
		Notified: func(context.Context, *pgconn.Notification) error { return nil },
	}
	err := retrypgx.Listen(t.Context(), policy, l)
	require.ErrorIs(t, err, retry.StopAttempts)
	assert.Len(t, recorder.Waits(), 2)
}

// TestListenEnds ends with the error of Listening, which is nobody else's.
func TestListenEnds(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, "PostgreSQL")
	policy, _ := quick(3)
	boom := errors.New("boom")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.Equal(t, boom, retrypgx.Listen(ctx, policy, retrypgx.Listener{
		Connect:   func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, dsn()) },
		Channels:  []string{"jobs"},
		Listening: func(context.Context, *pgx.Conn) error { return boom },
		Notified:  func(context.Context, *pgconn.Notification) error { return nil },
	}))
}
