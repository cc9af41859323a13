package main

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrysqs"
)

// sqsBed is a queue of an emulator of SQS, and one for dead letters.
type sqsBed struct {
	client    *sqs.Client
	url, dead string
	count     atomic.Int64
}

func openSQS(ctx context.Context) (bed, error) {
	b := &sqsBed{}
	b.client = sqs.New(sqs.Options{
		BaseEndpoint: new(cmp.Or(os.Getenv("RETRY_TEST_SQS"), "http://127.0.0.1:4566")), Region: "us-east-1",
		Credentials: aws.AnonymousCredentials{}, HTTPClient: &http.Client{Transport: b},
	})
	name := random("compare-")
	for _, queue := range []struct {
		name string
		url  *string
	}{{name, &b.url}, {name + "-dead", &b.dead}} {
		made, err := b.client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &queue.name})
		if err != nil {
			return nil, err
		}
		*queue.url = *made.QueueUrl
	}
	return b, nil
}

// RoundTrip implements [http.RoundTripper]. It does not count receives that find nothing.
func (b *sqsBed) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	empty := err == nil && strings.HasSuffix(req.Header.Get("X-Amz-Target"), ".ReceiveMessage") && resp.ContentLength <= int64(len("{}"))
	if !empty {
		b.count.Add(1)
	}
	return resp, err
}

func (b *sqsBed) submit(ctx context.Context, jobs ...string) error {
	for _, job := range jobs {
		if _, err := b.client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &b.url, MessageBody: &job}); err != nil {
			return err
		}
	}
	return nil
}

func (b *sqsBed) start(p *retry.Policy, quick bool, handle handler) (func(), error) {
	const workers = 10
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	if p != nil {
		retries := &retrysqs.Retries{Policy: p, Client: b.client, QueueURL: b.url, Dead: b.dead, Concurrency: workers}
		running.Go(func() {
			logFailure(retries.Run(ctx, func(ctx context.Context, msg types.Message) error { return handle(ctx, *msg.Body) }))
		})
	} else {
		for range workers {
			running.Go(func() {
				for ctx.Err() == nil {
					logFailure(b.own(ctx, quick, handle))
				}
			})
		}
	}
	return func() {
		cancel()
		running.Wait()
	}, nil
}

// own handles a message. One that fails comes again after the visibility timeout of the queue,
// or at once if quick.
func (b *sqsBed) own(ctx context.Context, quick bool, handle handler) error {
	ctx = context.WithoutCancel(ctx)
	received, err := b.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &b.url, WaitTimeSeconds: 1})
	if err != nil {
		return err
	}
	for _, msg := range received.Messages {
		switch err = handle(ctx, *msg.Body); {
		case err == nil:
			_, err = b.client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &b.url, ReceiptHandle: msg.ReceiptHandle})
		case quick:
			_, err = b.client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{QueueUrl: &b.url, ReceiptHandle: msg.ReceiptHandle})
		default:
			err = nil
		}
	}
	return err
}

func (b *sqsBed) sent() int64 { return b.count.Load() }

func (b *sqsBed) close() (err error) {
	for _, url := range []string{b.url, b.dead} {
		_, failure := b.client.DeleteQueue(context.Background(), &sqs.DeleteQueueInput{QueueUrl: &url})
		err = errors.Join(err, failure)
	}
	return err
}
