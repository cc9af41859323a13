//go:build unix

package tabletest_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// A Worker with 250 jobs beside a neighbor on a server with 100 connections. Whatever becomes
// of its heartbeats and outcomes, it has four connections at most, loses no lease, and the
// neighbor always gets in.
func TestWorkerConnections(t *testing.T) {
	t.Parallel()
	const n = 250
	dsn, admin := testkit.Postgres(t, 100)
	owner := openDB(t, "pgx", admin)
	run(t, owner, "CREATE ROLE app LOGIN; GRANT ALL ON SCHEMA public TO app")
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var neighbor sync.WaitGroup
	neighbor.Go(func() { visit(ctx, t, dsn) })
	t.Cleanup(func() { stop(); neighbor.Wait() })
	for how, spoil := range map[string]struct{ refuse, lock string }{
		"cut":          {},
		"ended":        {refuse: "PERFORM pg_terminate_backend(pg_backend_pid())"},
		"refused":      {refuse: "RAISE EXCEPTION 'full' USING ERRCODE = '53100'"},
		"some refused": {refuse: "IF NEW.id % 10 = 3 THEN RAISE EXCEPTION 'no' USING ERRCODE = '42501'; END IF"},
		"rows locked":  {lock: "SELECT 1 FROM %s WHERE id <= 120 FOR UPDATE"},
		"table locked": {lock: "LOCK TABLE %s IN SHARE MODE"},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			table := "jobs_" + strings.ReplaceAll(how, " ", "_")
			jobs := &retrytable.Table[int64]{Name: table, Lease: 12 * time.Second}
			run(t, owner, "CREATE TABLE "+table+" (id bigint PRIMARY KEY); "+jobs.Schema()+"GRANT ALL ON "+table+" TO app")
			run(t, owner, fmt.Sprintf("INSERT INTO %s (id) SELECT generate_series(1, %d)", table, n))
			u := testkit.Must(url.Parse(dsn))(t)
			w := newWires(t, u.Host)
			u.Host = w.Addr
			s := &store{databases[0], owner, admin}
			most := crowd(t, jobs, openDB(t, "pgx", u.String()), n, func() {
				switch {
				case spoil.refuse != "":
					s.refuseFor(t, table, spoil.refuse)
				case spoil.lock != "":
					s.lockFor(t, fmt.Sprintf(spoil.lock, table))
				default:
					w.cut()
				}
			})
			assert.LessOrEqual(t, most, 4)
			assert.Equal(t, [][]any{{"done", int64(1), int64(n)}},
				query(t, owner, "SELECT status, attempts, count(*) FROM "+table+" GROUP BY status, attempts"))
		})
	}
}

// spoiled is how long something is in the way: longer than between two heartbeats, and for
// less than what is left of a lease then.
const spoiled = 4500 * time.Millisecond

// crowd has a Worker do all jobs at once, which end long after their first lease, and returns
// how many connections it had at most. Something is in the way of the first heartbeat.
func crowd(t *testing.T, jobs *retrytable.Table[int64], db *sql.DB, n int, spoil func()) (most int) {
	t.Helper()
	db.SetMaxIdleConns(2) // as a program has that does not set it
	var begun, done atomic.Int32
	stop := attended(t, &retrytable.Worker[int64]{
		Table: jobs, DB: db, Concurrency: n, Poll: 100 * time.Millisecond, Policy: &retry.Policy{},
		Work: func(ctx context.Context, _ *retrytable.Job[int64]) error {
			begun.Add(1)
			return sleep(ctx, 15*time.Second)
		},
		After:   func(context.Context, *retrytable.Outcome[int64]) { done.Add(1) },
		OnError: func(_ context.Context, err error) { t.Log(err) },
	})
	require.Eventually(t, func() bool { return int(begun.Load()) == n }, time.Minute, time.Millisecond)
	time.AfterFunc(3500*time.Millisecond, spoil) // the first heartbeat is half a second later
	for end := time.Now().Add(time.Minute); int(done.Load()) < n && time.Now().Before(end); time.Sleep(time.Millisecond) {
		most = max(most, db.Stats().OpenConnections)
	}
	stop()
	return most
}

// refuseFor has a trigger do something to each heartbeat for a while.
func (s *store) refuseFor(t *testing.T, table, body string) {
	t.Helper()
	until := time.Now().Add(spoiled).UTC().Format(time.RFC3339Nano)
	run(t, s.db, "CREATE FUNCTION no_"+table+"() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN IF clock_timestamp() < '"+until+
		"' AND OLD.status = 'running' AND NEW.status = 'running' THEN "+body+"; END IF; RETURN NEW; END $$")
	run(t, s.db, "CREATE TRIGGER no BEFORE UPDATE ON "+table+" FOR EACH ROW EXECUTE FUNCTION no_"+table+"()")
}

// lockFor has a transaction hold a lock for a while.
func (s *store) lockFor(t *testing.T, statement string) {
	t.Helper()
	tx := testkit.Must(s.db.BeginTx(t.Context(), nil))(t)
	run(t, tx, statement)
	time.AfterFunc(spoiled, func() { assert.NoError(t, tx.Commit()) })
}

// visit connects again and again, and must get in.
func visit(ctx context.Context, t *testing.T, dsn string) {
	t.Helper()
	visits := 0
	for ctx.Err() == nil {
		db, err := sql.Open("pgx", dsn)
		if assert.NoError(t, err) && ctx.Err() == nil {
			assert.NoError(t, db.PingContext(context.WithoutCancel(ctx)), "the neighbor")
			assert.NoError(t, db.Close())
		}
		visits++
		_ = sleep(ctx, 20*time.Millisecond)
	}
	assert.NotZero(t, visits)
}

// TestSwitchover has 1,000 jobs done while their server becomes read-only, as in a planned
// switchover: it keeps its connections, and new ones lead to a server that has the same rows and
// takes writes. All jobs are done, once, and the Worker is on again soon.
func TestSwitchover(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		c := testkit.StartCluster(t, 50)
		before := "postgres://postgres@" + c.Address + "/postgres?sslmode=disable"
		admin := openDB(t, "pgx", pgDSN(t, before, "default_transaction_read_only", "off"))
		switchover(t, databases[0], before, pgDSN(t, before, "default_transaction_read_only", "off"), func() {
			run(t, admin, "ALTER SYSTEM SET default_transaction_read_only = on")
			run(t, admin, "SELECT pg_reload_conf()")
		})
	})
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		address := testkit.MariaDB(t)
		admin := openDB(t, "mysql", "root@tcp("+address+")/")
		run(t, admin, "CREATE DATABASE jobs")
		for _, name := range []string{"old", "new"} {
			run(t, admin, "CREATE USER "+name+"@localhost, "+name+"@'127.0.0.1'")
			run(t, admin, "GRANT ALL ON jobs.* TO "+name+"@localhost, "+name+"@'127.0.0.1'")
		}
		run(t, admin, "GRANT READ_ONLY ADMIN ON *.* TO new@localhost, new@'127.0.0.1'")
		dsn := "@tcp(" + address + ")/jobs"
		switchover(t, databases[3], "old"+dsn, "new"+dsn, func() { run(t, admin, "SET GLOBAL read_only = 1") })
	})
}

// switchover does jobs at the address before, which changes to after when demote is called.
func switchover(t *testing.T, k kind, before, after string, demote func()) {
	t.Helper()
	const many = 1000
	s := &store{k, openDB(t, k.driver, before), before}
	table := &retrytable.Table[int64]{Name: "jobs"}
	s.create(t, table, many)
	a := &address{driver: s.db.Driver()}
	a.dsn.Store(&before)
	db := sql.OpenDB(a)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	db.SetMaxIdleConns(10)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	begun, done := map[int64]int{}, 0
	var last time.Time
	var longest time.Duration
	var opened int64
	w := &retrytable.Worker[int64]{
		Table: table, DB: db, Concurrency: 10, Poll: 20 * time.Millisecond, Policy: &retry.Policy{},
		OnError: func(_ context.Context, err error) { t.Log(err) },
		Work: func(_ context.Context, job *retrytable.Job[int64]) error {
			mu.Lock()
			defer mu.Unlock()
			begun[job.ID]++
			return nil
		},
		After: func(context.Context, *retrytable.Outcome[int64]) {
			mu.Lock()
			defer mu.Unlock()
			if done++; done == many/3 {
				opened = a.opened.Load()
				a.dsn.Store(&after)
				demote()
			}
			if now := time.Now(); !last.IsZero() {
				longest, last = max(longest, now.Sub(last)), now
			} else {
				last = now
			}
			if done == many {
				stop()
			}
		},
	}
	deadline := time.AfterFunc(2*time.Minute, stop)
	defer deadline.Stop()
	require.ErrorIs(t, w.Run(ctx), context.Canceled)
	assert.Equal(t, many, done)
	assert.Len(t, begun, many)
	for id, n := range begun {
		assert.Equal(t, 1, n, "job %d", id)
	}
	assert.Less(t, longest, 10*time.Second)
	assert.Greater(t, a.opened.Load(), opened, "the old connections are of no use")
	t.Logf("nothing was done for %v, %d connections opened", longest, a.opened.Load()-opened)
	var left int
	require.NoError(t, openDB(t, k.driver, after).QueryRowContext(t.Context(), "SELECT count(*) FROM jobs WHERE status <> 'done'").Scan(&left))
	assert.Zero(t, left)
}
