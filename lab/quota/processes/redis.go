package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryasynq"
	"github.com/seed-5ff3c98e/retry/adapters/retrystreams"
	"github.com/seed-5ff3c98e/retry/retryquota"
)

func newRedis(places int) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: cmp.Or(os.Getenv("RETRY_TEST_REDIS"), "127.0.0.1:6379"), PoolSize: places + 10})
}

// inRedis is what has no transactions of PostgreSQL.
type inRedis struct{}

func (inRedis) transactions(context.Context, *task) (int, error) { return 0, nil }

// forget deletes all keys of a queue, which has a random name.
func forget(ctx context.Context, client *redis.Client, queue string) error {
	keys, err := client.Keys(ctx, "*"+queue+"*").Result()
	if err != nil || len(keys) == 0 {
		return err
	}
	return client.Del(ctx, keys...).Err()
}

// asynqQueue is a queue of asynq.
type asynqQueue struct{ inRedis }

func (asynqQueue) prepare(ctx context.Context, t *task) (func(context.Context) error, error) {
	t.Queue = "quota_" + rand.Text()
	connection := newRedis(1)
	client := asynq.NewClientFromRedisClient(connection)
	remove := func(ctx context.Context) error {
		err := asynq.NewInspectorFromRedisClient(connection).DeleteQueue(t.Queue, true)
		return errors.Join(err, forget(ctx, connection, t.Queue), connection.Close())
	}
	for n := range t.Prompts + t.Others {
		job := asynq.NewTask(kindOf(t, n), nil, asynq.Queue(t.Queue), retryasynq.MaxRetry())
		if _, err := client.EnqueueContext(ctx, job); err != nil {
			return remove, err
		}
	}
	return remove, nil
}

// kindOf is the kind of the nth job.
func kindOf(t *task, n int) string {
	if n < t.Prompts {
		return prompt
	}
	return other
}

func asynqQuota(ctx context.Context, t *task, done *tally) error {
	connection := newRedis(t.Places)
	defer func() { _ = connection.Close() }()
	policyFor := quotaOfPrompts()
	retries := &retryasynq.Retries{Redis: connection, Policy: newPolicy(), PolicyFor: policyFor}
	config := asynq.Config{
		Concurrency: t.Places, Queues: map[string]int{t.Queue: 1}, LogLevel: asynq.FatalLevel,
		DelayedTaskCheckInterval: time.Second,
	}
	if err := retries.Configure(&config); err != nil {
		return err
	}
	server := asynq.NewServerFromRedisClient(connection, config)
	handler := asynq.HandlerFunc(func(ctx context.Context, job *asynq.Task) error {
		if job.Type() == prompt {
			if err := call(ctx, http.DefaultClient, t.API, nil); err != nil {
				return err
			}
		}
		done.note(job.Type())
		return nil
	})
	if err := server.Start(retries.Handler(handler)); err != nil {
		return err
	}
	<-ctx.Done()
	server.Shutdown()
	return nil
}

// quotaOfPrompts is a PolicyFor with a Quota for one kind.
func quotaOfPrompts() func(string) (*retry.Policy, error) {
	policy := newPolicy()
	policy.Quota = &retryquota.Quota{}
	return func(kind string) (*retry.Policy, error) {
		if kind == prompt {
			return policy, nil
		}
		return nil, nil
	}
}

// stream is a stream of Redis.
type stream struct{ inRedis }

const group = "workers"

func (stream) prepare(ctx context.Context, t *task) (func(context.Context) error, error) {
	t.Queue = "quota-" + rand.Text()
	client := newRedis(1)
	remove := func(ctx context.Context) error { return errors.Join(forget(ctx, client, t.Queue), client.Close()) }
	if err := client.XGroupCreateMkStream(ctx, t.Queue, group, "0").Err(); err != nil {
		return remove, err
	}
	for n := range t.Prompts + t.Others {
		if err := client.XAdd(ctx, &redis.XAddArgs{Stream: t.Queue, Values: []string{"kind", kindOf(t, n)}}).Err(); err != nil {
			return remove, err
		}
	}
	return remove, nil
}

func streamQuota(ctx context.Context, t *task, done *tally) error {
	client := newRedis(t.Places)
	defer func() { _ = client.Close() }()
	retries := &retrystreams.Retries{
		Redis: client, Stream: t.Queue, Group: group, Consumer: strconv.Itoa(os.Getpid()), Concurrency: t.Places,
		Policy: newPolicy(), PolicyFor: quotaOfPrompts(),
	}
	return retries.Run(ctx, func(ctx context.Context, m redis.XMessage) error {
		kind, _ := m.Values["kind"].(string)
		if kind == prompt {
			if err := call(ctx, http.DefaultClient, t.API, nil); err != nil {
				return err
			}
		}
		done.note(kind)
		return nil
	})
}
