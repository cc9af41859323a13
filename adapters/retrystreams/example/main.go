// Example handles a message of a Redis Stream under a policy, and prints what happens. It
// needs a server:
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
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrystreams"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func main() {
	server := flag.String("server", "127.0.0.1:6379", "a Redis; a stream is made, and deleted at the end")
	flag.Parse()
	if err := run(context.Background(), *server, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, server string, out io.Writer) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	client, cleanUp := redis.NewClient(&redis.Options{Addr: server}), context.WithoutCancel(ctx)
	stream := "example-" + rand.Text()
	defer func() {
		keys := []string{stream, "{" + stream + "}:workers:retry"}
		err = errors.Join(err, client.Del(cleanUp, keys...).Err(), client.Close())
	}()
	if err := client.XGroupCreateMkStream(ctx, stream, "workers", "0").Err(); err != nil {
		return err
	}
	if err := client.XAdd(ctx, &redis.XAddArgs{Stream: stream, Values: []string{"job", "a"}}).Err(); err != nil {
		return err
	}
	retries := &retrystreams.Retries{Redis: client, Stream: stream, Group: "workers", Consumer: "example", Policy: &retry.Policy{
		Name: "import", MaxAttempts: 4, Backoff: retry.Exponential{Initial: time.Second}, FreeRateLimits: 5,
		Observer: timeline(out, stop),
	}}
	work := retrytest.Script( // fails three times, each time in another way
		errors.New("connection refused"),
		retry.MarkRateLimited(errors.New("429 Too Many Requests"), 2*time.Second),
		retry.MarkRetryable(errors.New("503 Service Unavailable")),
		nil,
	).Run
	return retries.Run(ctx, func(ctx context.Context, _ redis.XMessage) error { return work(ctx) })
}

// timeline prints what happens, and calls over at the end.
func timeline(out io.Writer, over func()) retry.Observer {
	return retry.ObserverFunc(func(_ context.Context, e retry.Event) {
		if e.Kind == retry.Retrying {
			fmt.Fprintf(out, "attempt %d: %v: again in %v\n", e.Attempt, e.Err, e.Delay.Truncate(time.Second))
			return
		}
		fmt.Fprintf(out, "attempt %d: %v\n", e.Attempt, e.Kind)
		over()
	})
}
