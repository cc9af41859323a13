package retrysqs_test

import (
	"context"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrysqs"
)

func ExampleRetries_Run() { //nolint:testableexamples // it needs a server
	const url = "https://sqs.eu-central-1.amazonaws.com/123456789012/jobs"
	var config aws.Config // of package config
	ctx, client := context.Background(), sqs.NewFromConfig(config)
	policy := &retry.Policy{
		Name: "import", MaxAttempts: 8, Backoff: retry.Exponential{Initial: time.Second}, FreeRateLimits: 100,
	}
	work := func(context.Context, string) error {
		return nil // an error is classified, and the message comes again when the policy says
	}

	retries := &retrysqs.Retries{Policy: policy, Client: client, QueueURL: url, Concurrency: 10}
	err := retries.Run(ctx, func(ctx context.Context, msg types.Message) error { return work(ctx, *msg.Body) })
	if err != nil {
		panic(err)
	}
}

func ExampleRetries_HandleLambda() { //nolint:testableexamples // it needs Lambda
	var config aws.Config // of package config
	retries := &retrysqs.Retries{
		Client: sqs.NewFromConfig(config), QueueURL: "https://sqs.eu-central-1.amazonaws.com/123456789012/jobs",
		Policy: &retry.Policy{Name: "import", MaxAttempts: 8},
	}
	lambda.Start(func(ctx context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
		return retries.HandleLambda(ctx, event, func(context.Context, events.SQSMessage) error {
			return nil
		})
	})
}
