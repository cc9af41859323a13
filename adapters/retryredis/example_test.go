package retryredis_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryredis"
)

func ExampleHook() {
	const addr = "127.0.0.1:1" // nobody is there
	policy := &retry.Policy{Name: "cache", Backoff: retry.Constant(0)}

	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1})
	client.AddHook(&retryredis.Hook{
		Policy:     policy,
		Idempotent: func(cmd redis.Cmder) bool { return cmd.Name() == "get" },
	})
	defer func() { _ = client.Close() }()

	fmt.Println(client.Get(context.Background(), "job").Err())
	// Output: cache failed after 3 attempts: dial tcp 127.0.0.1:1: connect: connection refused
}
