package retrypool_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypool"
)

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
		running, err := pool.Resume(t.Context(), retry.State{Failures: 1}, time.Time{}, untilCanceled)
		require.NoError(t, err)
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
			next, err := pool.Resume(t.Context(), state, time.Now().Add(time.Minute), succeeds)
			require.NoError(t, err)
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
