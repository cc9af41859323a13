package retryredis_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryredis"
)

func ExampleHook() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1}) // nobody is there
	defer func() { _ = client.Close() }()
	client.AddHook(&retryredis.Hook{
		Policy:     &retry.Policy{Name: "cache", Backoff: retry.Constant(0)},
		Idempotent: func(cmd redis.Cmder) bool { return cmd.Name() == "get" },
	})
	fmt.Println(client.Get(context.Background(), "job").Err())
	// Output: cache failed after 3 attempts: dial tcp 127.0.0.1:1: connect: connection refused
}
