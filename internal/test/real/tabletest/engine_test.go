package tabletest_test

import (
	"cmp"
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// TestConformance runs the conformance suite of engines for a [retrytable.Worker].
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, k := range threeDatabases {
		early := time.Duration(0)
		if k.dialect == retrytable.SQLite {
			early = time.Millisecond // its clock is rounded to that
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			for _, r := range enginetest.Run(t, &enginetest.Engine{
				Open: enginekit.Opens(func(t testing.TB) *tableQueue { t.Helper(); return openTable(t, k) }),
				OpenTwo: func(t testing.TB) (q enginetest.Queue, spoil func() (mend func() error, err error)) {
					t.Helper()
					return openTwo(t, k)
				},
				AsksAboutLost: true, Early: early, Grain: 5 * time.Second, Recovery: 15 * time.Second, Repeat: repeat, InPlace: true,
			}) {
				t.Logf("%-45s late by %v at most", r.Script, r.Late.Round(time.Millisecond))
			}
		})
	}
}

// tableQueue is a table whose IDs are the names of jobs.
type tableQueue struct {
	*store

	t     testing.TB
	table *retrytable.Table[string]
	own   *sql.DB // of all workers
}

func openTable(t testing.TB, k kind) *tableQueue {
	t.Helper()
	return newTable(t, k.open(t), "jobs")
}

// openTwo opens two tables whose workers have one pool of connections. The first table is gone
// for a while.
func openTwo(t testing.TB, k kind) (q enginetest.Queue, spoil func() (mend func() error, err error)) {
	t.Helper()
	bad := openTable(t, k)
	good := newTable(t, bad.store, "others")
	bad.own, _ = bad.connect()
	good.own = bad.own
	rename := func(from, to string) error {
		_, err := bad.db.ExecContext(context.Background(), "ALTER TABLE "+from+" RENAME TO "+to)
		return err
	}
	return enginetest.Both(bad, good), func() (func() error, error) {
		return func() error { return rename("gone", "jobs") }, rename("jobs", "gone")
	}
}

func newTable(t testing.TB, s *store, name string) *tableQueue {
	t.Helper()
	q := &tableQueue{store: s, t: t, table: &retrytable.Table[string]{
		Dialect: s.dialect, Name: name, Instants: s.instants, Lease: 3 * time.Second,
		Columns: retrytable.Columns{RateLimited: "limited", Pending: "polls", First: "first_at", Kind: "kind"},
		Set:     retrytable.Set{Fail: "error = $1"},
	}}
	run(t, q.db, "CREATE TABLE "+name+" (id varchar(100) PRIMARY KEY, error text)")
	run(t, q.db, q.table.Schema())
	return q
}

func (q *tableQueue) Submit(ctx context.Context, kind, job string) error {
	_, err := q.db.ExecContext(ctx, "INSERT INTO "+q.table.Name+" (id, kind) VALUES ($1, $2)", job, kind)
	return err
}

// repeat has the lease of a job run out, so that it is swept.
func repeat(ctx context.Context, queue enginetest.Queue, job string) error {
	q := queue.(*tableQueue) //nolint:forcetypeassert // of openTable
	_, err := q.db.ExecContext(ctx, "UPDATE jobs SET lease_until = $1 WHERE id = $2", q.instant(time.Now().Add(-time.Hour)), job)
	return err
}

func (q *tableQueue) Outcome(ctx context.Context, job string) (enginetest.Outcome, error) {
	var status string
	var text sql.NullString
	if err := q.db.QueryRowContext(ctx, "SELECT status, error FROM "+q.table.Name+" WHERE id = $1", job).Scan(&status, &text); err != nil {
		return enginetest.Outcome{}, err
	}
	switch status {
	case "done":
		return enginetest.Outcome{Status: enginetest.Succeeded}, nil
	case "dead":
		return enginetest.Outcome{Status: enginetest.GaveUp, Err: text.String}, nil
	default:
		return enginetest.Outcome{}, nil
	}
}

func (q *tableQueue) Start(p enginetest.Policies, handle enginetest.Handler) (enginetest.Workers, error) {
	db, kill := q.own, func() error { return nil }
	if db == nil {
		db, kill = q.connect()
	}
	w := &retrytable.Worker[string]{
		Table: q.table, DB: db, Policy: p.Policy, PolicyFor: p.PolicyFor, Concurrency: 10, Poll: 20 * time.Millisecond,
		Work:    func(ctx context.Context, job *retrytable.Job[string]) error { return handle(ctx, job.ID) },
		OnError: func(context.Context, error) {}, // those that are killed complain
		FinishArgs: func(o *retrytable.Outcome[string]) []any {
			return []any{cmp.Or(o.Decision.Err, o.Err).Error()}
		},
	}
	if err := w.Validate(); err != nil {
		return nil, err
	}
	return &tableWorkers{kill, enginekit.Work(nil, false, func(ctx context.Context) error {
		assert.ErrorIs(q.t, w.Run(ctx), context.Canceled)
		return nil
	})}, nil
}

// connect returns connections of one process, and what cuts them.
func (q *tableQueue) connect() (db *sql.DB, kill func() error) {
	if q.dialect == retrytable.SQLite {
		db := testkit.Must(sql.Open(q.driver, q.dsn))(q.t)
		q.t.Cleanup(func() { assert.NoError(q.t, db.Close()) })
		db.SetMaxOpenConns(1)
		return db, db.Close
	}
	var cable enginetest.Cable
	if q.dialect == retrytable.MySQL {
		db = keepIdle(sql.OpenDB(dollarConnector{dsn: q.dsn, dial: cable.DialContext}))
	} else {
		config := testkit.Must(pgx.ParseConfig(q.dsn))(q.t)
		config.DialFunc = cable.DialContext
		db = keepIdle(stdlib.OpenDB(*config))
	}
	q.t.Cleanup(func() { assert.NoError(q.t, db.Close()) })
	return db, func() error {
		cable.Cut()
		return nil
	}
}

// tableWorkers are a process, whose connections are cut in a way of their own.
type tableWorkers struct {
	kill func() error
	*enginekit.Workers
}

func (w *tableWorkers) Kill() error { return w.kill() }
