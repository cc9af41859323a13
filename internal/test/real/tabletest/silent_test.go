//nolint:thelper // what forEach calls is the test itself
package tabletest_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrysql"
	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// wires are connections to a server that can be cut or become silent: they then accept
// bytes and say nothing, as after a failover or in a NAT that has forgotten them.
type wires struct {
	*provoke.Server

	cable atomic.Pointer[enginetest.Cable] // of new connections
}

func newWires(t *testing.T, address string) *wires {
	t.Helper()
	w := &wires{}
	w.cable.Store(enginetest.NewLink())
	w.Server = provoke.Serve(t, func(client net.Conn) {
		server, err := w.cable.Load().Dial("tcp", address)
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.Close()
		}()
		_, _ = io.Copy(client, server)
	})
	t.Cleanup(w.cut)
	return w
}

// silence makes the present connections silent until the test has ended.
func (w *wires) silence(t *testing.T) {
	t.Helper()
	t.Cleanup(w.cable.Swap(enginetest.NewLink()).Silence())
}

// cut closes the present connections.
func (w *wires) cut() { w.cable.Swap(enginetest.NewLink()).Cut() }

// wired returns a place of its own in a database of the kind, and another way to it, by
// wires.
func wired(t *testing.T, k kind) (s *store, db *sql.DB, w *wires) {
	t.Helper()
	s = k.open(t)
	if k.dialect == retrytable.PostgreSQL {
		u := testkit.Must(url.Parse(s.dsn))(t)
		w = newWires(t, u.Host)
		u.Host = w.Addr
		db = testkit.Must(sql.Open(k.driver, u.String()))(t)
	} else {
		config := testkit.Must(mysql.ParseDSN(s.dsn))(t)
		w = newWires(t, config.Addr)
		config.Addr = w.Addr
		db = sql.OpenDB(dollarConnector{dsn: config.FormatDSN()})
	}
	t.Cleanup(func() {
		w.cut() // what still waits for an answer
		_ = db.Close()
	})
	return s, db, w
}

// All connections of a pool become silent while jobs run, and new ones work. What was done
// is stored well within its lease, and not done again.
func TestWorkerSilentConnections(t *testing.T) {
	t.Parallel()
	const connections = 12
	for _, k := range []kind{databases[0], databases[1], databases[3]} {
		for _, how := range []string{"alone", "in a transaction", "a failure"} {
			t.Run(k.name+" "+how, func(t *testing.T) {
				t.Parallel()
				lease := 12 * time.Second
				n := 8
				switch how {
				case "alone":
					lease = 30 * time.Second
				case "a failure": // there are more silent connections than tries in a lease
					n = 1
				}
				s, db, w := wired(t, k)
				table := jobs()
				table.Lease = lease
				s.create(t, table, n)
				testkit.Warm(t, db, connections)
				var begun sync.WaitGroup
				begun.Add(n)
				silent := make(chan bool)
				var runs atomic.Int32
				worker := &retrytable.Worker[int64]{
					Table: table, DB: db, Concurrency: n, Policy: hourly, Poll: 50 * time.Millisecond,
					OnError: func(_ context.Context, err error) { t.Log(err) },
					Work: func(_ context.Context, job *retrytable.Job[int64]) error {
						runs.Add(1)
						begun.Done()
						<-silent
						switch how {
						case "in a transaction":
							job.InTx(effect(job))
						case "a failure":
							return errWork
						}
						return nil
					},
				}
				ended := make(chan bool, n)
				worker.After = func(context.Context, *retrytable.Outcome[int64]) { ended <- true }
				stop := attended(t, worker)
				begun.Wait()
				assert.GreaterOrEqual(t, db.Stats().OpenConnections, connections)
				w.silence(t)
				at := time.Now()
				close(silent)
				for range n {
					testkit.Soon(t, ended)
				}
				assert.Less(t, time.Since(at), lease*2/3, "stored well within the lease")
				at = time.Now()
				stop()
				assert.Less(t, time.Since(at), lease, "a silent connection holds the worker")
				assert.Equal(t, int32(n), runs.Load())
				want := map[string]string{"alone": "done", "in a transaction": "done", "a failure": "waiting"}[how]
				assert.Equal(t, [][]any{{want, int64(1), int64(n)}},
					query(t, s.db, "SELECT status, attempts, count(*) FROM jobs GROUP BY status, attempts"))
			})
		}
	}
}

// Claims and sweeps get past a silent connection, and so do extensions: work that takes
// longer than its lease goes on.
func TestWorkerSilentConnectionsMeanwhile(t *testing.T) {
	t.Parallel()
	for _, k := range []kind{databases[0], databases[1], databases[3]} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s, db, w := wired(t, k)
			table := jobs()
			table.Lease = 6 * time.Second
			s.create(t, table, 2)
			testkit.Warm(t, db, 6)
			var runs atomic.Int32
			worker := &retrytable.Worker[int64]{
				Table: table, DB: db, Concurrency: 3, Policy: hourly, Poll: 50 * time.Millisecond,
				OnError: func(_ context.Context, err error) { t.Log(err) },
				Work: func(ctx context.Context, job *retrytable.Job[int64]) error {
					if runs.Add(1) == 2 {
						w.silence(t)
						run(t, s.db, "INSERT INTO jobs (id, status, attempts, fence, lease_until) VALUES (3, 'running', 1, 1, $1)",
							s.instant(time.Now().Add(-time.Minute))) // a lost one
						run(t, s.db, "INSERT INTO jobs (id) VALUES (4)")
					}
					if job.ID == 1 {
						return sleep(ctx, 10*time.Second)
					}
					return nil
				},
			}
			ctx, stop := context.WithTimeout(t.Context(), 12*time.Second)
			defer stop()
			assert.ErrorIs(t, worker.Run(ctx), context.DeadlineExceeded)
			assert.Equal(t, int32(3), runs.Load(), "1, 2 and 4")
			assert.Equal(t, "[[1 done 1] [2 done 1] [3 waiting 1] [4 done 1]]",
				fmt.Sprint(query(t, s.db, "SELECT id, status, attempts FROM jobs ORDER BY id")))
		})
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// What is to be done after the commit is done once the outcome is stored: not for a try that
// was rolled back, and before After. FinishArgs is asked for a failure only, because no other
// statement has parameters.
func TestAfterCommit(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		table := jobs()
		table.Set.Fail = "note = $1"
		s.create(t, table, 2)
		var told []string
		say := func(ctx context.Context, what string) {
			retrysql.AfterCommit(ctx, func(context.Context) { told = append(told, what) })
		}
		first := true
		w := &retrytable.Worker[int64]{
			Table: table, DB: s.db,
			Work: func(_ context.Context, job *retrytable.Job[int64]) error {
				if job.ID == 2 {
					return retry.MarkFinal(errors.New("no"))
				}
				job.InTx(func(ctx context.Context, _ *sql.Tx) error {
					say(ctx, "Job.InTx")
					if first {
						first = false
						return retry.MarkRetryable(errors.New("a conflict"))
					}
					return nil
				})
				return nil
			},
			FinishArgs: func(o *retrytable.Outcome[int64]) []any {
				told = append(told, "FinishArgs")
				return []any{o.Err.Error()}
			},
			InTx: func(ctx context.Context, _ *sql.Tx, _ *retrytable.Outcome[int64]) error {
				say(ctx, "InTx")
				return nil
			},
			After: func(context.Context, *retrytable.Outcome[int64]) { told = append(told, "After") },
		}
		for range 2 {
			testkit.Must(w.Once(t.Context()))(t)
		}
		assert.Equal(t, []string{"Job.InTx", "InTx", "After", "FinishArgs", "InTx", "After"}, told)
		assert.Equal(t, "no", query(t, s.db, "SELECT note FROM jobs WHERE id = 2")[0][0])
	})
}

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
		testkit.Warm(t, db, many)
		a.dsn.Store(&s.dsn)

		done := make(chan int64, 1)
		attended(t, &retrytable.Worker[int64]{
			Table: table, DB: db, Poll: 10 * time.Millisecond, OnError: func(context.Context, error) {},
			Work: succeeds, After: func(_ context.Context, o *retrytable.Outcome[int64]) { done <- o.Job.ID },
		})
		require.Eventually(t, func() bool { return a.opened.Load() > many }, 30*time.Second, time.Millisecond)
		run(t, s.db, "INSERT INTO jobs (id) VALUES (7)")
		assert.EqualValues(t, 7, testkit.Soon(t, done), "the Worker has found the new server")
	})
}
