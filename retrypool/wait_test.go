package retrypool_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypool"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func TestWaitingHoldsNoWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 1, Policy: every(time.Hour)}
		old := submit(t.Context(), t, pool, fails)
		start := time.Now()
		task := submit(t.Context(), t, pool, succeeds)
		require.NoError(t, task.Wait(t.Context()))
		assert.Equal(t, start, time.Now())
		err := old.Wait(t.Context())
		require.ErrorIs(t, err, errBoom)
		require.EqualError(t, err, "failed after 3 attempts: boom")
		assert.Equal(t, 2*time.Hour, time.Since(start))
	})
}

// A failure after progress starts a new count of the waits too, as in Execute.
func TestWaitedAfterProgress(t *testing.T) {
	t.Parallel()
	script := func() func(context.Context) error {
		return retrytest.Script(errBoom, retry.MarkProgress(errBoom), errBoom, errBoom).Run
	}
	synctest.Test(t, func(t *testing.T) {
		var want, got *retry.Error
		require.ErrorAs(t, every(time.Hour).Execute(t.Context(), script()), &want)
		require.ErrorAs(t, inPool(t.Context(), every(time.Hour), script()), &got)
		assert.Equal(t, 2*time.Hour, want.Waited)
		assert.Equal(t, want.Waited, got.Waited)
	})
}

// One goroutine waits for all of them. It cannot be parallel: others' goroutines
// would be counted.
func TestWaitingHoldsNoGoroutine(t *testing.T) { //nolint:paralleltest // see above
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var ends atomic.Int32
		pool := &retrypool.Pool{
			Workers: 4,
			Policy:  every(time.Hour),
			OnEnd:   func(context.Context, *retrypool.Task) { ends.Add(1) },
		}
		for range 10_000 {
			submit(ctx, t, pool, fails)
		}
		synctest.Wait()
		expectGoroutines(t, 1)

		start := time.Now()
		cancel()
		synctest.Wait()
		assert.EqualValues(t, 10_000, ends.Load())
		expectGoroutines(t, 0)
		assert.Equal(t, start, time.Now())
	})
}

// A thousand tasks that wait for an hour do not slow down new work.
func TestOldFailuresDoNotKeepNewWorkWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 4, Policy: every(time.Hour)}
		for range 1000 {
			submit(t.Context(), t, pool, fails)
		}
		synctest.Wait()
		start := time.Now()
		var last *retrypool.Task
		for range 400 {
			last = submit(t.Context(), t, pool, taking(time.Second, succeeds))
		}
		require.NoError(t, last.Wait(t.Context()))
		assert.Equal(t, 100*time.Second, time.Since(start))
		assert.Len(t, shut(t, pool), 1000)
	})
}
