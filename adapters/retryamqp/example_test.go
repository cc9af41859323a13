package retryamqp_test

import (
	"context"
	"log"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryamqp"
)

func ExampleRetries_Handle() { //nolint:testableexamples // it needs a server
	ctx := context.Background()
	conn, err := amqp.Dial("amqp://guest:guest@127.0.0.1:5672/")
	if err != nil {
		panic(err)
	}
	defer func() { _ = conn.Close() }()
	channel, err := conn.Channel()
	if err != nil {
		panic(err)
	}
	if err := channel.Qos(10, 0, false); err != nil { // no more than run at a time
		panic(err)
	}
	deliveries, err := channel.ConsumeWithContext(ctx, "jobs", "", false, false, false, false, nil)
	if err != nil {
		panic(err)
	}
	policy := &retry.Policy{
		Name: "import", MaxAttempts: 8, Backoff: retry.Exponential{Initial: time.Second}, FreeRateLimits: 100,
	}
	work := func(context.Context, []byte) error {
		return nil // an error is classified, and the message comes again when the policy says
	}

	retries := &retryamqp.Retries{Policy: policy, Conn: conn, Queue: "jobs"}
	defer func() { _ = retries.Close() }()
	for msg := range deliveries {
		go func() {
			err := retries.Handle(ctx, msg, func(ctx context.Context) error { return work(ctx, msg.Body) })
			if err != nil {
				log.Print(err) // the broker could not be told, and the message comes again
			}
		}()
	}
}
