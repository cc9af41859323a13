//nolint:thelper // what bubble calls is the test itself
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
)

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
