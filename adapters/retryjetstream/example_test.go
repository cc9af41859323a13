package retryjetstream_test

import (
	"context"
	"log"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryjetstream"
)

func ExampleRetries_Handle() { //nolint:testableexamples // it needs a server
	ctx := context.Background()
	conn, err := nats.Connect("nats://127.0.0.1:4222")
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		panic(err)
	}
	consumer, err := js.CreateOrUpdateConsumer(ctx, "jobs", jetstream.ConsumerConfig{
		Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 100_000,
	})
	if err != nil {
		panic(err)
	}
	states, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "retries", TTL: 7 * 24 * time.Hour})
	if err != nil {
		panic(err)
	}
	retries := &retryjetstream.Retries{JetStream: js, Consumer: consumer, States: states, Policy: &retry.Policy{
		Name: "import", MaxAttempts: 8, Backoff: retry.Exponential{Initial: time.Second}, FreeRateLimits: 100,
	}}
	consuming, err := consumer.Consume(func(msg jetstream.Msg) {
		go func() {
			err := retries.Handle(ctx, msg, func(context.Context) error {
				return nil // an error is classified, and the message comes again when the policy says
			})
			if err != nil {
				log.Print(err)
			}
		}()
	})
	if err != nil {
		panic(err)
	}
	<-ctx.Done()
	consuming.Drain()
}
