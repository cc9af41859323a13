//nolint:thelper // what inBubble calls is the test itself
package tabletest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// Jobs behind a quota are refused once in a window, and not each job in each window.
func TestWorkerQuota(t *testing.T) {
	t.Parallel()
	const jobs = 200
	refused := map[bool]int{}
	for _, quota := range []bool{false, true} {
		inBubble(t, jobs, func(t *testing.T, s *shop) {
			a := &testkit.Window{Limit: 20, Length: 2 * time.Second}
			s.Policy = &retry.Policy{MaxAttempts: 3, FreeRateLimits: 100, Jitter: retry.NoJitter}
			if quota {
				s.Policy.FreeRateLimits, s.Policy.Quota = 0, &retryquota.Quota{}
			}
			start := time.Now()
			s.Concurrency, s.Poll = 25, 20*time.Millisecond
			s.Work = func(context.Context, *retrytable.Job[int64]) error {
				time.Sleep(50 * time.Millisecond)
				return a.Ask()
			}
			stop := s.start(t)
			served, refusals := a.Answers()
			for ; served < jobs; served, refusals = a.Answers() {
				time.Sleep(10 * time.Millisecond)
			}
			require.ErrorIs(t, stop(), errStop)
			assert.Empty(t, s.errs)
			refused[quota] = refusals
			if quota {
				assert.LessOrEqual(t, refusals, jobs*15/100)
				assert.LessOrEqual(t, time.Since(start), 21*time.Second, "18 s are needed")
			}
		})
	}
	assert.Greater(t, refused[false], 4*refused[true], "each job alone: %v", refused)
}

// While the API of one kind holds, another kind goes on, and nothing is counted of what is held.
func TestWorkerQuotaOfAKind(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *testing.T, s *shop) {
		s.Table = jobsOfKinds()
		run(t, s.db, "DROP TABLE jobs")
		s.create(t, s.Table, 0)
		kinds := make([]string, 100)
		for i := range kinds {
			kinds[i] = []string{"mail", "report"}[i%2]
		}
		ofKinds(t, s.store, kinds...)
		quota := &retryquota.Quota{}
		turn, _, _ := quota.Take(nil, 1)
		quota.Tell(nil, turn, errors.New("too many"), retry.Verdict{Class: retry.RateLimited, After: 30 * time.Second})
		s.PolicyFor = func(kind string) (*retry.Policy, error) {
			if kind == "mail" {
				return &retry.Policy{Quota: quota, Clock: s.Policy.Clock}, nil
			}
			return nil, nil
		}
		s.Concurrency, s.Poll = 4, 20*time.Millisecond
		var mu sync.Mutex
		done := map[string]time.Time{}
		start := time.Now()
		s.Work = func(_ context.Context, job *retrytable.Job[int64]) error {
			mu.Lock()
			defer mu.Unlock()
			assert.Zero(t, job.State.Attempts())
			done[job.Kind] = time.Now()
			if job.Kind == "mail" {
				assert.GreaterOrEqual(t, time.Since(start), 30*time.Second)
			}
			return nil
		}
		stop := s.start(t)
		time.Sleep(29 * time.Second)
		assert.Equal(t, [][]any{{int64(50)}}, query(t, s.db, "SELECT count(*) FROM jobs WHERE status = 'done' AND sort = 'report'"))
		mu.Lock()
		assert.Less(t, done["report"].Sub(start), 5*time.Second)
		mu.Unlock()
		assert.Equal(t, [][]any{{int64(0)}}, query(t, s.db, "SELECT coalesce(max(attempts), 0) FROM jobs WHERE status <> 'done'"))
		time.Sleep(5 * time.Minute)
		assert.Equal(t, [][]any{{int64(100)}}, query(t, s.db, "SELECT count(*) FROM jobs WHERE status = 'done'"))
		require.ErrorIs(t, stop(), errStop)
		assert.Empty(t, s.errs)
	})
}
