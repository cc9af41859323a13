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
		select {
		case took := <-over:
			t.Logf("returned after %v", took.Round(time.Millisecond))
			assert.Less(t, took, 15*time.Second)
		case <-time.After(time.Minute):
			require.Fail(t, "the handler has not returned")
		}
	}
}
