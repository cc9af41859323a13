// Example runs a task of asynq under a policy, and prints what happens. It needs Redis:
//
//	go run . -server 127.0.0.1:6379
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryasynq"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func main() {
	server := flag.String("server", "127.0.0.1:6379", "a Redis; a queue is made, and deleted at the end")
	flag.Parse()
	if err := run(context.Background(), *server, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func policy(out io.Writer, over chan<- struct{}) *retry.Policy {
	return &retry.Policy{
		Name: "import", MaxAttempts: 4, Backoff: retry.Exponential{Initial: time.Second}, FreeRateLimits: 5,
		Observer: timeline(out, over),
	}
}

func run(ctx context.Context, server string, out io.Writer) error {
	db := redis.NewClient(&redis.Options{Addr: server})
	queue := "example-" + strings.ToLower(rand.Text()[:10])
	over, work := make(chan struct{}), job()
	retries := &retryasynq.Retries{Policy: policy(out, over), Redis: db}
	config := asynq.Config{
		Queues: map[string]int{queue: 1}, DelayedTaskCheckInterval: 100 * time.Millisecond, LogLevel: asynq.FatalLevel,
	}
	if err := retries.Configure(&config); err != nil {
		return err
	}
	workers := asynq.NewServerFromRedisClient(db, config)
	handler := asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error { return work(ctx) })
	if err := workers.Start(retries.Handler(handler)); err != nil {
		return err
	}
	_, err := asynq.NewClientFromRedisClient(db).EnqueueContext(ctx, asynq.NewTask("import", nil), asynq.Queue(queue), retryasynq.MaxRetry())
	if err == nil {
		<-over
	}
	workers.Shutdown()
	return errors.Join(err, asynq.NewInspectorFromRedisClient(db).DeleteQueue(queue, true), db.Close())
}

// job fails three times, each time in another way, and then succeeds.
func job() func(context.Context) error {
	return retrytest.Script(
		errors.New("connection refused"),
		retry.MarkRateLimited(errors.New("429 Too Many Requests"), 2*time.Second),
		retry.MarkRetryable(errors.New("503 Service Unavailable")),
		nil,
	).Run
}

// timeline prints what happens, and closes over at the end.
func timeline(out io.Writer, over chan<- struct{}) retry.Observer {
	start := time.Now()
	return retry.ObserverFunc(func(_ context.Context, e retry.Event) {
		at := time.Since(start).Truncate(time.Second)
		if e.Kind == retry.Retrying {
			fmt.Fprintf(out, "%v: attempt %d: %v: again in %v\n", at, e.Attempt, e.Err, e.Delay.Truncate(time.Second))
			return
		}
		fmt.Fprintf(out, "%v: attempt %d: %v\n", at, e.Attempt, e.Kind)
		close(over)
	})
}
