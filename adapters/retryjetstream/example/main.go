// Example handles a message of JetStream under a policy, and prints what happens. Without
// -server, it starts a server in this process:
//
//	go run . -server nats://127.0.0.1:4222
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryjetstream"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func main() {
	server := flag.String("server", "", "a NATS server with JetStream; a stream and a bucket with the name retry-example are made, and deleted at the end")
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

const name = "retry-example"

func run(ctx context.Context, address string, out io.Writer) (err error) {
	if address == "" {
		embedded, stop, err := startServer()
		if err != nil {
			return err
		}
		defer stop()
		address = embedded
	}
	conn, err := nats.Connect(address)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name}}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, js.DeleteStream(ctx, name), js.DeleteKeyValue(ctx, name)) }()
	return handle(ctx, js, out)
}

func handle(ctx context.Context, js jetstream.JetStream, out io.Writer) error {
	consumer, err := js.CreateConsumer(ctx, name, jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		return err
	}
	states, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: name, TTL: 7 * 24 * time.Hour})
	if err != nil {
		return err
	}
	over, work := make(chan struct{}), job()
	retries := &retryjetstream.Retries{Policy: policy(out, over), JetStream: js, Consumer: consumer, States: states}
	var running sync.WaitGroup
	consuming, err := consumer.Consume(func(msg jetstream.Msg) {
		running.Go(func() {
			if err := retries.Handle(ctx, msg, work); err != nil {
				fmt.Fprintln(os.Stderr, err) // the message comes again
			}
		})
	})
	if err != nil {
		return err
	}
	if _, err = js.Publish(ctx, name, nil); err == nil {
		<-over
	}
	consuming.Drain()
	<-consuming.Closed()
	running.Wait()
	return err
}

// startServer starts a server in this process.
func startServer() (url string, stop func(), err error) {
	dir, err := os.MkdirTemp("", name)
	if err != nil {
		return "", nil, err
	}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.Start()
	stop = func() {
		s.Shutdown()
		s.WaitForShutdown()
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	if !s.ReadyForConnections(10 * time.Second) {
		stop()
		return "", nil, errors.New("the server does not start")
	}
	return s.ClientURL(), stop, nil
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
