package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrysqs"
)

func sqsQueue(ctx context.Context, address string, p *retry.Policy, job work, over <-chan struct{}) (err error) {
	client := sqs.New(sqs.Options{
		BaseEndpoint: new(cmp.Or(address, "http://127.0.0.1:4566")), Region: "us-east-1", Credentials: aws.AnonymousCredentials{},
	})
	queue, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: new("engines-" + rand.Text())})
	if err != nil {
		return err
	}
	defer func() {
		_, failure := client.DeleteQueue(context.WithoutCancel(ctx), &sqs.DeleteQueueInput{QueueUrl: queue.QueueUrl})
		err = errors.Join(err, failure)
	}()
	if _, err = client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: queue.QueueUrl, MessageBody: new("import")}); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		until(ctx, over)
		stop()
	}()
	retries := &retrysqs.Retries{Policy: p, Client: client, QueueURL: *queue.QueueUrl, Dead: *queue.QueueUrl + "-dead"}
	return retries.Run(running, func(ctx context.Context, _ types.Message) error { return job(ctx) })
}
