package tabletest_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytable"
)

// address connects to one server, and later to another one.
type address struct {
	driver driver.Driver
	dsn    atomic.Pointer[string]
	opened atomic.Int64
}

func (a *address) Connect(context.Context) (driver.Conn, error) {
	a.opened.Add(1)
	return a.driver.Open(*a.dsn.Load())
}

func (a *address) Driver() driver.Driver { return a.driver }

// A server has become read-only and keeps its connections, and new ones lead to another server,
// which has jobs. The Worker has to find that out without a job on the old server.
func TestDemoted(t *testing.T) {
	t.Parallel()
	forEach(t, of(databases, retrytable.PostgreSQL, retrytable.MySQL), func(t *testing.T, s *store) {
		t.Helper()
		table := &retrytable.Table[int64]{Name: "jobs"}
		s.create(t, table, 0)
		old := mariaDSN(s.dsn, "tx_read_only=1")
		if s.dialect == retrytable.PostgreSQL {
			old = pgDSN(t, s.dsn, "default_transaction_read_only", "on")
		}
		a := &address{driver: s.db.Driver()}
		a.dsn.Store(&old)
		db := sql.OpenDB(a)
		t.Cleanup(func() { assert.NoError(t, db.Close()) })
		const many = 4
		db.SetMaxIdleConns(many)
		var conns []*sql.Conn
		for range many {
			conn, err := db.Conn(t.Context())
			require.NoError(t, err)
			conns = append(conns, conn)
		}
		for _, conn := range conns {
			require.NoError(t, conn.Close())
		}
		a.dsn.Store(&s.dsn)

		done := make(chan int64, 1)
		w := &retrytable.Worker[int64]{
			Table: table, DB: db, Poll: 10 * time.Millisecond, OnError: func(context.Context, error) {},
			Work:  func(context.Context, *retrytable.Job[int64]) error { return nil },
			After: func(_ context.Context, o *retrytable.Outcome[int64]) { done <- o.Job.ID },
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = w.Run(ctx)
		}()
		require.Eventually(t, func() bool { return a.opened.Load() > many }, 30*time.Second, time.Millisecond)
		run(t, s.db, "INSERT INTO jobs (id) VALUES (7)")
		select {
		case id := <-done:
			assert.EqualValues(t, 7, id)
		case <-time.After(30 * time.Second):
			assert.Fail(t, "the Worker stays at the old server")
		}
		stop()
		<-ended
	})
}
