package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrystreams"
)

// streamsBed is a stream of Redis with one group.
type streamsBed struct {
	name   string
	client *redis.Client
	count  atomic.Int64
}

func openStreams(ctx context.Context) (bed, error) {
	b := &streamsBed{name: random("compare-")}
	b.client = redis.NewClient(&redis.Options{
		Addr: cmp.Or(os.Getenv("RETRY_TEST_REDIS"), "127.0.0.1:6379"), DB: 13, DisableIdentity: true, PoolSize: 30,
	})
	b.client.AddHook(b)
	return b, b.client.XGroupCreateMkStream(ctx, b.name, "workers", "0").Err()
}

// DialHook implements [redis.Hook].
func (b *streamsBed) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements [redis.Hook].
func (b *streamsBed) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements [redis.Hook]. It does not count polls that find nothing.
func (b *streamsBed) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		found := err == nil
		switch cmd := cmd.(type) {
		case *redis.XAutoClaimCmd:
			messages, _ := cmd.Val()
			found = len(messages) > 0
		case *redis.Cmd: // a script, which returns a message, or 1 if it has done something
			_, message := cmd.Val().([]any)
			found = message || cmd.Val() == int64(1)
		}
		if found {
			b.count.Add(1)
		}
		return err
	}
}

func (b *streamsBed) submit(ctx context.Context, jobs ...string) error {
	for _, job := range jobs {
		if err := b.client.XAdd(ctx, &redis.XAddArgs{Stream: b.name, Values: []string{"job", job}}).Err(); err != nil {
			return err
		}
	}
	return nil
}

func (b *streamsBed) start(p *retry.Policy, quick bool, handle handler) (func(), error) {
	const workers = 10
	ctx, cancel := context.WithCancel(context.Background())
	one := func(ctx context.Context, msg redis.XMessage) error {
		return handle(ctx, msg.Values["job"].(string)) //nolint:forcetypeassert // see submit
	}
	var running sync.WaitGroup
	if p != nil {
		retries := &retrystreams.Retries{
			Policy: p, Redis: b.client, Stream: b.name, Group: "workers", Consumer: "ours", Concurrency: workers,
		}
		running.Go(func() { logFailure(retries.Run(ctx, one)) })
	} else {
		idle := time.Second
		if quick {
			idle = time.Millisecond
		}
		for range workers {
			running.Go(func() {
				for ctx.Err() == nil {
					logFailure(b.own(idle, func(msg redis.XMessage) error { return one(ctx, msg) }))
				}
			})
		}
	}
	return func() {
		cancel()
		running.Wait()
	}, nil
}

// own handles a message that has failed before, or else a new one.
func (b *streamsBed) own(idle time.Duration, handle func(redis.XMessage) error) error {
	ctx := context.Background()
	messages, _, err := b.client.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: b.name, Group: "workers", Consumer: "own", MinIdle: idle, Start: "0", Count: 1,
	}).Result()
	if err == nil && len(messages) == 0 {
		var streams []redis.XStream
		streams, err = b.client.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: "workers", Consumer: "own", Streams: []string{b.name, ">"}, Count: 1, Block: idle,
		}).Result()
		if err == nil {
			messages = streams[0].Messages
		}
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	for _, msg := range messages {
		if handle(msg) == nil {
			return b.client.XAck(ctx, b.name, "workers", msg.ID).Err()
		}
	}
	return nil
}

func (b *streamsBed) sent() int64 { return b.count.Load() }

func (b *streamsBed) close() error {
	prefix := "{" + b.name + "}:workers:"
	err := b.client.Del(context.Background(), b.name, prefix+"retry", prefix+"due", prefix+"dead").Err()
	return errors.Join(err, b.client.Close())
}
