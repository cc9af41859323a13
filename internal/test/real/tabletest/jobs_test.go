//nolint:thelper // what forEach calls is the test itself
package tabletest_test

import (
	"context"
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// mended is a Table with every column that people ask for.
func mended() *retrytable.Table[int64] {
	return &retrytable.Table[int64]{
		Name: "jobs",
		Columns: retrytable.Columns{
			RateLimited: "limited", Pending: "polls", First: "first_at", Ended: "ended_at", Kind: "sort", Category: "category", Error: "error",
		},
	}
}

var errRefused = retry.Mark(fmt.Errorf("dial tcp 10.0.0.1:5432: connection refused"), retry.Verdict{Class: retry.Final, Category: "net_refused"})

// die lets jobs die, each with its own failure.
func die(t testing.TB, s *store, table *retrytable.Table[int64], failures ...error) {
	t.Helper()
	rows := testkit.Must(table.Claim(t.Context(), s.db, len(failures)))(t)
	require.Len(t, rows, len(failures))
	for _, row := range rows {
		failure := failures[(row.ID-1)%int64(len(failures))]
		d := (&retry.Policy{}).Next(row.State, failure, row.Now())
		require.NoError(t, table.FailWith(t.Context(), s.db, row.Lease, d, failure))
	}
}

// Each operation changes what it says, and nothing else.
func TestOperations(t *testing.T) {
	t.Parallel()
	forEachTable(t, kinds, mended, 6, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		ctx := t.Context()
		die(t, s, table, errRefused, errRefused, retry.MarkFinal(fmt.Errorf("100%% bad_input")), errRefused, errRefused, errRefused)
		run(t, s.db, "UPDATE jobs SET sort = 'mail' WHERE id IN (1, 3)")
		first := s.record(t, s.db, 1)
		require.Equal(t, "dead", first.status)

		type jobs = retrytable.Jobs[int64]
		again := func(j jobs, how retrytable.Again) int64 {
			n := testkit.Must(table.TryAgain(ctx, s.db, j, how))(t)
			return n
		}
		now := time.Now()
		assert.Zero(t, again(jobs{Error: "100% bad_inpu_"}, retrytable.Again{}), "it is no pattern")
		assert.Zero(t, again(jobs{Error: "100% bad_inpu%"}, retrytable.Again{}), "it is no pattern")
		assert.Zero(t, again(jobs{Until: now.Add(-time.Hour)}, retrytable.Again{}))
		assert.Zero(t, again(jobs{Since: now.Add(time.Hour)}, retrytable.Again{}))
		assert.Zero(t, again(jobs{IDs: []int64{}}, retrytable.Again{}), "none is none")
		assert.EqualValues(t, 1, again(jobs{Error: "100% bad_*"}, retrytable.Again{KeepCounts: true}))
		assert.EqualValues(t, 1, s.record(t, s.db, 3).attempts)
		assert.EqualValues(t, 1, again(jobs{Kinds: []string{"mail", "none"}, Category: "net_refused"}, retrytable.Again{Spread: time.Hour}))
		one := s.record(t, s.db, 1)
		assert.Equal(t, "waiting", one.status)
		assert.Zero(t, one.attempts)
		assert.Equal(t, first.fence+1, one.fence)
		assert.WithinRange(t, one.due, now.Add(-time.Minute), now.Add(time.Hour+time.Minute))
		assert.EqualValues(t, 2, again(jobs{Since: now.Add(-time.Hour), Until: now.Add(time.Hour), Limit: 2}, retrytable.Again{}))
		assert.Equal(t, "dead", s.record(t, s.db, 5).status, "in the order of IDs, up to the limit")
		assert.EqualValues(t, 2, again(jobs{IDs: []int64{5, 6, 7, 1}}, retrytable.Again{}), "1 is not dead any more")

		until := now.Add(time.Hour).Truncate(time.Second)
		n := testkit.Must(table.PutOff(ctx, s.db, jobs{All: true, Status: retrytable.Waiting}, until))(t)
		assert.EqualValues(t, 6, n)
		assert.WithinDuration(t, until, s.record(t, s.db, 2).due, 0)
		n, err := table.End(ctx, s.db, jobs{IDs: []int64{1, 2}}, retrytable.Ending{Error: "by hand: https://user:secret@example.com/x\x00"})
		require.NoError(t, err)
		assert.EqualValues(t, 2, n)
		assert.Equal(t, [][]any{{"dead", "by hand: https://example.com/x"}}, query(t, s.db, "SELECT status, error FROM jobs WHERE id = 2"))
		n = testkit.Must(table.End(ctx, s.db, jobs{Where: "id = $1", Status: retrytable.Dead},
			retrytable.Ending{Status: "done", Set: "note = $2"}, 2, "discarded"))(t)
		assert.EqualValues(t, 1, n)
		assert.Equal(t, [][]any{{"done", nil, "discarded"}}, query(t, s.db, "SELECT status, error, note FROM jobs WHERE id = 2"))
	})
}

// A worker loses the lease of a job that is ended, given back or put off while it runs. One that is put
// off is not due before the instant, and an attempt that does not count leaves nothing: not even the
// time of the first one, which MaxElapsed counts from.
func TestOperationsOnRunning(t *testing.T) {
	t.Parallel()
	forEachTable(t, kinds, mended, 5, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		ctx := t.Context()
		rows := testkit.Must(table.Claim(ctx, s.db, 5))(t)
		until := time.Now().Add(time.Hour).Truncate(time.Second).Add(300_001 * time.Microsecond)
		type jobs = retrytable.Jobs[int64]
		putOff := func(j jobs) (int64, error) {
			j.Status = retrytable.Running | retrytable.Waiting
			return table.PutOff(ctx, s.db, j, until)
		}
		for i, test := range []struct {
			status   string
			attempts int64
			do       func(j jobs) (int64, error)
		}{
			{"dead", 1, func(j jobs) (int64, error) { return table.End(ctx, s.db, j, retrytable.Ending{}) }},
			{"ready", 0, func(j jobs) (int64, error) { return table.GiveBack(ctx, s.db, j) }},
			{"waiting", 0, putOff},
			{"waiting", 1, func(j jobs) (int64, error) { // it has failed before
				require.NoError(t, table.Fail(ctx, s.db, rows[3].Lease, next(rows[3], errWork)))
				return putOff(j)
			}},
		} {
			row := rows[i]
			n := testkit.Must(test.do(jobs{IDs: []int64{row.ID}}))(t)
			assert.EqualValues(t, 1, n, test.status)
			require.ErrorIs(t, table.Succeed(ctx, s.db, row.Lease), retrytable.ErrLeaseLost)
			got := s.record(t, s.db, row.ID)
			assert.Equal(t, test.status, got.status)
			assert.Equal(t, test.attempts, got.attempts)
			assert.Zero(t, got.lease)
			if test.status == "waiting" {
				r, _, err := table.Find(ctx, s.db, row.ID)
				require.NoError(t, err)
				assert.Equal(t, test.attempts == 0, r.First.IsZero())
				if s.instants != retrytable.RFC3339 && s.instants != ofOthers { // its clock has milliseconds
					assert.False(t, r.Due.Before(until), "%v %v", r.Due, until)
				}
				assert.WithinDuration(t, until, r.Due, time.Second)
			}
		}
		n := testkit.Must(table.TakeOver(ctx, s.db, jobs{All: true}))(t)
		assert.Zero(t, n, "it has a lease")
		run(t, s.db, "UPDATE jobs SET lease_until = NULL WHERE id = $1", rows[4].ID)
		n = testkit.Must(table.TakeOver(ctx, s.db, jobs{All: true}))(t)
		assert.EqualValues(t, 1, n)
		swept := testkit.Must(table.Sweep(ctx, s.db, 10))(t)
		require.Len(t, swept, 1)
		assert.Equal(t, rows[4].ID, swept[0].ID)
	})
}

// A transaction that is rolled back has changed nothing, and words that mean two states are told
// apart.
func TestOperationsInTx(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		ctx, table := t.Context(), mended()
		table.Statuses.Waiting, table.Statuses.Dead = "error", "error"
		s.create(t, table, 2)
		die(t, s, table, errRefused, retry.ErrLost)
		tx := s.begin(ctx, t)
		all := retrytable.Jobs[int64]{All: true}
		n := testkit.Must(table.TryAgain(ctx, tx, all, retrytable.Again{Spread: time.Hour}))(t)
		assert.EqualValues(t, 1, n, "the other one waits already")
		require.NoError(t, tx.Rollback())
		n = testkit.Must(table.TryAgain(ctx, s.db, all, retrytable.Again{Spread: time.Hour}))(t)
		assert.EqualValues(t, 1, n)
		n = testkit.Must(table.TryAgain(ctx, s.db, all, retrytable.Again{}))(t)
		assert.Zero(t, n)
	})
}

var redriven = flag.Int("redriven", 1200, "how many `jobs` are tried again at once")

// Jobs that died are tried again beside Workers: each once, and none is missing at any moment.
func TestRedrive(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		total := *redriven
		ctx, table := t.Context(), mended()
		s.create(t, table, 0)
		s.insertDead(t, total)
		if s.dialect != retrytable.SQLite {
			s.db.SetMaxOpenConns(16) // others use the server too
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		var worked, twice atomic.Int64
		done := make(chan error, 4)
		seen := make([]atomic.Bool, total+1)
		for range 4 {
			w := &retrytable.Worker[int64]{
				Table: table, DB: s.db, Concurrency: 20, Poll: 50 * time.Millisecond,
				Work: func(_ context.Context, job *retrytable.Job[int64]) error {
					if seen[job.ID].Swap(true) {
						twice.Add(1)
					}
					if worked.Add(1) == int64(total) {
						stop()
					}
					return nil
				},
			}
			go func() { done <- w.Run(ctx) }()
		}
		changed := make(chan int64, 2)
		for range 2 { // two people press the button
			go func() {
				n, err := table.TryAgain(t.Context(), s.db, retrytable.Jobs[int64]{Error: "*refused*"}, retrytable.Again{Spread: time.Second})
				assert.NoError(t, err)
				changed <- n
			}()
		}
		for ctx.Err() == nil {
			counts := testkit.Must(table.Counts(t.Context(), s.db, total))(t)
			sum := 0
			for _, c := range counts.Jobs {
				sum += c.N
				assert.False(t, c.More)
			}
			require.Equal(t, total, sum)
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond): //nolint:forbidigo // beside what it looks at
			}
		}
		for range 4 {
			assert.ErrorIs(t, <-done, context.Canceled)
		}
		assert.EqualValues(t, total, <-changed+<-changed)
		assert.EqualValues(t, total, worked.Load())
		assert.Zero(t, twice.Load())
		assert.EqualValues(t, total, query(t, s.db, "SELECT count(*) FROM jobs WHERE status = 'done' AND attempts = 1")[0][0])
	})
}

// insertDead makes the table full of dead jobs.
func (s *store) insertDead(t testing.TB, n int) {
	t.Helper()
	run(t, s.db, "INSERT INTO jobs (id, status, attempts, due_at, sort, error) "+
		"SELECT i, 'dead', 3, NULL, 'mail', 'dial tcp: connection refused' FROM "+s.series(1, n))
}
