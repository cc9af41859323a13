package retrypool_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrypool"
	"github.com/seed-5ff3c98e/retry/retryquota"
)

// Behind a quota of 10 in 2 s, 100 tasks are refused a few times, and hold no worker meanwhile.
func TestQuota(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 8, Policy: &retry.Policy{Quota: &retryquota.Quota{}, Jitter: retry.NoJitter}}
		start := time.Now()
		api := &testkit.Window{Limit: 10, Length: 2 * time.Second}
		var tasks []*retrypool.Task
		for range 100 {
			tasks = append(tasks, submit(t.Context(), t, pool, func(context.Context) error {
				time.Sleep(time.Second)
				return api.Ask()
			}))
		}
		for _, task := range tasks {
			require.NoError(t, task.Wait(t.Context()))
		}
		_, refused := api.Answers()
		assert.LessOrEqual(t, refused, 42)
		assert.LessOrEqual(t, time.Since(start), 31*time.Second, "18 s are needed")
		assert.Empty(t, shut(t, pool))
	})
}

// Close hands back what the hold keeps from its worker, and does not wait for the hold.
func TestQuotaClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		quota := &retryquota.Quota{}
		pool := &retrypool.Pool{Workers: 2, Policy: &retry.Policy{Quota: quota}}
		turn, _, _ := quota.Take(nil, 1)
		quota.Tell(nil, turn, errors.New("limited"), retry.Verdict{Class: retry.RateLimited, After: time.Minute})
		for range 10 {
			submit(t.Context(), t, pool, func(context.Context) error { return nil })
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		left, err := pool.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Len(t, left, 10)
		assert.Equal(t, time.Second, time.Since(start))
		for _, task := range left {
			assert.Zero(t, task.Attempts())
		}
	})
}

type panickingPacer struct{}

func (panickingPacer) Wait(context.Context, *retry.Policy, retry.Waiting) (retry.Turn, time.Duration, error) {
	panic("wait")
}
func (panickingPacer) Take(*retry.Policy, int) (retry.Turn, int, time.Duration) { panic("pacer") }
func (panickingPacer) Return(*retry.Policy, retry.Turn, int)                    { panic("return") }
func (panickingPacer) Tell(*retry.Policy, retry.Turn, error, retry.Verdict) time.Duration {
	return 0
}

// A Pacer that panics ends the task.
func TestPacerPanics(t *testing.T) {
	t.Parallel()
	pool := &retrypool.Pool{Policy: &retry.Policy{Quota: panickingPacer{}}}
	task := submit(t.Context(), t, pool, func(context.Context) error { return nil })
	var panicked *retry.PanicError
	require.ErrorAs(t, task.Wait(t.Context()), &panicked)
	assert.Equal(t, "pacer", panicked.Value)
}
