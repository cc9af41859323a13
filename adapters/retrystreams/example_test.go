package retrystreams_test

import (
	"context"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrystreams"
)

func ExampleRetries_Run() { //nolint:testableexamples // it needs a server
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer func() { _ = client.Close() }()
	hostname, err := os.Hostname()
	if err != nil {
		panic(err)
	}
	policy := &retry.Policy{
		Name: "import", MaxAttempts: 8, Backoff: retry.Exponential{Initial: time.Second}, FreeRateLimits: 100,
	}
	work := func(context.Context, map[string]any) error {
		return nil // an error is classified, and the message comes again when the policy says
	}

	retries := &retrystreams.Retries{
		Policy: policy, Redis: client, Stream: "jobs", Group: "workers", Consumer: hostname, Concurrency: 10,
	}
	err = retries.Run(ctx, func(ctx context.Context, msg redis.XMessage) error { return work(ctx, msg.Values) })
	if err != nil {
		panic(err)
	}
}
