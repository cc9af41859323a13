package retryasynq_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryasynq"
	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/retrytest"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// run has a task done under a policy, by a server that the test ends.
func run(t *testing.T, q *queue, p *retry.Policy, fn func(ctx context.Context, attempt int) error, opts ...asynq.Option) {
	t.Helper()
	var attempts atomic.Int32
	w, err := q.Start(enginetest.Policies{Policy: p}, func(ctx context.Context, _ string) error { return fn(ctx, int(attempts.Add(1))) })
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, w.Stop(context.WithoutCancel(t.Context()))) })
	opts = append(opts, retryasynq.MaxRetry(), asynq.Queue(q.name), asynq.TaskID("x"))
	_, err = q.client.Enqueue(asynq.NewTask("x", nil), opts...)
	require.NoError(t, err)
}

// until waits until the task is as it should be.
func until(t *testing.T, q *queue, want func(*asynq.TaskInfo) bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		info, err := q.inspector.GetTaskInfo(q.name, "x")
		return assert.NoError(t, err) && want(info)
	}, 30*time.Second, 10*time.Millisecond)
}

// Every task has a deadline for its attempt: half an hour by default.
func TestWaitBeyondTheDeadline(t *testing.T) {
	t.Parallel()
	q := open(t)
	begun := time.Now()
	p := &retry.Policy{Backoff: retry.Constant(3 * time.Hour), MaxDelay: 3 * time.Hour}
	run(t, q, p, func(context.Context, int) error { return assert.AnError })
	until(t, q, func(info *asynq.TaskInfo) bool {
		require.NotEqual(t, asynq.TaskStateArchived, info.State, info.LastErr)
		return info.State == asynq.TaskStateRetry && info.NextProcessAt.Sub(begun) > time.Hour
	})
}

// asynq repeats what succeeds after its Timeout. The rate limits before stay free.
func TestLateSuccess(t *testing.T) {
	t.Parallel()
	q := open(t)
	done := make(chan struct{})
	run(t, q, &retry.Policy{MaxAttempts: 2, FreeRateLimits: 10, Backoff: retry.Constant(0)},
		func(ctx context.Context, attempt int) error {
			switch attempt {
			case 1, 2:
				return retry.MarkRateLimited(assert.AnError, time.Millisecond)
			case 3:
				<-ctx.Done()
			default:
				close(done)
			}
			return nil
		}, asynq.Timeout(3*time.Second))
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		assert.Fail(t, "the task is not run again")
	}
}

// A task that somebody takes out of the archive has all its attempts again.
func TestRunAgainByHand(t *testing.T) {
	t.Parallel()
	q := open(t)
	run(t, q, &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}, func(_ context.Context, attempt int) error {
		if attempt == 4 {
			return nil
		}
		return assert.AnError
	}, asynq.Retention(time.Hour))
	until(t, q, func(info *asynq.TaskInfo) bool { return info.State == asynq.TaskStateArchived })
	require.NoError(t, q.inspector.RunTask(q.name, "x"))
	until(t, q, func(info *asynq.TaskInfo) bool {
		require.NotEqual(t, asynq.TaskStateArchived, info.State, info.LastErr)
		return info.State == asynq.TaskStateCompleted
	})
	o, err := q.Outcome(t.Context(), "x")
	require.NoError(t, err)
	assert.Equal(t, enginetest.Succeeded, o.Status)
}

func TestNoPolicy(t *testing.T) {
	t.Parallel()
	q := open(t)
	enginekit.NoPolicy(t, q, false, func() string {
		info, err := q.inspector.GetTaskInfo(q.name, "job")
		require.NoError(t, err)
		return info.LastErr
	})
}

// What asynq knows itself stays so.
func TestSkipAndRevoke(t *testing.T) {
	t.Parallel()
	for _, end := range []error{asynq.SkipRetry, asynq.RevokeTask} {
		q := open(t)
		var rec retrytest.Recorder
		run(t, q, &retry.Policy{Observer: &rec}, func(context.Context, int) error { return end })
		require.Eventually(t, func() bool {
			info, err := q.inspector.GetTaskInfo(q.name, "x")
			return err != nil || info.State == asynq.TaskStateArchived && info.LastErr == asynq.SkipRetry.Error()
		}, 10*time.Second, 10*time.Millisecond)
		_, err := q.inspector.GetTaskInfo(q.name, "x")
		assert.Equal(t, errors.Is(end, asynq.RevokeTask), errors.Is(err, asynq.ErrTaskNotFound))
		assert.Equal(t, []string{"1: gave up (final): " + end.Error()}, rec.Timeline())
	}
}
