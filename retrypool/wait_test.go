//nolint:thelper // what bubble calls is the test itself
package retrypool_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrypool"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// On a retrytest.Clock, the wait for the next task moves the time.
func TestFakeClock(t *testing.T) {
	t.Parallel()
	var fake retrytest.Clock
	p := every(time.Hour)
	p.Clock, p.AttemptTimeout = &fake, time.Minute
	pool := &retrypool.Pool{Workers: 1, Policy: p}
	start := fake.Now()
	var at []time.Duration
	task := submit(t.Context(), t, pool, func(ctx context.Context) error {
		at = append(at, fake.Now().Sub(start))
		return fake.AdvanceContext(ctx, 2*time.Minute)
	})
	require.ErrorIs(t, task.Wait(t.Context()), context.DeadlineExceeded)
	assert.Equal(t, []time.Duration{0, 61 * time.Minute, 122 * time.Minute}, at)
	assert.Equal(t, []time.Duration{time.Hour, time.Hour}, fake.Sleeps())
}

// A task that is due sooner than all others is not kept waiting by them, and when
// the last one is canceled, nothing waits for it. Not parallel: it counts
// goroutines.
func TestWake(t *testing.T) { //nolint:paralleltest // see above
	for name, c := range map[string]func() retry.Clock{ //nolint:paralleltest // see above
		"system":          func() retry.Clock { return nil },
		"without a sleep": func() retry.Clock { return plainClock{} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := &retrypool.Pool{Policy: &retry.Policy{Clock: c()}}
				start := time.Now()
				var last atomic.Int64
				ctx, cancel := context.WithCancel(t.Context())
				for _, in := range []time.Duration{10 * time.Hour, 3 * time.Hour, time.Hour, 5 * time.Hour, 2 * time.Hour} {
					_, err := pool.Resume(ctx, retry.State{Failures: 1}, start.Add(in), func(context.Context) error {
						last.Store(int64(time.Since(start)))
						return nil
					})
					require.NoError(t, err)
					synctest.Wait()
				}
				for _, want := range []time.Duration{time.Hour, 2 * time.Hour, 3 * time.Hour, 5 * time.Hour} {
					time.Sleep(time.Until(start.Add(want)))
					synctest.Wait()
					assert.Equal(t, want, time.Duration(last.Load()))
				}
				cancel()
				synctest.Wait()
				expectGoroutines(t, 0)
				assert.Empty(t, shut(t, pool))
			})
		})
	}
}

// plainClock has none of the optional methods.
type plainClock struct{}

func (plainClock) Now() time.Time                         { return time.Now() }
func (plainClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

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
		require.NoError(t, pool.Wait(t.Context()))
		assert.EqualValues(t, 10_000, ends.Load(), "OnEnd has been told")
		synctest.Wait()
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

// waiters counts the tasks that wait.
type waiters struct{ n atomic.Int32 }

func (w *waiters) wait(string) func() {
	w.n.Add(1)
	return func() { w.n.Add(-1) }
}

// TestWaits counts the tasks that wait: until they are due, until their context ends, and
// until Close hands them back.
func TestWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &waiters{}
		pool := &retrypool.Pool{Workers: 2, Policy: &retry.Policy{
			MaxAttempts: 2, Backoff: retry.Constant(time.Hour), Jitter: retry.NoJitter, Observer: &retry.Observer{Wait: w.wait},
		}}
		ctx, cancel := context.WithCancel(t.Context())
		for range 5 {
			submit(t.Context(), t, pool, fails)
			submit(ctx, t, pool, fails)
		}
		synctest.Wait()
		assert.EqualValues(t, 10, w.n.Load())
		cancel()
		synctest.Wait()
		assert.EqualValues(t, 5, w.n.Load())
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Zero(t, w.n.Load())
		submit(t.Context(), t, pool, fails)
		synctest.Wait()
		assert.EqualValues(t, 1, w.n.Load())
		assert.Len(t, shut(t, pool), 1)
		assert.Zero(t, w.n.Load())
	})
}

// A task that waits ends with its context at once, one in the queue when its turn
// comes, and one that runs decides for itself.
func TestCancel(t *testing.T) {
	t.Parallel()
	errQuit := errors.New("quit")
	for _, tt := range []struct {
		name   string
		ctx    func(context.Context) (context.Context, context.CancelFunc)
		fn     func(context.Context) error
		before time.Duration // of work of another task
		want   string
		stop   retry.StopReason
		after  time.Duration
	}{
		{
			name: "waiting, canceled", fn: fails,
			want: "failed after 1 attempt (context canceled): boom", stop: retry.StopCanceled, after: time.Second,
		},
		{
			name: "waiting, with a cause", fn: fails,
			ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(ctx)
				return ctx, func() { cancel(errQuit) }
			},
			want: "failed after 1 attempt (context canceled: quit): boom", stop: retry.StopCanceled, after: time.Second,
		},
		{
			name: "waiting, beyond the deadline", fn: fails,
			ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, time.Minute)
			},
			want: "failed after 1 attempt (next attempt would miss the context's deadline): boom", stop: retry.StopDeadline,
		},
		{
			name: "waiting, as the context does not tell its deadline", fn: fails,
			ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
				return noDeadline{ctx}, cancel
			},
			want: "failed after 1 attempt (context deadline exceeded): boom", stop: retry.StopDeadline, after: 500 * time.Millisecond,
		},
		{
			name: "queued", fn: fails, before: time.Minute,
			want: "not started: context canceled", stop: retry.StopCanceled, after: time.Minute,
		},
		{
			name: "running", fn: taking(2*time.Second, fails),
			want: "failed after 1 attempt (context canceled): boom", stop: retry.StopCanceled, after: 2 * time.Second,
		},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			pool := &retrypool.Pool{Workers: 1, Policy: every(time.Hour)}
			if tt.before > 0 {
				submit(t.Context(), t, pool, taking(tt.before, succeeds))
			}
			start := time.Now()
			begin := tt.ctx
			if begin == nil {
				begin = context.WithCancel
			}
			ctx, cancel := begin(t.Context())
			defer cancel()
			task := submit(ctx, t, pool, tt.fn)
			time.AfterFunc(time.Second, cancel)
			require.NoError(t, task.Err())
			err := task.Wait(t.Context())
			assert.Equal(t, tt.after, time.Since(start))
			require.EqualError(t, err, tt.want)
			e := testkit.As[*retry.Error](t, err)
			assert.Equal(t, tt.stop, e.Stop)
			assert.Equal(t, err, task.Err())
			if context.Cause(ctx) == errQuit {
				require.ErrorIs(t, err, errQuit)
			}
			time.Sleep(2 * time.Second)
		})
	}
}

// noDeadline hides the deadline of a context.
type noDeadline struct{ context.Context }

func (noDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }

// Tasks that share a context, others that have one of their own, and one that is
// derived of another's.
func TestCancelTakesTheRightTasks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		pool := &retrypool.Pool{Workers: 2, Policy: every(time.Hour)}
		shared, cancelShared := context.WithCancel(t.Context())
		var mine, others []*retrypool.Task
		for i := range 30 {
			own, cancel := context.WithCancel(t.Context())
			defer cancel()
			derived, cancelDerived := context.WithCancel(shared)
			defer cancelDerived()
			mine = append(
				mine, submit(shared, t, pool, fails),
				submit(context.WithValue(shared, key{}, i), t, pool, fails), submit(derived, t, pool, fails),
			)
			others = append(others, submit(own, t, pool, fails), submit(context.Background(), t, pool, fails))
			if i%2 == 0 {
				synctest.Wait()
				cancelDerived() // one out of the midst
			}
		}
		synctest.Wait()
		cancelShared()
		synctest.Wait()
		for _, task := range mine {
			require.ErrorIs(t, task.Err(), context.Canceled)
		}
		for _, task := range others {
			require.NoError(t, task.Err())
		}
		start := time.Now()
		for _, task := range others {
			require.EqualError(t, task.Wait(t.Context()), "failed after 3 attempts: boom")
		}
		assert.Equal(t, 2*time.Hour, time.Since(start))
	})
}
