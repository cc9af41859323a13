package retryasynq_test

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryasynq"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

func TestConfigureRefuses(t *testing.T) {
	t.Parallel()
	_, err := retryasynq.New(nil, nil)
	require.EqualError(t, err, "retryasynq: the RedisConnOpt is nil")
	_, err = retryasynq.New(wire{&enginetest.Cable{}}, &retry.Policy{MaxDelay: -time.Second})
	require.ErrorContains(t, err, "-1s")
	retries, err := retryasynq.New(wire{&enginetest.Cable{}}, nil)
	require.NoError(t, err)
	defer func() { assert.NoError(t, retries.Close()) }()
	require.EqualError(t, retries.Configure(nil), "retryasynq: config is nil")
	require.EqualError(t, retries.Configure(&asynq.Config{RetryDelayFunc: asynq.DefaultRetryDelayFunc}),
		"retryasynq: Config.RetryDelayFunc: must not be set")
	require.ErrorContains(t, retries.Configure(&asynq.Config{IsFailure: func(error) bool { return true }}),
		"retryasynq: Config.IsFailure: must not be set")
	err = retries.Handler(asynq.NotFoundHandler()).ProcessTask(t.Context(), asynq.NewTask("x", nil))
	require.ErrorIs(t, err, asynq.SkipRetry)
}

// A task that was enqueued with a limit of its own says what ended it.
func TestMaxRetryOfTheTask(t *testing.T) {
	t.Parallel()
	q := open(t)
	w, err := q.Start(&retry.Policy{MaxAttempts: 5}, func(context.Context, string) error { return assert.AnError })
	require.NoError(t, err)
	defer func() { assert.NoError(t, w.Stop(t.Context())) }()
	_, err = q.client.Enqueue(asynq.NewTask("x", nil), asynq.MaxRetry(0), asynq.Queue(q.name), asynq.TaskID("x"))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		o, err := q.Outcome(t.Context(), "x")
		return err == nil && o.Status == enginetest.GaveUp && assert.Contains(t, o.Err,
			"retryasynq: the task was enqueued with MaxRetry 0, not with retryasynq.MaxRetry: "+assert.AnError.Error())
	}, 10*time.Second, 10*time.Millisecond)
}
