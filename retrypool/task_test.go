//nolint:thelper // what bubble calls is the test itself
package retrypool_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrypool"
)

// What an attempt was cut off from, and the failure before it, are both in the error of a task that
// ends while it waits.
func TestCutOffBeforeAWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := every(time.Hour)
		p.AttemptTimeout = time.Second
		pool, errLate, calls := &retrypool.Pool{Policy: p}, errors.New("late"), 0
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(90*time.Minute, cancel) // nobody knows of it before
		task := submit(ctx, t, pool, func(ctx context.Context) error {
			if calls++; calls == 1 {
				return errBoom
			}
			<-ctx.Done()
			return errLate
		})
		e := testkit.As[*retry.Error](t, task.Wait(context.Background()))
		assert.Equal(t, []any{2, retry.StopCanceled, errBoom, errLate}, []any{e.Attempts, e.Stop, e.Err, e.Cut})
	})
}

// Wait ends with its context, and what it has waited for goes on.
func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{false, true} { // a task, or the pool
		synctest.Test(t, func(t *testing.T) {
			pool := &retrypool.Pool{Policy: every(time.Hour)}
			task := submit(t.Context(), t, pool, fails)
			wait := task.Wait
			if whole {
				wait = pool.Wait
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("impatient"))
			defer cancel()
			start := time.Now()
			require.EqualError(t, wait(ctx), "impatient")
			assert.Equal(t, time.Second, time.Since(start))
			require.NoError(t, task.Err())
			s, at := task.State()
			assert.Equal(t, 1, s.Failures)
			assert.Equal(t, start.Add(time.Hour).Round(0), at)
			require.Equal(t, !whole, wait(t.Context()) != nil)
			require.ErrorIs(t, task.Err(), errBoom)
			s, at = task.State()
			assert.Equal(t, 3, s.Failures)
			assert.Zero(t, at)
			<-task.Done()
		})
	}
}

// Wait returns the end of a task that has ended, even if its own ctx is done.
func TestWaitPrefersTheEnd(t *testing.T) {
	t.Parallel()
	var pool retrypool.Pool
	task := submit(t.Context(), t, &pool, func(context.Context) error { return retry.MarkFinal(errBoom) })
	<-task.Done()
	for range 50 { // which of two things that have happened is seen first is left to chance
		require.EqualError(t, task.Wait(ended()), "boom")
	}
}

// A task that ends in a panic or in Goexit counts its call; a task that was not
// called has none.
func TestAttemptsOfOddEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 1, Policy: every(time.Hour)}
		for _, fn := range []func(context.Context) error{explode, leave} {
			task := submit(t.Context(), t, pool, fn)
			require.Error(t, task.Wait(t.Context()))
			assert.Equal(t, 1, task.Attempts())
		}
		ctx, cancel := context.WithCancel(t.Context())
		waiting := submit(ctx, t, pool, fails)
		synctest.Wait()
		assert.Equal(t, 1, waiting.Attempts())
		submit(t.Context(), t, pool, taking(time.Minute, succeeds))
		queued := submit(ctx, t, pool, fails)
		cancel()
		require.EqualError(t, queued.Wait(t.Context()), "not started: context canceled")
		assert.Zero(t, queued.Attempts())
		require.Error(t, waiting.Wait(t.Context()))
		assert.Equal(t, 1, waiting.Attempts())
	})
}

// A task that is handed back has the attempts of its State, and continues from
// there: an attempt that Close has canceled does not count.
func TestAttemptsOfWhatIsHandedBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		policy := every(time.Hour)
		pool := &retrypool.Pool{Workers: 1, Policy: policy}
		waiting := submit(t.Context(), t, pool, fails)
		synctest.Wait()
		running := testkit.Must(pool.Resume(t.Context(), retry.State{Failures: 1}, time.Time{}, untilCanceled))(t)
		synctest.Wait()
		assert.Equal(t, 2, running.Attempts())
		queued := submit(t.Context(), t, pool, fails)
		left, err := pool.Close(ended())
		require.Error(t, err)
		require.Equal(t, []*retrypool.Task{waiting, running, queued}, left)

		pool = &retrypool.Pool{Workers: 1, Policy: policy}
		for i, want := range []int{1, 1, 0} {
			assert.Equal(t, want, left[i].Attempts())
			state, _ := left[i].State()
			assert.Equal(t, want, state.Failures+state.RateLimited)
			// A minute off, for a pool that is idle starts it at once.
			next := testkit.Must(pool.Resume(t.Context(), state, time.Now().Add(time.Minute), succeeds))(t)
			assert.Equal(t, want, next.Attempts())
			require.NoError(t, next.Wait(t.Context()))
			assert.Equal(t, want+1, next.Attempts())
		}
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
			j.note(ctx.Value(key{}).(string) + ": " + text(task.Err())) //nolint:forcetypeassert // see below
		}}
		ctx, cancel := context.WithCancel(t.Context())
		for name, fn := range map[string]func(context.Context) error{
			"success": succeeds,
			"failure": fails,
			"final":   func(context.Context) error { return errFinal },
			"panics":  func(context.Context) error { panic("ouch") },
			"goexit":  leave,
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
			"panics: panic: ouch",
			"success: <nil>",
		}, j.lines)
	})
}

// A hundred tasks of all kinds are closed at a random instant, again and again, and
// continued with nothing but what Close returns. Each fails, ends and is told as in a
// pool that is never closed.
func TestResumeTaskGoesOn(t *testing.T) {
	t.Parallel()
	type key struct{}
	const tasks = 100
	policy := &retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(time.Hour), Jitter: retry.NoJitter}
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 9))
			var runs [tasks]int // ended by themselves
			var results [tasks]error
			newPool := func() *retrypool.Pool {
				return &retrypool.Pool{Workers: 200, Policy: policy, OnEnd: func(ctx context.Context, task *retrypool.Task) {
					if n := ctx.Value(key{}).(int); !errors.Is(task.Err(), retrypool.ErrClosed) { //nolint:forcetypeassert // see below
						results[n] = task.Err()
					}
				}}
			}
			pool := newPool()
			for n := range tasks {
				submit(context.WithValue(t.Context(), key{}, n), t, pool, func(ctx context.Context) error {
					select {
					case <-time.After(time.Duration(n) * time.Minute):
					case <-ctx.Done():
						return ctx.Err() // Close has taken the attempt back
					}
					if runs[n]++; runs[n] == n%6 {
						return nil
					}
					return errBoom
				})
			}
			closes := 0
			for ; ; closes++ {
				time.Sleep(time.Duration(r.Int64N(int64(3 * time.Hour))))
				left, err := pool.Close(ended())
				if len(left) == 0 {
					require.NoError(t, err)
					break
				}
				pool = newPool()
				for _, task := range left {
					state, _ := task.State()
					next := testkit.Must(pool.ResumeTask(task))(t)
					begun := next.Attempts() - state.Failures // its next attempt may be in progress
					assert.True(t, begun == 0 || begun == 1, "the count goes on: %d", begun)
				}
			}
			assert.Greater(t, closes, 2)
			for n, got := range results {
				want := n % 6 // the attempt that succeeds
				if want >= 1 && want <= 4 {
					require.NoError(t, got, n)
					assert.Equal(t, want, runs[n], n)
					continue
				}
				e := testkit.As[*retry.Error](t, got)
				require.EqualError(t, e, "failed after 4 attempts: boom")
				assert.Equal(t, 4, runs[n], n)
			}
		})
	}
}

// The wait goes on where it was, and is told as a whole, with the failure before it.
func TestResumeTaskWaitsOn(t *testing.T) {
	t.Parallel()
	for name, closed := range map[string]time.Duration{"in the wait": 20 * time.Minute, "beyond the wait": 90 * time.Minute} {
		bubble(t, name, func(t *testing.T) {
			start, policy := time.Now(), every(time.Hour)
			var at []time.Duration
			pool := &retrypool.Pool{Policy: policy}
			submit(t.Context(), t, pool, func(context.Context) error {
				at = append(at, time.Since(start))
				return errBoom
			})
			time.Sleep(10 * time.Minute)
			left := shut(t, pool)
			require.Len(t, left, 1)
			time.Sleep(closed - 10*time.Minute)
			ctx, cancel := context.WithTimeout(t.Context(), 105*time.Minute)
			defer cancel()
			task := testkit.Must((&retrypool.Pool{Policy: policy}).ResumeTask(left[0]))(t)
			e := testkit.As[*retry.Error](t, task.Wait(ctx))
			second := max(closed, time.Hour)
			assert.Equal(t, []time.Duration{0, second, second + time.Hour}, at)
			assert.Equal(t, 2*time.Hour, e.Waited, "what the policy said")
		})
	}
}

// A task that is canceled while it waits in the second pool ends with the failure of the
// first.
func TestResumeTaskKeepsItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		pool := &retrypool.Pool{Policy: every(time.Hour)}
		submit(ctx, t, pool, fails)
		synctest.Wait()
		left := shut(t, pool)
		pool = &retrypool.Pool{Policy: every(time.Hour)}
		task := testkit.Must(pool.ResumeTask(left[0]))(t)
		cancel()
		require.EqualError(t, task.Wait(t.Context()), "failed after 1 attempt (context canceled): boom")
		require.EqualError(t, left[0].Err(), "retrypool: closed; the last failure: boom", "as it was")
	})
}

func TestResumeTaskRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const refused = "retrypool: only a task that Close has returned can be resumed, and only once"
		first := &retrypool.Pool{Policy: every(time.Hour)}
		good := submit(t.Context(), t, first, succeeds)
		submit(t.Context(), t, first, fails)
		synctest.Wait()
		running := submit(t.Context(), t, first, taking(time.Minute, succeeds))

		next := &retrypool.Pool{Policy: every(time.Hour)}
		for _, task := range []*retrypool.Task{good, running, nil, {}} {
			_, err := next.ResumeTask(task)
			require.EqualError(t, err, refused)
		}
		left := shut(t, first)
		require.Len(t, left, 1)

		_, err := first.ResumeTask(left[0])
		require.ErrorIs(t, err, retrypool.ErrClosed)
		_, err = (&retrypool.Pool{Policy: &retry.Policy{MaxAttempts: 1}}).ResumeTask(left[0])
		require.ErrorIs(t, err, retry.StopAttempts)
		task, err := next.ResumeTask(left[0])
		require.NoError(t, err, "after errors")
		_, err = next.ResumeTask(left[0])
		require.EqualError(t, err, refused, "no task runs twice")
		require.Error(t, task.Wait(t.Context()))
		assert.Equal(t, 3, task.Attempts())
	})
}

// A panic of OnEnd is an error of its task alone, whatever ended the task, and a task
// that was handed back can be resumed.
func TestPanicInOnEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		told := 0
		pool := &retrypool.Pool{Workers: 1, Policy: every(time.Hour), OnEnd: func(context.Context, *retrypool.Task) {
			told++
			panic("ouch")
		}}
		ctx, cancel := context.WithCancel(t.Context())
		good := submit(t.Context(), t, pool, succeeds)
		final := submit(t.Context(), t, pool, func(context.Context) error { return retry.MarkFinal(errBoom) })
		gone := submit(t.Context(), t, pool, leave)
		canceled := submit(ctx, t, pool, fails)
		waiting := submit(t.Context(), t, pool, fails)
		also := submit(t.Context(), t, pool, fails)
		synctest.Wait()
		cancel()
		synctest.Wait()
		left := shut(t, pool)
		require.NoError(t, pool.Wait(t.Context()))
		assert.Equal(t, 6, told, "each once")
		for task, want := range map[*retrypool.Task]string{
			good:     "panic in OnEnd: ouch",
			final:    "boom; panic in OnEnd: ouch",
			gone:     "retrypool: task called runtime.Goexit; panic in OnEnd: ouch",
			canceled: "failed after 1 attempt (context canceled): boom; panic in OnEnd: ouch",
			waiting:  "retrypool: closed; the last failure: boom; panic in OnEnd: ouch",
			also:     "retrypool: closed; the last failure: boom; panic in OnEnd: ouch",
		} {
			<-task.Done()
			require.Equal(t, want, text(task.Err()))
			e := testkit.As[*retry.PanicError](t, task.Err())
			assert.Contains(t, string(e.Stack), "TestPanicInOnEnd")
		}
		require.Equal(t, []*retrypool.Task{waiting, also}, left)
		next := testkit.Must((&retrypool.Pool{Policy: every(time.Hour)}).ResumeTask(waiting))(t)
		require.EqualError(t, next.Wait(t.Context()), "failed after 3 attempts: boom")
	})
}
