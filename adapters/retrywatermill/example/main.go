// Example handles a message of Watermill under a policy, and prints what happens. The broker is
// in this process; any other needs only another Publisher and Subscriber.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrywatermill"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer) error {
	over := make(chan struct{})
	policy := &retry.Policy{Name: "import", MaxAttempts: 4, FreeRateLimits: 5, Observer: timeline(out, over)}
	broker := gochannel.NewGoChannel(gochannel.Config{}, nil)
	router, err := message.NewRouter(message.RouterConfig{}, nil)
	if err != nil {
		return err
	}
	retries := &retrywatermill.Retries{Policy: policy, Publisher: broker}
	router.AddMiddleware(retries.Middleware)
	router.AddConsumerHandler("import", "jobs", broker, func(msg *message.Message) error { return job(msg.Context()) })
	go router.Run(ctx) //nolint:errcheck // Close says the same
	<-router.Running()
	if err := broker.Publish("jobs", message.NewMessage("some-id", nil)); err != nil {
		return err
	}
	<-over
	return errors.Join(retries.Close(ctx), router.Close())
}

// job fails three times, each time in another way, and then succeeds.
var job = retrytest.Script(
	errors.New("connection refused"),
	retry.MarkRateLimited(errors.New("429 Too Many Requests"), 2*time.Second),
	retry.MarkRetryable(errors.New("503 Service Unavailable")), nil,
).Run

func timeline(out io.Writer, over chan<- struct{}) retry.ObserverFunc {
	return func(_ context.Context, e retry.Event) {
		if fmt.Fprintf(out, "attempt %d: %v: %v, again in %v\n", e.Attempt, e.Kind, e.Err, e.Delay); e.Kind != retry.Retrying {
			close(over)
		}
	}
}
