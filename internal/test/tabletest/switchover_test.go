//go:build unix

package tabletest_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

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
