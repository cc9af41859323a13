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
	var config aws.Config // of package config
	retries := &retrysqs.Retries{
		Client: sqs.NewFromConfig(config), QueueURL: "https://sqs.eu-central-1.amazonaws.com/123456789012/jobs", Concurrency: 10,
		Policy: &retry.Policy{
			Name: "import", MaxAttempts: 8, Backoff: retry.Exponential{Initial: time.Second}, FreeRateLimits: 100,
		},
	}
	err := retries.Run(context.Background(), func(context.Context, types.Message) error {
		return nil // an error is classified, and the message comes again when the policy says
	})
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
