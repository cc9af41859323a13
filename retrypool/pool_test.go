//nolint:thelper // what bubble calls is the test itself
package retrypool_test

import (
	"context"
	"math"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrypool"
)

func TestZeroPool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var pool retrypool.Pool
		var none context.Context // is the background, as in Execute
		good := submit(t.Context(), t, &pool, succeeds)
		bad, err := pool.TrySubmit(none, fails)
		require.NoError(t, err)
		require.NoError(t, good.Wait(t.Context()))
		require.EqualError(t, bad.Wait(none), "failed after 3 attempts: boom")
		left, err := pool.Close(none)
		require.NoError(t, err)
		assert.Empty(t, left)
	})
}

func TestWorkersBoundWhatRuns(t *testing.T) {
	t.Parallel()
	tests := []struct{ workers, want int }{{1, 1}, {3, 3}, {0, runtime.GOMAXPROCS(0)}, {-1, runtime.GOMAXPROCS(0)}}
	for _, tt := range tests {
		bubble(t, strconv.Itoa(tt.workers), func(t *testing.T) {
			pool := &retrypool.Pool{Workers: tt.workers, Policy: every(time.Millisecond)}
			var running, most atomic.Int32
			var last *retrypool.Task
			for range 50 {
				last = submit(t.Context(), t, pool, func(context.Context) error {
					n := running.Add(1)
					for old := most.Load(); n > old; old = most.Load() {
						most.CompareAndSwap(old, n)
					}
					time.Sleep(time.Millisecond)
					running.Add(-1)
					return errBoom
				})
			}
			require.ErrorIs(t, last.Wait(t.Context()), errBoom)
			shut(t, pool)
			assert.EqualValues(t, tt.want, most.Load())
		})
	}
}

func TestSubmitBlocksWhileTheQueueIsFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 1, Queue: 2, Policy: every(time.Hour)}
		submit(t.Context(), t, pool, taking(time.Minute, fails))
		synctest.Wait() // it has left the queue
		for range 2 {
			submit(t.Context(), t, pool, taking(time.Minute, fails))
		}
		_, err := pool.TrySubmit(t.Context(), succeeds)
		require.ErrorIs(t, err, retrypool.ErrFull)

		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errBoom)
		defer cancel()
		start := time.Now()
		_, err = pool.Submit(ctx, succeeds)
		assert.Equal(t, errBoom, err)
		assert.Equal(t, time.Second, time.Since(start))

		task := submit(t.Context(), t, pool, succeeds)
		assert.Equal(t, time.Minute, time.Since(start), "when the second task starts")
		require.NoError(t, task.Wait(t.Context()))
		assert.Equal(t, 3*time.Minute, time.Since(start), "those that wait do not count")
	})
}

func TestSubmitRefuses(t *testing.T) {
	t.Parallel()
	var pool retrypool.Pool
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBoom)
	ways := map[string]func(context.Context, func(context.Context) error) (*retrypool.Task, error){
		"Submit":    pool.Submit,
		"TrySubmit": pool.TrySubmit,
		"Resume": func(ctx context.Context, fn func(context.Context) error) (*retrypool.Task, error) {
			return pool.Resume(ctx, retry.State{}, time.Time{}, fn)
		},
	}
	for name, way := range ways {
		_, err := way(t.Context(), nil)
		require.EqualError(t, err, "retrypool: fn is nil", name)
		task, err := way(ctx, succeeds)
		require.Equal(t, errBoom, err, name)
		require.Nil(t, task, name)
	}
	_, err := pool.Close(t.Context())
	require.NoError(t, err)
	for name, way := range ways {
		_, err := way(t.Context(), succeeds)
		require.ErrorIs(t, err, retrypool.ErrClosed, name)
	}
}

func TestResume(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		state    retry.State
		in       time.Duration // from now
		first    time.Duration // when it runs
		attempts int
	}{
		{"the future", retry.State{Failures: 1}, 10 * time.Minute, 10 * time.Minute, 3},
		{"now", retry.State{Failures: 2}, 0, 0, 3},
		{"the past", retry.State{Failures: 1, RateLimited: 1}, -time.Hour, 0, 4},
		{"far in the past", retry.State{}, -100 * 365 * 24 * time.Hour, 0, 3},
		{"nonsense", retry.State{Failures: -7}, 0, 0, 3},
		{"absurd", retry.State{Failures: 1, RateLimited: math.MaxInt}, 0, 0, math.MaxInt},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			pool := &retrypool.Pool{Queue: 1, Policy: every(time.Hour)}
			var at []time.Duration
			start := time.Now()
			task, err := pool.Resume(t.Context(), tt.state, start.Add(tt.in), func(context.Context) error {
				at = append(at, time.Since(start))
				return errBoom
			})
			require.NoError(t, err)
			err = task.Wait(t.Context())
			e := testkit.As[*retry.Error](t, err)
			assert.Equal(t, tt.attempts, e.Attempts)
			assert.Equal(t, tt.first, at[0])
			assert.Len(t, at, 3-max(tt.state.Failures, 0))
		})
	}
}

// Resumed tasks take no place in the queue, and a task may submit others.
func TestResumeTakesNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 1, Queue: 1}
		submit(t.Context(), t, pool, taking(time.Second, succeeds))
		synctest.Wait()
		submit(t.Context(), t, pool, succeeds)
		var last *retrypool.Task
		for range 100 {
			task, err := pool.Resume(t.Context(), retry.State{Failures: 1}, time.Time{}, succeeds)
			require.NoError(t, err)
			last = task
		}
		_, err := pool.TrySubmit(t.Context(), succeeds)
		require.ErrorIs(t, err, retrypool.ErrFull)
		require.NoError(t, last.Wait(t.Context()))
		for range 5 { // all places were given back
			_, err = pool.TrySubmit(t.Context(), succeeds)
			require.NoError(t, err)
			synctest.Wait()
		}
	})
}
