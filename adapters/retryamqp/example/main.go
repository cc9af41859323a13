// Example handles a message of RabbitMQ under a policy, and prints what happens. It needs
// a broker:
//
//	go run . -server amqp://guest:guest@127.0.0.1:5672/
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
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryamqp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func main() {
	server := flag.String("server", "amqp://guest:guest@127.0.0.1:5672/", "a RabbitMQ; a queue is made, and deleted at the end")
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

func run(ctx context.Context, server string, out io.Writer) (err error) {
	conn, err := amqp.Dial(server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	queue := "example-" + strings.ToLower(rand.Text()[:10])
	if _, err := channel.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		return err
	}
	over, work := make(chan struct{}), job()
	retries := &retryamqp.Retries{Policy: policy(out, over), Conn: conn, Queue: queue}
	if err := channel.Qos(10, 0, false); err != nil {
		return err
	}
	messages, err := channel.Consume(queue, "example", false, false, false, false, nil)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() {
		for msg := range messages {
			running.Go(func() {
				if err := retries.Handle(ctx, msg, work); err != nil {
					fmt.Fprintln(os.Stderr, err) // the message comes again
				}
			})
		}
	})
	if err = channel.PublishWithContext(ctx, "", queue, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent}); err == nil {
		<-over
	}
	err = errors.Join(err, channel.Cancel("example", false))
	running.Wait()
	for _, name := range []string{queue, queue + ".dead"} { // wait queues expire
		_, deleteErr := channel.QueueDelete(name, false, false, false)
		err = errors.Join(err, deleteErr)
	}
	return err
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
