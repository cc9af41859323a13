package retryasynq_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryasynq"
	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// run has a task done under a policy, by a server that the test ends.
func run(t *testing.T, q *queue, p *retry.Policy, fn func(ctx context.Context, attempt int) error, opts ...asynq.Option) {
	t.Helper()
	var attempts atomic.Int32
	w := testkit.Must(q.Start(enginetest.Policies{Policy: p}, func(ctx context.Context, _ string) error { return fn(ctx, int(attempts.Add(1))) }))(t)
	t.Cleanup(func() { assert.NoError(t, w.Stop(context.WithoutCancel(t.Context()))) })
	opts = append(opts, retryasynq.MaxRetry(), asynq.Queue(q.name), asynq.TaskID("x"))
	testkit.Must(q.client.Enqueue(asynq.NewTask("x", nil), opts...))(t)
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
	testkit.Soon(t, done) // it is run again
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
	assert.Equal(t, enginetest.Succeeded, testkit.Must(q.Outcome(t.Context(), "x"))(t).Status)
}

func TestNoPolicy(t *testing.T) {
	t.Parallel()
	q := open(t)
	enginekit.NoPolicy(t, q, false, func() string {
		return testkit.Must(q.inspector.GetTaskInfo(q.name, "job"))(t).LastErr
	})
}

// What asynq knows itself stays so.
func TestSkipAndRevoke(t *testing.T) {
	t.Parallel()
	for _, end := range []error{asynq.SkipRetry, asynq.RevokeTask} {
		q := open(t)
		var rec retrytest.Recorder
		run(t, q, &retry.Policy{Observer: rec.Observer()}, func(context.Context, int) error { return end })
		require.Eventually(t, func() bool {
			info, err := q.inspector.GetTaskInfo(q.name, "x")
			return err != nil || info.State == asynq.TaskStateArchived && info.LastErr == asynq.SkipRetry.Error()
		}, 10*time.Second, 10*time.Millisecond)
		_, err := q.inspector.GetTaskInfo(q.name, "x")
		assert.Equal(t, errors.Is(end, asynq.RevokeTask), errors.Is(err, asynq.ErrTaskNotFound))
		assert.Equal(t, []string{"1: gave up (final): " + end.Error()}, rec.Timeline())
	}
}

func TestConfigureRefuses(t *testing.T) {
	t.Parallel()
	client := wire{&enginetest.Cable{}}.MakeRedisClient().(redis.UniversalClient)
	defer func() { assert.NoError(t, client.Close()) }()
	retries := &retryasynq.Retries{Policy: &retry.Policy{MaxDelay: -time.Second}}
	require.EqualError(t, retries.Configure(&asynq.Config{}), "retryasynq: Retries.Redis is nil")
	retries.Redis = client
	require.ErrorContains(t, retries.Configure(&asynq.Config{}), "-1s")
	retries.Policy = nil
	require.EqualError(t, retries.Configure(nil), "retryasynq: config is nil")
	require.EqualError(t, retries.Configure(&asynq.Config{RetryDelayFunc: asynq.DefaultRetryDelayFunc}),
		"retryasynq: Config.RetryDelayFunc: must not be set")
	require.ErrorContains(t, retries.Configure(&asynq.Config{IsFailure: func(error) bool { return true }}),
		"retryasynq: Config.IsFailure: must not be set")
	err := retries.Handler(asynq.NotFoundHandler()).ProcessTask(t.Context(), asynq.NewTask("x", nil))
	require.ErrorIs(t, err, asynq.SkipRetry)
}

// asynq asks for a wait where a panic would end the process.
func TestWaitOfPolicyThatPanics(t *testing.T) {
	t.Parallel()
	for _, p := range enginekit.Panicking() {
		client := redis.NewClient(&redis.Options{}) // connects when it is used
		retries := retryasynq.Retries{Policy: p.Policy, PolicyFor: p.PolicyFor, Redis: client}
		config := &asynq.Config{}
		require.NoError(t, retries.Configure(config))
		assert.Less(t, config.RetryDelayFunc(0, assert.AnError, asynq.NewTask("x", nil)), 3*time.Second)
	}
}

// A task that was enqueued with a limit of its own says what ended it.
func TestMaxRetryOfTheTask(t *testing.T) {
	t.Parallel()
	q := open(t)
	w, err := q.Start(enginetest.Policies{Policy: &retry.Policy{MaxAttempts: 5}}, func(context.Context, string) error { return assert.AnError })
	require.NoError(t, err)
	defer func() { assert.NoError(t, w.Stop(t.Context())) }()
	testkit.Must(q.client.Enqueue(asynq.NewTask("x", nil), asynq.MaxRetry(0), asynq.Queue(q.name), asynq.TaskID("x")))(t)
	require.Eventually(t, func() bool {
		o, err := q.Outcome(t.Context(), "x")
		return err == nil && o.Status == enginetest.GaveUp && assert.Contains(t, o.Err,
			"retryasynq: the task was enqueued with MaxRetry 0, not with retryasynq.MaxRetry: "+assert.AnError.Error())
	}, 10*time.Second, 10*time.Millisecond)
}

// The handler returns in the time that the package comment says if the Redis of the States is
// silent, with the client's own settings. What a stranger has stored there does not end a task.
func TestSilence(t *testing.T) {
	t.Parallel()
	q, cable := open(t), enginetest.NewLink()
	client := wire{cable}.MakeRedisClient().(redis.UniversalClient) //nolint:forcetypeassert // it makes one
	r := &retryasynq.Retries{Redis: client, Policy: &retry.Policy{Backoff: retry.Constant(0), MaxAttempts: 9}}
	config := asynq.Config{Queues: map[string]int{q.name: 1}, LogLevel: asynq.FatalLevel, DelayedTaskCheckInterval: 50 * time.Millisecond}
	require.NoError(t, r.Configure(&config))
	forged := `{"state": {}, "retried": -1000000}`
	require.NoError(t, q.redis.Set(t.Context(), "retryasynq:"+q.name+":a", forged, time.Minute).Err())
	runs, over := 0, make(chan time.Duration, 9)
	handler := r.Handler(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		if runs++; runs == 2 { // a retry, which has a State
			t.Cleanup(cable.Silence())
		}
		return assert.AnError
	}))
	server := asynq.NewServerFromRedisClient(q.redis, config)
	require.NoError(t, server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		begun := time.Now()
		defer func() { over <- time.Since(begun) }()
		return handler.ProcessTask(ctx, task)
	})))
	t.Cleanup(server.Shutdown)
	require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
	for range 3 { // the last one cannot read the State
		took := testkit.Soon(t, over)
		t.Logf("returned after %v", took.Round(time.Millisecond))
		assert.Less(t, took, 15*time.Second)
	}
}
