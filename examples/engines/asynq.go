package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryasynq"
)

func asynqQueue(ctx context.Context, address string, p *retry.Policy, job work, over <-chan struct{}) error {
	redis := asynq.RedisClientOpt{Addr: cmp.Or(address, "127.0.0.1:6379")}
	queue := "engines-" + strings.ToLower(rand.Text()[:10]) // deleted at the end
	retries, err := retryasynq.New(redis, p)
	if err != nil {
		return err
	}
	defer func() { logFailure(retries.Close()) }()
	config := asynq.Config{
		Queues: map[string]int{queue: 1}, LogLevel: asynq.FatalLevel, DelayedTaskCheckInterval: 100 * time.Millisecond,
	}
	if err := retries.Configure(&config); err != nil {
		return err
	}
	client := asynq.NewClient(redis)
	defer func() { logFailure(client.Close()) }()
	if err := client.Ping(); err != nil {
		return err
	}
	server := asynq.NewServer(redis, config)
	handler := asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error { return job(ctx) })
	if err := server.Start(retries.Handler(handler)); err != nil {
		return err
	}
	_, err = client.EnqueueContext(ctx, asynq.NewTask("import", nil), asynq.Queue(queue), retryasynq.MaxRetry())
	until(ctx, over)
	server.Shutdown()
	inspector := asynq.NewInspector(redis)
	return errors.Join(err, inspector.DeleteQueue(queue, true), inspector.Close())
}
