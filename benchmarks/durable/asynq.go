package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

// onAsynq is asynq, with a queue of its own and the shortest pauses that it takes. It counts a
// job as done when its queue, in Redis, has none left.
func onAsynq(ctx context.Context, t task) (took time.Duration, err error) {
	redis := asynq.RedisClientOpt{Addr: cmp.Or(os.Getenv("RETRY_TEST_REDIS"), "127.0.0.1:6379")}
	queue := "durable_" + rand.Text()
	client, inspector := asynq.NewClient(redis), asynq.NewInspector(redis)
	defer func() { err = errors.Join(err, inspector.DeleteQueue(queue, true), client.Close(), inspector.Close()) }()
	for n := range t.jobs {
		job := asynq.NewTask("durable", []byte(strconv.Itoa(n+1)), asynq.Queue(queue), asynq.MaxRetry(4))
		if _, err := client.EnqueueContext(ctx, job); err != nil {
			return 0, err
		}
	}
	done := make(chan struct{})
	var left atomic.Int64
	left.Store(int64(t.jobs))
	server := asynq.NewServer(redis, asynq.Config{
		Concurrency: t.places, Queues: map[string]int{queue: 1}, Logger: silent{}, LogLevel: asynq.FatalLevel,
		TaskCheckInterval: time.Millisecond, DelayedTaskCheckInterval: 2 * time.Millisecond,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 },
	})
	start := time.Now()
	err = server.Start(asynq.HandlerFunc(func(ctx context.Context, job *asynq.Task) error {
		n, err := strconv.ParseInt(string(job.Payload()), 10, 64)
		if err != nil {
			return err
		}
		retried, _ := asynq.GetRetryCount(ctx)
		if t.fails(n, retried+1) {
			return errJob
		}
		if left.Add(-1) == 0 {
			close(done)
		}
		return nil
	}))
	if err != nil {
		return 0, err
	}
	defer server.Shutdown()
	select {
	case <-done:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	for {
		switch info, err := inspector.GetQueueInfo(queue); {
		case err != nil:
			return 0, err
		case info.Archived > 0:
			return 0, fmt.Errorf("%d jobs were given up", info.Archived)
		case info.Size == 0:
			return time.Since(start), nil
		}
	}
}

// silent is a logger of asynq's.
type silent struct{}

func (silent) Debug(...any)      {}
func (silent) Info(...any)       {}
func (silent) Warn(...any)       {}
func (silent) Error(args ...any) { slog.Error(fmt.Sprint(args...)) }
func (silent) Fatal(args ...any) { slog.Error(fmt.Sprint(args...)) }
