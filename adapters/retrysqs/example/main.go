// Example handles a message of SQS under a policy, and prints what happens. It needs a server
// that speaks the protocol, such as an emulator; AWS needs other credentials:
//
//	go run . -server http://127.0.0.1:4566
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

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrysqs"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func main() {
	server := flag.String("server", "http://127.0.0.1:4566", "an SQS; a queue is made, and deleted at the end")
	flag.Parse()
	if err := run(context.Background(), *server, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, server string, out io.Writer) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	client := sqs.New(sqs.Options{BaseEndpoint: &server, Region: "us-east-1", Credentials: aws.AnonymousCredentials{}})
	queue, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: new("example-" + rand.Text())})
	if err != nil {
		return err
	}
	defer func() {
		_, deleteErr := client.DeleteQueue(context.WithoutCancel(ctx), &sqs.DeleteQueueInput{QueueUrl: queue.QueueUrl})
		err = errors.Join(err, deleteErr)
	}()
	if _, err = client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: queue.QueueUrl, MessageBody: new("a")}); err != nil {
		return err
	}
	retries := &retrysqs.Retries{Client: client, QueueURL: *queue.QueueUrl, Dead: *queue.QueueUrl + "-dead", Policy: &retry.Policy{
		Name: "import", MaxAttempts: 4, Backoff: retry.Exponential{Initial: time.Second}, FreeRateLimits: 5, Observer: timeline(out, stop),
	}}
	work := retrytest.Script( // fails three times, each time in another way
		errors.New("connection refused"),
		retry.MarkRateLimited(errors.New("429 Too Many Requests"), 2*time.Second),
		retry.MarkRetryable(errors.New("503 Service Unavailable")),
		nil).Run
	return retries.Run(ctx, func(ctx context.Context, _ types.Message) error { return work(ctx) })
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
