//nolint:thelper // what forEach calls is the test itself
package tabletest_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
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

var (
	errWork = errors.New("work failed")

	// hourly is easy to tell from everything else that happens in a test.
	hourly = &retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(time.Hour), Jitter: retry.NoJitter}
)

// one claims the only row that is due.
func one(t testing.TB, db retrytable.DB, table *retrytable.Table[int64]) retrytable.Row[int64] {
	t.Helper()
	rows := testkit.Must(table.Claim(t.Context(), db, 10))(t)
	require.Len(t, rows, 1)
	return rows[0]
}

func next(row retrytable.Row[int64], err error) retry.Decision {
	return hourly.Next(row.State, err, row.Now())
}

// TestMethods tells the lives of three jobs, on a database, a connection and in
// a transaction.
func TestMethods(t *testing.T) {
	t.Parallel()
	forEachTable(t, kinds, jobs, 0, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		lives(t, s, table, s.db)
		conn := testkit.Must(s.db.Conn(t.Context()))(t)
		lives(t, s, table, conn)
		require.NoError(t, conn.Close())
		tx := testkit.Must(s.db.BeginTx(t.Context(), nil))(t)
		lives(t, s, table, tx)
		require.NoError(t, tx.Commit())
	})
}

func lives(t *testing.T, s *store, table *retrytable.Table[int64], db retrytable.DB) {
	t.Helper()
	ctx := t.Context()
	run(t, db, "DELETE FROM jobs")
	for id := range 3 {
		run(t, db, "INSERT INTO jobs (id, due_at) VALUES ($1, $2)", id+1,
			s.instant(time.Now().Add(time.Duration(id-10)*time.Minute)))
	}

	// The first two are claimed, in the order of their due times.
	rows := testkit.Must(table.Claim(ctx, db, 2))(t)
	require.Len(t, rows, 2)
	slices.SortFunc(rows, func(a, b retrytable.Row[int64]) int { return int(a.ID - b.ID) })
	a, b := rows[0], rows[1]
	for i, row := range rows {
		assert.Equal(t, int64(i+1), row.ID)
		assert.Equal(t, int64(1), row.Fence)
		assert.Zero(t, row.State.Failures)
		near(t, row.Claimed, 0)
		near(t, row.Now(), 0)
		near(t, row.State.First, 0)
		got := s.record(t, db, row.ID)
		near(t, got.lease, time.Minute)
		assert.Equal(t, record{status: "running", attempts: 1, fence: 1, lease: got.lease}, got)
	}

	// One succeeds, once.
	require.NoError(t, table.Succeed(ctx, db, a.Lease))
	assert.Equal(t, record{status: "done", attempts: 1, fence: 1}, s.record(t, db, a.ID))
	lost(t, db, table, a)

	// One fails, and waits.
	require.NoError(t, table.Fail(ctx, db, b.Lease, next(b, errWork)))
	got := s.record(t, db, b.ID)
	near(t, got.due, time.Hour)
	assert.Equal(t, record{status: "waiting", attempts: 1, fence: 1, due: got.due}, got)
	lost(t, db, table, b)

	// Only the third is due. It is given back, and nothing was counted.
	c := one(t, db, table)
	assert.Equal(t, int64(3), c.ID)
	require.NoError(t, table.Release(ctx, db, c.Lease))
	assert.Equal(t, record{status: "ready", fence: 1}, s.record(t, db, c.ID))
	lost(t, db, table, c)
	c = one(t, db, table)
	assert.Equal(t, int64(3), c.ID)
	assert.Equal(t, int64(2), c.Fence)
	assert.Zero(t, c.State.Failures)

	// The second attempt of b is its last.
	s.ago(t, db, "due_at", b.ID, time.Second)
	b = one(t, db, table)
	assert.Equal(t, 1, b.State.Failures)
	assert.Equal(t, int64(2), b.Fence)
	require.NoError(t, table.Fail(ctx, db, b.Lease, next(b, retry.MarkFinal(errWork))))
	assert.Equal(t, record{status: "dead", attempts: 2, fence: 2}, s.record(t, db, b.ID))

	// A heartbeat, of the length of the table and of another one.
	require.NoError(t, table.Extend(ctx, db, c.Lease, time.Hour))
	near(t, s.record(t, db, c.ID).lease, time.Hour)
	require.NoError(t, table.Extend(ctx, db, c.Lease, 0))
	near(t, s.record(t, db, c.ID).lease, time.Minute)
	rows = testkit.Must(table.Sweep(ctx, db, 10))(t)
	assert.Empty(t, rows, "no lease has run out")

	// The lease runs out, is swept once, and the old worker comes too late.
	s.ago(t, db, "lease_until", c.ID, time.Second)
	rows = testkit.Must(table.Sweep(ctx, db, 10))(t)
	require.Len(t, rows, 1)
	swept := rows[0]
	assert.Equal(t, c.ID, swept.ID)
	assert.Equal(t, int64(3), swept.Fence)
	assert.Equal(t, c.State, swept.State, "the failure that is decided is not among those before it")
	lost(t, db, table, c)
	rows = testkit.Must(table.Sweep(ctx, db, 10))(t)
	assert.Empty(t, rows)
	require.NoError(t, table.Fail(ctx, db, swept.Lease, next(swept, retry.ErrLost)))
	got = s.record(t, db, c.ID)
	near(t, got.due, time.Hour)
	assert.Equal(t, record{status: "waiting", attempts: 1, fence: 3, due: got.due}, got)
}

// lost asserts that the lease of row is not the caller's any more, and that
// nothing is changed.
func lost(t *testing.T, db retrytable.DB, table *retrytable.Table[int64], row retrytable.Row[int64]) {
	t.Helper()
	ctx, lease := t.Context(), row.Lease
	before := dump(t, db)
	assert.Equal(t, retrytable.ErrLeaseLost, table.Succeed(ctx, db, lease))
	assert.Equal(t, retrytable.ErrLeaseLost, table.Fail(ctx, db, lease, next(row, errWork)))
	assert.Equal(t, retrytable.ErrLeaseLost, table.Fail(ctx, db, lease, next(row, retry.MarkFinal(errWork))))
	assert.Equal(t, retrytable.ErrLeaseLost, table.Extend(ctx, db, lease, 0))
	assert.Equal(t, retrytable.ErrLeaseLost, table.Release(ctx, db, lease))
	assert.Equal(t, before, dump(t, db))
}

// dump returns all that is in the table.
func dump(t testing.TB, db retrytable.DB) [][]any {
	t.Helper()
	return query(t, db, "SELECT * FROM jobs ORDER BY id")
}

// Eight claimers with connections of their own share 400 jobs.
func TestClaimsEachRowOnce(t *testing.T) {
	t.Parallel()
	forEachTable(t, databases, jobs, 400, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		if s.dialect == retrytable.SQLite {
			s.db.SetMaxOpenConns(8)
		}
		shareClaims(t, s, table, 8, 400, 3)
	})
}

// shareClaims has workers claim n rows at the same time, some in each claim, and each row once. While
// there are more, a claim of one row gets one.
func shareClaims(t *testing.T, s *store, table *retrytable.Table[int64], workers, n, each int) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[int64]int{}
	for range workers {
		wg.Go(func() {
			for left := n / workers; left > 0; {
				rows, err := table.Claim(t.Context(), s.db, min(each, left))
				if !assert.NoError(t, err) || each == 1 && !assert.Len(t, rows, 1, "there are more") {
					return
				}
				left -= len(rows)
				mu.Lock()
				for _, row := range rows {
					seen[row.ID]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	assert.Len(t, seen, n)
	for id, times := range seen {
		assert.Equal(t, 1, times, id)
	}
}

// Whatever workers do at the same time, there are no deadlocks, and no waiting for more
// than a statement.
func TestNoDeadlocks(t *testing.T) {
	t.Parallel()
	forEach(t, []kind{databases[0], databases[3]}, func(t *testing.T, s *store) {
		for _, orderBy := range []string{"", "priority DESC, id"} {
			table := jobs()
			table.OrderBy = orderBy
			s.create(t, table, 40)
			p := &retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(0)}
			var workers sync.WaitGroup
			for range 5 {
				workers.Go(func() {
					for i := range 12 {
						rows, err := table.Claim(t.Context(), s.db, 1+i%7)
						assert.NoError(t, err)
						for j, row := range rows {
							switch j % 4 {
							case 0:
								err = table.Extend(t.Context(), s.db, row.Lease, time.Hour)
							case 1:
								err = table.Extend(t.Context(), s.db, row.Lease, time.Microsecond) // and sweep it
							case 2:
								err = table.Release(t.Context(), s.db, row.Lease)
							}
							assert.NoError(t, err)
							if j%4 != 1 && j%4 != 2 {
								assert.NoError(t, table.Fail(t.Context(), s.db, row.Lease, p.Next(row.State, errWork, row.Now())))
							}
						}
						swept, err := table.Sweep(t.Context(), s.db, 3)
						assert.NoError(t, err)
						for _, row := range swept {
							err := table.Fail(t.Context(), s.db, row.Lease, p.Next(row.State, retry.ErrLost, row.Now()))
							assert.NoError(t, err)
						}
					}
				})
			}
			workers.Wait()
			assert.Equal(t, [][]any{{int64(40)}}, query(t, s.db, "SELECT count(*) FROM jobs WHERE status <> 'dead'"))
			run(t, s.db, "DROP TABLE jobs")
		}
	})
}

// A transaction that holds rows does not hold up others.
func TestSkipLocked(t *testing.T) {
	t.Parallel()
	forEachTable(t, of(databases, retrytable.PostgreSQL, retrytable.MySQL), jobs, 2, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		tx := s.begin(ctx, t)
		defer func() { _ = tx.Rollback() }()
		held := testkit.Must(table.Claim(ctx, tx, 1))(t)
		require.Len(t, held, 1)
		free := one(t, s.db, table)
		assert.NotEqual(t, held[0].ID, free.ID)

		s.ago(t, s.db, "lease_until", free.ID, time.Second)
		require.Len(t, testkit.Must(table.Sweep(ctx, tx, 10))(t), 1)
		assert.Empty(t, testkit.Must(table.Sweep(ctx, s.db, 10))(t))

		// What is rolled back was not claimed.
		require.NoError(t, tx.Rollback())
		rows := testkit.Must(table.Claim(ctx, s.db, 10))(t)
		require.Len(t, rows, 1)
		assert.Equal(t, int64(1), rows[0].Fence)
	})
}

// A job that was given back before it ran has not begun.
func TestReleaseForgets(t *testing.T) {
	t.Parallel()
	forEachTable(t, databases, jobs, 1, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		p := &retry.Policy{MaxElapsed: time.Hour, Backoff: retry.Constant(0)}
		row := one(t, s.db, table)
		s.ago(t, s.db, "first_at", 1, 2*time.Hour) // it was waiting for a worker to begin
		require.NoError(t, table.Release(t.Context(), s.db, row.Lease))
		row = one(t, s.db, table)
		_, exhausted := p.Exhausted(row.State, row.Now())
		assert.False(t, exhausted)

		for _, err := range []error{errWork, retry.MarkPending(errWork)} { // one that began has
			run(t, s.db, "UPDATE jobs SET attempts = 0, polls = 0")
			row.State = retry.State{First: row.State.First}
			require.NoError(t, table.Fail(t.Context(), s.db, row.Lease, p.Next(row.State, err, row.Now())))
			first := row.State.First
			row = one(t, s.db, table)
			require.NoError(t, table.Release(t.Context(), s.db, row.Lease))
			row = one(t, s.db, table)
			assert.Equal(t, first, row.State.First)
		}
	})
}

// A lease counts from when it was got, however long that took.
func TestExtendWaits(t *testing.T) {
	t.Parallel()
	forEachTable(t, append(of(kinds, retrytable.MySQL), kinds[:2]...), jobs, 1, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		row := one(t, s.db, table)
		for _, lock := range []string{"SELECT id FROM jobs FOR UPDATE", "UPDATE jobs SET note = 'seen'"} {
			tx := testkit.Must(s.db.BeginTx(t.Context(), nil))(t)
			run(t, tx, lock)
			committed := make(chan error, 1)
			time.AfterFunc(700*time.Millisecond, func() { committed <- tx.Commit() })
			began := time.Now()
			require.NoError(t, table.Extend(t.Context(), s.db, row.Lease, 500*time.Millisecond))
			require.Greater(t, time.Since(began), 600*time.Millisecond, "it has waited")
			require.NoError(t, <-committed)
			assert.Greater(t, s.record(t, s.db, 1).lease, time.Now())
		}
	})
}

// What somebody has written by hand does not keep others from working.
func TestInfinity(t *testing.T) {
	t.Parallel()
	forEachTable(t, of(databases, retrytable.PostgreSQL), jobs, 2, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		run(t, s.db, "UPDATE jobs SET first_at = '-infinity' WHERE id = 1")
		run(t, s.db, "UPDATE jobs SET first_at = 'infinity' WHERE id = 2")
		rows := testkit.Must(table.Claim(t.Context(), s.db, 10))(t)
		require.Len(t, rows, 2)
		for _, row := range rows {
			assert.True(t, row.State.First.IsZero())
			require.NoError(t, table.Fail(t.Context(), s.db, row.Lease, next(row, errWork)))
		}
	})
}

// A table that was there before is full of NULLs.
func TestNulls(t *testing.T) {
	t.Parallel()
	forEach(t, kinds, func(t *testing.T, s *store) {
		table, ctx := s.jobs(), t.Context()
		instant := s.instants.SQLType(s.dialect)
		run(t, s.db, "CREATE TABLE jobs (id bigint PRIMARY KEY, status text, attempts smallint, limited integer, polls integer, fence bigint, "+
			"note text, error text, due_at "+instant+", lease_until "+instant+", first_at "+instant+")")
		if s.dialect == retrytable.MySQL {
			run(t, s.db, s.indexes(table.Schema()))
		}
		run(t, s.db, "INSERT INTO jobs (id, status) VALUES (1, 'ready'), (2, 'waiting'), (3, 'running'), (4, NULL), (5, 'dead')")
		untouched := dump(t, s.db)[1:]

		row := one(t, s.db, table)
		assert.Equal(t, int64(1), row.ID)
		assert.Equal(t, retry.State{First: row.State.First}, row.State)
		near(t, row.State.First, 0)
		rows := testkit.Must(table.Sweep(ctx, s.db, 10))(t)
		assert.Empty(t, rows, "a running row without a lease is none of ours")
		assert.Empty(t, testkit.Must(table.Promote(ctx, s.db, 10))(t))
		require.NoError(t, table.Fail(ctx, s.db, row.Lease, next(row, errWork)))
		assert.Equal(t, untouched, dump(t, s.db)[1:])

		// Leased by hand, and never counted.
		s.ago(t, s.db, "lease_until", 3, time.Second)
		rows = testkit.Must(table.Sweep(ctx, s.db, 10))(t)
		require.Len(t, rows, 1)
		assert.Equal(t, retry.State{}, rows[0].State)
		assert.Equal(t, int64(1), rows[0].Fence)
	})
}

// Of the schema, PostgreSQL adds what is missing, SQLite the indexes, and MySQL all or
// nothing.
func TestSchemaAgain(t *testing.T) {
	t.Parallel()
	forEachTable(t, databases, jobs, 1, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		if s.dialect != retrytable.PostgreSQL {
			_, err := s.db.ExecContext(t.Context(), table.Schema())
			assert.ErrorContains(t, err, "uplicate column name")
			assert.ErrorContains(t, err, "status")
		}
		switch s.dialect {
		case retrytable.SQLite:
			run(t, s.db, s.indexes(table.Schema()))
			return
		case retrytable.MySQL: // a Table with other words has columns of its own
			other := &retrytable.Table[int64]{Name: "jobs", Dialect: s.dialect, Statuses: retrytable.Statuses{Ready: "new", Running: []string{"busy"}, Dead: "gone"}}
			run(t, s.db, s.indexes(other.Schema()))
			run(t, s.db, "INSERT INTO jobs (id, status) VALUES (2, 'new')")
			assert.Equal(t, int64(1), one(t, s.db, table).ID)
			assert.Equal(t, int64(2), one(t, s.db, other).ID)
			return
		}
		run(t, s.db, table.Schema())
		run(t, s.db, "ALTER TABLE jobs DROP COLUMN limited")
		run(t, s.db, "DROP INDEX jobs_sweep")
		run(t, s.db, table.Schema())
		one(t, s.db, table)
		assert.Len(t, query(t, s.db, "SELECT 1 FROM pg_indexes WHERE schemaname = current_schema() AND indexname = 'jobs_sweep'"), 1)
	})
}

// Errors of the database say which method it was, and stay what they are.
func TestErrors(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		table := &retrytable.Table[int64]{Dialect: s.dialect, Name: "nowhere"}
		_, err := table.Claim(t.Context(), s.db, 1)
		assert.ErrorContains(t, err, "retrytable: claim: ")
		assert.ErrorContains(t, err, "nowhere")
		assert.ErrorContains(t, table.Succeed(t.Context(), s.db, retrytable.Lease[int64]{ID: 1, Fence: 1}), "retrytable: succeed: ")

		// A column that is missing is not taken for a string.
		run(t, s.db, "CREATE TABLE nowhere (id integer PRIMARY KEY, status text, attempts integer, due_at bigint, lease_until bigint)")
		assert.ErrorContains(t, table.Succeed(t.Context(), s.db, retrytable.Lease[int64]{ID: 1, Fence: 1}), "fence")

		assert.ErrorIs(t, table.Extend(testkit.Canceled(t.Context()), s.db, retrytable.Lease[int64]{ID: 1, Fence: 1}, 0), context.Canceled)

		// An ID of another type.
		words := &retrytable.Table[int64]{Dialect: s.dialect, Name: "words", Instants: s.instants}
		run(t, s.db, "CREATE TABLE words (id "+s.text()+" PRIMARY KEY)")
		run(t, s.db, words.Schema())
		run(t, s.db, "INSERT INTO words (id) VALUES ('a'), ('b')")
		_, err = words.Claim(t.Context(), s.db, 2)
		assert.ErrorContains(t, err, "retrytable: claim: sql: Scan error")
		assert.NoError(t, s.db.PingContext(t.Context()))
	})
}

var (
	_ retrytable.DB = (*sql.DB)(nil)
	_ retrytable.DB = (*sql.Conn)(nil)
	_ retrytable.DB = (*sql.Tx)(nil)
)

// begins counts transactions.
type begins struct {
	*sql.DB

	n atomic.Int32
}

func (b *begins) BeginTx(ctx context.Context, options *sql.TxOptions) (*sql.Tx, error) {
	b.n.Add(1)
	return b.DB.BeginTx(ctx, options)
}

// What takes nothing begins no transaction: InnoDB locks the row behind the last that it
// looks at, so a sweep whose connection becomes silent would hold the end of another job.
func TestNoTransactionForNothing(t *testing.T) {
	t.Parallel()
	forEachTable(t, of(kinds, retrytable.MySQL), jobs, 1, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		db := &begins{DB: s.db}
		assert.Len(t, testkit.Must(table.Claim(t.Context(), db, 2))(t), 1)
		assert.Equal(t, int32(1), db.n.Load())
		for _, take := range []func(context.Context, retrytable.DB, int, ...any) ([]retrytable.Row[int64], error){table.Claim, table.Sweep} {
			assert.Empty(t, testkit.Must(take(t.Context(), db, 2))(t))
		}
		assert.Equal(t, int32(1), db.n.Load())
	})
}
