package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryasynq"
)

func asynqQueue(ctx context.Context, address string, p *retry.Policy, job work, over <-chan struct{}) error {
	queue := "engines-" + strings.ToLower(rand.Text()[:10]) // deleted at the end
	connection := redis.NewClient(&redis.Options{Addr: cmp.Or(address, "127.0.0.1:6379")})
	defer func() { logFailure(connection.Close()) }()
	retries := &retryasynq.Retries{Policy: p, Redis: connection}
	config := asynq.Config{
		Queues: map[string]int{queue: 1}, LogLevel: asynq.FatalLevel, DelayedTaskCheckInterval: 100 * time.Millisecond,
	}
	if err := retries.Configure(&config); err != nil {
		return err
	}
	client := asynq.NewClientFromRedisClient(connection)
	if err := client.Ping(); err != nil {
		return err
	}
	server := asynq.NewServerFromRedisClient(connection, config)
	handler := asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error { return job(ctx) })
	if err := server.Start(retries.Handler(handler)); err != nil {
		return err
	}
	_, err := client.EnqueueContext(ctx, asynq.NewTask("import", nil), asynq.Queue(queue), retryasynq.MaxRetry())
	until(ctx, over)
	server.Shutdown()
	inspector := asynq.NewInspectorFromRedisClient(connection)
	return errors.Join(err, inspector.DeleteQueue(queue, true))
}
