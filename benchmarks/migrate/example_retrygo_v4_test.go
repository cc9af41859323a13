package migrate_test

import (
	"context"
	"errors"
	"time"

	retrygo "github.com/avast/retry-go/v4"

	"github.com/seed-5ff3c98e/retry"
)

func beforeRetryGoV4(ctx context.Context, fetch func(context.Context) error) error {
	return retrygo.Do(
		func() error { return fetch(ctx) },
		retrygo.Context(ctx),
		retrygo.Attempts(5),
		retrygo.Delay(time.Second),
		retrygo.MaxDelay(30*time.Second),
		retrygo.DelayType(retrygo.BackOffDelay),
		retrygo.LastErrorOnly(true),
		retrygo.RetryIf(func(err error) bool { return !errors.Is(err, errNotFound) }),
	)
}

func afterRetryGoV4(ctx context.Context, fetch func(context.Context) error) error {
	policy := &retry.Policy{
		MaxAttempts: 5,
		Backoff:     retry.Exponential{Initial: time.Second},
		MaxDelay:    30 * time.Second,
		Jitter:      retry.NoJitter,
		Classifier:  retry.On(retry.Final, errNotFound),
	}
	return policy.Execute(ctx, fetch)
}
