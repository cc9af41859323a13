// Example works on an item of a queue under a policy, and prints what happens:
//
//	go run .
//
// A controller of controller-runtime is set up as the package comment says.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrykube"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
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

func run(ctx context.Context, out io.Writer) error {
	over, work := make(chan struct{}), job()
	p := policy(out, over)
	if err := p.Validate(); err != nil {
		return err
	}
	retries := &retrykube.Retries[string]{Policy: p}
	queue := priorityqueue.New("import", func(o *priorityqueue.Opts[string]) { o.RateLimiter = retries })
	queue.Add("default/import")
	go func() {
		<-over
		queue.ShutDown()
	}()
	for {
		item, shutdown := queue.Get()
		if shutdown {
			return nil
		}
		again, err := retries.Try(ctx, item, work)
		if again {
			queue.AddRateLimited(item)
		} else if err != nil {
			fmt.Fprintln(out, "given up:", err)
		}
		queue.Done(item)
	}
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
