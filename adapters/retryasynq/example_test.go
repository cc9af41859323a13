package retryasynq_test

import (
	"context"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryasynq"
)

// What works on the tasks.
func ExampleRetries() { //nolint:testableexamples // it needs a server
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer func() { _ = client.Close() }()
	policy := &retry.Policy{
		Name: "import", MaxAttempts: 8, Backoff: retry.Exponential{Initial: time.Second}, FreeRateLimits: 100,
	}
	mux := asynq.NewServeMux()
	mux.HandleFunc("import", func(context.Context, *asynq.Task) error {
		return nil // an error is classified, and the task runs again when the policy says
	})

	retries := &retryasynq.Retries{Policy: policy, Redis: client}
	config := asynq.Config{Concurrency: 10}
	if err := retries.Configure(&config); err != nil {
		panic(err)
	}
	if err := asynq.NewServerFromRedisClient(client, config).Run(retries.Handler(mux)); err != nil {
		panic(err)
	}
}

// What enqueues them.
func ExampleMaxRetry() { //nolint:testableexamples // it needs a server
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: "127.0.0.1:6379"})
	defer func() { _ = client.Close() }()
	task := asynq.NewTask("import", []byte("https://example.com/feed"))
	if _, err := client.Enqueue(task, retryasynq.MaxRetry()); err != nil {
		panic(err)
	}
}
