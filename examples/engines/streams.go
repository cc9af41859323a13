package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrystreams"
)

func redisStream(ctx context.Context, address string, p *retry.Policy, job work, over <-chan struct{}) (err error) {
	client := redis.NewClient(&redis.Options{Addr: cmp.Or(address, "127.0.0.1:6379")})
	stream := "engines-" + rand.Text()
	defer func() {
		keys := []string{stream, "{" + stream + "}:workers:retry"}
		err = errors.Join(err, client.Del(context.WithoutCancel(ctx), keys...).Err(), client.Close())
	}()
	if err := client.XGroupCreateMkStream(ctx, stream, "workers", "0").Err(); err != nil {
		return err
	}
	if err := client.XAdd(ctx, &redis.XAddArgs{Stream: stream, Values: []string{"job", "a"}}).Err(); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		until(ctx, over)
		stop()
	}()
	retries := &retrystreams.Retries{Policy: p, Redis: client, Stream: stream, Group: "workers", Consumer: "worker"}
	return retries.Run(running, func(ctx context.Context, _ redis.XMessage) error { return job(ctx) })
}
