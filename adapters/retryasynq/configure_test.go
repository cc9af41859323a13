package retryasynq_test

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryasynq"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

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

type broken struct{}

// Delay implements [retry.Backoff].
func (broken) Delay(int) time.Duration { panic("out of range") }

// asynq asks for a wait where a panic would end the process.
func TestWaitOfPolicyThatPanics(t *testing.T) {
	t.Parallel()
	for _, retries := range []retryasynq.Retries{
		{Policy: &retry.Policy{Backoff: broken{}}},
		{PolicyFor: func(string) (*retry.Policy, error) { panic("out of range") }},
	} {
		retries.Redis = redis.NewClient(&redis.Options{}) // connects when it is used
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
	_, err = q.client.Enqueue(asynq.NewTask("x", nil), asynq.MaxRetry(0), asynq.Queue(q.name), asynq.TaskID("x"))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		o, err := q.Outcome(t.Context(), "x")
		return err == nil && o.Status == enginetest.GaveUp && assert.Contains(t, o.Err,
			"retryasynq: the task was enqueued with MaxRetry 0, not with retryasynq.MaxRetry: "+assert.AnError.Error())
	}, 10*time.Second, 10*time.Millisecond)
}
