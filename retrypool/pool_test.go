package retrypool_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
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

var errBoom = errors.New("boom")

func fails(context.Context) error { return errBoom }

func succeeds(context.Context) error { return nil }

// every returns a policy whose retries come after d.
func every(d time.Duration) *retry.Policy {
	return &retry.Policy{Backoff: retry.Constant(d), Jitter: retry.NoJitter}
}

// taking returns a task that takes d and then does what fn does.
func taking(d time.Duration, fn func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		time.Sleep(d)
		return fn(ctx)
	}
}

// shut closes a pool when there is time.
func shut(t *testing.T, pool *retrypool.Pool) []*retrypool.Task {
	t.Helper()
	left, err := pool.Close(context.Background())
	require.NoError(t, err)
	return left
}

func submit(ctx context.Context, t *testing.T, pool *retrypool.Pool, fn func(context.Context) error) *retrypool.Task {
	t.Helper()
	task, err := pool.Submit(ctx, fn)
	require.NoError(t, err)
	return task
}

// journal is what tasks have done, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) note(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// noted returns fn with a note of each call.
func (j *journal) noted(name string, fn func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		j.note(name)
		return fn(ctx)
	}
}

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

// goroutines counts those of all pools.
func goroutines() (n int) {
	buf := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "retrypool.(*Pool)") {
			n++
		}
	}
	return n
}

// expectGoroutines lets those that are about to end do so.
func expectGoroutines(t *testing.T, want int) {
	t.Helper()
	for range 100 {
		if goroutines() <= want {
			break
		}
		runtime.Gosched()
	}
	assert.Equal(t, want, goroutines())
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

func TestWorkersBoundWhatRuns(t *testing.T) {
	t.Parallel()
	tests := []struct{ workers, want int }{{1, 1}, {3, 3}, {0, runtime.GOMAXPROCS(0)}, {-1, runtime.GOMAXPROCS(0)}}
	for _, tt := range tests {
		t.Run(strconv.Itoa(tt.workers), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
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
		})
	}
}

func TestOrderOfSubmission(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 1, Policy: every(1500 * time.Millisecond)}
		var j journal
		op := retrytest.Script(errBoom, errBoom, nil)
		submit(t.Context(), t, pool, j.noted("old", taking(time.Second, op.Run))) // due at 2.5 and at 5.5
		var last *retrypool.Task
		for i := range 6 {
			last = submit(t.Context(), t, pool, j.noted("new "+strconv.Itoa(i), taking(time.Second, succeeds)))
		}
		require.NoError(t, last.Wait(t.Context()))
		assert.Equal(t, []string{
			"old", "new 0", "new 1", "old", "new 2", "new 3", "old", "new 4", "new 5",
		}, j.lines)
	})
}

// The queue is never empty, and still every retry is made when it is due.
func TestFloodDoesNotStarveRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 2, Queue: 10, Policy: every(time.Minute)}
		ctx, stop := context.WithCancel(t.Context())
		flood := make(chan int)
		go func() {
			n := 0
			for ctx.Err() == nil {
				if _, err := pool.Submit(ctx, taking(time.Second, succeeds)); err == nil {
					n++
				}
			}
			flood <- n
		}()
		synctest.Wait()
		var at []time.Duration
		start := time.Now()
		task := submit(t.Context(), t, pool, func(context.Context) error {
			at = append(at, time.Since(start))
			return errBoom
		})
		require.ErrorIs(t, task.Wait(t.Context()), errBoom)
		require.Len(t, at, 3)
		assert.LessOrEqual(t, at[1]-at[0], time.Minute+time.Second)
		assert.LessOrEqual(t, at[2]-at[1], time.Minute+time.Second)
		stop()
		assert.Greater(t, <-flood, 200)
		shut(t, pool)
	})
}

// Tasks that are due at the same instant run in order of submission, however they
// came to wait, and also if they are so many that workers come between.
func TestSimultaneousRetriesInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		policy := every(time.Second)
		policy.Clock = pausingClock{}
		pool := &retrypool.Pool{Workers: 1, Policy: policy}
		var j journal
		var want []string
		at := time.Now().Add(time.Second)
		for i := range 2500 {
			name := strconv.Itoa(i)
			want = append(want, name)
			_, err := pool.Resume(t.Context(), retry.State{}, at, j.noted(name, succeeds))
			require.NoError(t, err)
		}
		time.Sleep(time.Minute)
		shut(t, pool)
		assert.True(t, slices.Equal(want, j.lines), "%v", j.lines)
	})
}

// pausingClock lets others run whenever it is asked for the time.
type pausingClock struct{ plainClock }

func (c pausingClock) Now() time.Time {
	time.Sleep(time.Nanosecond)
	return c.plainClock.Now()
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

// A task that waits ends with its context at once, one in the queue when its turn
// comes, and one that runs decides for itself.
func TestCancel(t *testing.T) {
	t.Parallel()
	errQuit := errors.New("quit")
	tests := []struct {
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
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
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
				var e *retry.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, tt.stop, e.Stop)
				assert.Equal(t, err, task.Err())
				if context.Cause(ctx) == errQuit {
					require.ErrorIs(t, err, errQuit)
				}
				time.Sleep(2 * time.Second)
			})
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

func TestWaitForATask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Policy: every(time.Hour)}
		task := submit(t.Context(), t, pool, fails)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("impatient"))
		defer cancel()
		require.EqualError(t, task.Wait(ctx), "impatient")
		require.NoError(t, task.Err(), "it goes on")
		s, at := task.State()
		assert.Equal(t, 1, s.Failures)
		assert.Equal(t, time.Now().Add(time.Hour-time.Second).Round(0), at)
		require.ErrorIs(t, task.Wait(t.Context()), errBoom)
		s, at = task.State()
		assert.Equal(t, 3, s.Failures)
		assert.Zero(t, at)
		<-task.Done()
	})
}

// OnEnd is told once, with the context of the task, before Done is closed.
func TestOnEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var j journal
		errFinal := retry.MarkFinal(errors.New("final"))
		pool := &retrypool.Pool{Workers: 2, Policy: every(time.Hour), OnEnd: func(ctx context.Context, task *retrypool.Task) {
			select {
			case <-task.Done():
				j.note("too late")
			default:
			}
			text := "<nil>"
			if err := task.Err(); err != nil {
				text = err.Error()
			}
			j.note(ctx.Value(key{}).(string) + ": " + text) //nolint:forcetypeassert // see below
		}}
		ctx, cancel := context.WithCancel(t.Context())
		for name, fn := range map[string]func(context.Context) error{
			"success": succeeds,
			"failure": fails,
			"final":   func(context.Context) error { return errFinal },
			"panic":   func(context.Context) error { panic("ouch") },
			"goexit":  func(context.Context) error { runtime.Goexit(); return nil },
		} {
			submit(context.WithValue(t.Context(), key{}, name), t, pool, fn)
		}
		canceled := submit(context.WithValue(ctx, key{}, "canceled"), t, pool, fails)
		time.Sleep(time.Minute)
		cancel()
		<-canceled.Done()
		time.Sleep(3 * time.Hour)
		submit(context.WithValue(t.Context(), key{}, "closed"), t, pool, fails)
		synctest.Wait()
		shut(t, pool)
		slices.Sort(j.lines)
		assert.Equal(t, []string{
			"canceled: failed after 1 attempt (context canceled): boom",
			"closed: retrypool: closed; the last failure: boom",
			"failure: failed after 3 attempts: boom",
			"final: final",
			"goexit: retrypool: task called runtime.Goexit",
			"panic: retrypool: task panicked: ouch",
			"success: <nil>",
		}, j.lines)
	})
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
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				pool := &retrypool.Pool{Queue: 1, Policy: every(time.Hour)}
				var at []time.Duration
				start := time.Now()
				task, err := pool.Resume(t.Context(), tt.state, start.Add(tt.in), func(context.Context) error {
					at = append(at, time.Since(start))
					return errBoom
				})
				require.NoError(t, err)
				err = task.Wait(t.Context())
				var e *retry.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, tt.attempts, e.Attempts)
				assert.Equal(t, tt.first, at[0])
				assert.Len(t, at, 3-max(tt.state.Failures, 0))
			})
		})
	}
}

func TestResumeExhausted(t *testing.T) {
	t.Parallel()
	pool := &retrypool.Pool{Policy: &retry.Policy{Name: "task", MaxElapsed: time.Hour}}
	_, err := pool.Resume(t.Context(), retry.State{Failures: 3}, time.Time{}, succeeds)
	require.EqualError(t, err, "task failed after 3 attempts")
	require.ErrorIs(t, err, retry.ErrAttemptsExhausted)
	_, err = pool.Resume(t.Context(), retry.State{Failures: 1, First: time.Now().Add(-2 * time.Hour)}, time.Time{}, succeeds)
	require.ErrorIs(t, err, retry.ErrElapsed)
}

// A key makes the waits repeatable.
func TestResumeWithAKey(t *testing.T) {
	t.Parallel()
	var runs [2][]time.Duration
	for i := range runs {
		synctest.Test(t, func(t *testing.T) {
			pool := &retrypool.Pool{Policy: &retry.Policy{MaxAttempts: 5}}
			start := time.Now()
			task, err := pool.Resume(t.Context(), retry.State{Key: "job 7"}, time.Time{}, func(context.Context) error {
				runs[i] = append(runs[i], time.Since(start))
				return errBoom
			})
			require.NoError(t, err)
			require.Error(t, task.Wait(t.Context()))
		})
	}
	require.Len(t, runs[0], 5)
	assert.Equal(t, runs[0], runs[1])
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
