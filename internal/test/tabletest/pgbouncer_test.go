package tabletest_test

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// A Worker behind a pooler that knows no prepared statements, as the recipe says.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	s := databases[0].open(t)
	table := &retrytable.Table[int64]{Name: "jobs"}
	s.create(t, table, 100)
	u, err := url.Parse(s.dsn)
	require.NoError(t, err)
	db := openDB(t, "pgx", pgDSN(t, testkit.PgBouncer(t, u).String(), "default_query_exec_mode", "exec"))
	db.SetMaxIdleConns(10)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	w := &retrytable.Worker[int64]{
		Table: table, DB: db, Concurrency: 5, Poll: 10 * time.Millisecond, Policy: &retry.Policy{MaxAttempts: 1},
		Work: func(ctx context.Context, _ *retrytable.Job[int64]) error {
			_, err := db.ExecContext(ctx, "SELECT $1::int", 1)
			return err
		},
		OnError: func(_ context.Context, err error) { assert.NoError(t, err) },
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.Run(ctx)
	}()
	s.awaitDone(t, 100)
	stop()
	<-ended
}
