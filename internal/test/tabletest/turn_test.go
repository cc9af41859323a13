//nolint:thelper // what forEach calls is the test itself
package tabletest_test

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// With Turn, a limit in ClaimWhere holds for all workers together, and jobs are still
// claimed without a pause between them.
func TestWorkerTurn(t *testing.T) {
	t.Parallel()
	forEach(t, of(databases, retrytable.PostgreSQL, retrytable.SQLite), func(t *testing.T, s *store) {
		const jobsInAll, limit, workers = 30, 3, 4
		table := jobs()
		table.ClaimWhere = "(SELECT count(*) FROM jobs AS other WHERE other.status = 'running') < 3"
		s.create(t, table, jobsInAll)
		var atWork, most, done atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var all sync.WaitGroup
		for range workers {
			w := &retrytable.Worker[int64]{
				Table: table, DB: s.db, Concurrency: 8, Poll: 5 * time.Millisecond,
				Turn: func(ctx context.Context, db retrytable.DB) error {
					if s.dialect == retrytable.SQLite {
						return nil
					}
					_, err := db.ExecContext(ctx, "SELECT pg_advisory_xact_lock(hashtext(current_schema()))")
					return err
				},
				Work: func(context.Context, *retrytable.Job[int64]) error {
					n := atWork.Add(1)
					for before := most.Load(); n > before; before = most.Load() {
						most.CompareAndSwap(before, n)
					}
					time.Sleep(20 * time.Millisecond)
					atWork.Add(-1)
					return nil
				},
				After: func(context.Context, *retrytable.Outcome[int64]) {
					if done.Add(1) == jobsInAll {
						stop()
					}
				},
				OnError: func(_ context.Context, err error) { t.Error(err) },
			}
			all.Go(func() { assert.ErrorIs(t, w.Run(ctx), context.Canceled) })
		}
		all.Wait()
		assert.EqualValues(t, jobsInAll, done.Load())
		assert.LessOrEqual(t, most.Load(), int64(limit))
	})
}

// An error of Turn, or its panic, is told, and nothing is claimed.
func TestWorkerTurnFails(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		s.create(t, jobs(), 2)
		table := jobs()
		table.Dialect, table.Instants = s.dialect, s.instants
		turn := func(context.Context, retrytable.DB) error { return assert.AnError }
		w := &retrytable.Worker[int64]{
			Table: table, DB: s.db, Work: func(context.Context, *retrytable.Job[int64]) error { return nil }, Concurrency: 2,
			Turn: func(ctx context.Context, db retrytable.DB) error { return turn(ctx, db) },
		}
		n, err := w.Once(t.Context())
		assert.ErrorIs(t, err, assert.AnError)
		assert.Zero(t, n)
		turn = func(context.Context, retrytable.DB) error { panic("at the disco") }
		_, err = w.Once(t.Context())
		var panicked *retry.PanicError
		require.ErrorAs(t, err, &panicked)
		assert.Equal(t, "Turn", panicked.In)
		turn = func(context.Context, retrytable.DB) error { return nil }
		n, err = w.Once(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, n, "one job has a turn")
	})
}

// A job may bring its policy, as JSON in its row.
func TestWorkerPolicyInRow(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		table := jobs()
		table.Columns.Kind = "policy"
		table.Dialect, table.Instants = s.dialect, s.instants
		column := map[retrytable.Dialect]string{retrytable.PostgreSQL: "jsonb", retrytable.SQLite: "text", retrytable.MySQL: "json"}
		run(t, s.db, "CREATE TABLE jobs (id bigint PRIMARY KEY, note text, policy "+column[s.dialect]+")")
		jobsTable := jobs()
		jobsTable.Dialect, jobsTable.Instants = s.dialect, s.instants
		run(t, s.db, jobsTable.Schema())
		require.NoError(t, table.Check(t.Context(), s.db))
		run(t, s.db, `INSERT INTO jobs (id, policy) VALUES (1, '{"max_attempts": 1}')`)
		run(t, s.db, `INSERT INTO jobs (id, policy) VALUES (2, '{"max_attempts": 7, "backoff": {"constant": "1h"}}')`)
		w := &retrytable.Worker[int64]{
			Table: table, DB: s.db, Concurrency: 2,
			PolicyFor: func(kind string) (*retry.Policy, error) {
				p := &retry.Policy{}
				return p, json.Unmarshal([]byte(kind), p)
			},
			Work: func(context.Context, *retrytable.Job[int64]) error { return retry.MarkRetryable(assert.AnError) },
		}
		_, err := w.Once(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "dead", s.record(t, s.db, 1).status)
		assert.Equal(t, "waiting", s.record(t, s.db, 2).status)
	})
}
