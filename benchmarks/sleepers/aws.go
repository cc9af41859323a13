package main

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
)

// byAWS runs the SDK's loop, which is a middleware of its clients, without the rest
// of a client.
func byAWS(wait time.Duration) call {
	retryer := awsretry.NewStandard(func(o *awsretry.StandardOptions) {
		o.MaxAttempts = attempts
		o.RateLimiter = ratelimit.None
		o.Backoff = awsretry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return wait, nil })
		o.Retryables = []awsretry.IsErrorRetryable{
			awsretry.IsErrorRetryableFunc(func(error) aws.Ternary { return aws.TrueTernary }),
		}
	})
	loop := awsretry.NewAttemptMiddleware(retryer, func(request any) any { return request })
	return func(ctx context.Context, fn operation) error {
		_, _, err := loop.HandleFinalize(ctx, middleware.FinalizeInput{}, middleware.FinalizeHandlerFunc(
			func(ctx context.Context, _ middleware.FinalizeInput) (
				out middleware.FinalizeOutput, meta middleware.Metadata, err error,
			) {
				return out, meta, fn(ctx)
			}))
		return err
	}
}
