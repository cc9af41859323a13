package retryjetstream_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryjetstream"
)

func ExampleRetries_Handle() {
	address, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	conn, err := nats.Connect(address)
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		panic(err)
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "jobs", Subjects: []string{"jobs"}})
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
	over, attempts := make(chan struct{}), 0
	policy := &retry.Policy{
		Name: "import", MaxAttempts: 8, Backoff: retry.Constant(0), FreeRateLimits: 100,
		Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.Succeeded {
				close(over) // the example ends here
			}
		}},
	}
	work := func(context.Context, []byte) error {
		attempts++
		fmt.Println("attempt", attempts)
		if attempts < 3 {
			return errors.New("connection refused") // classified, and the message comes again when the policy says
		}
		return nil
	}

	retries := &retryjetstream.Retries{Policy: policy, JetStream: js, Consumer: consumer, States: states}
	consuming, err := consumer.Consume(func(msg jetstream.Msg) {
		go func() {
			err := retries.Handle(ctx, msg, func(ctx context.Context) error { return work(ctx, msg.Data()) })
			if err != nil {
				log.Print(err) // the server could not be told, and the message comes again
			}
		}()
	})
	if err != nil {
		panic(err)
	}
	if _, err := js.Publish(ctx, "jobs", nil); err != nil {
		panic(err)
	}
	<-over
	consuming.Drain()
	// Output:
	// attempt 1
	// attempt 2
	// attempt 3
}

// exampleServer starts a server in this process.
func exampleServer() (url string, stop func()) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true,
	})
	if err != nil {
		panic(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		panic("the server does not start")
	}
	return s.ClientURL(), func() {
		s.Shutdown()
		s.WaitForShutdown()
		_ = os.RemoveAll(dir)
	}
}
