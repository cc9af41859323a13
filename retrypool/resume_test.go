//nolint:thelper // what bubble calls is the test itself
package retrypool_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrypool"
)

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
					next, err := pool.ResumeTask(task)
					require.NoError(t, err)
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
			task, err := (&retrypool.Pool{Policy: policy}).ResumeTask(left[0])
			require.NoError(t, err)
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
		task, err := pool.ResumeTask(left[0])
		require.NoError(t, err)
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
		next, err := (&retrypool.Pool{Policy: every(time.Hour)}).ResumeTask(waiting)
		require.NoError(t, err)
		require.EqualError(t, next.Wait(t.Context()), "failed after 3 attempts: boom")
	})
}
