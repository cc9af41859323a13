package migrate_test

import (
	"context"
	"errors"
	"time"

	retrygo "github.com/avast/retry-go/v4"
	"github.com/cenkalti/backoff/v4"

	"github.com/seed-5ff3c98e/retry"
)

func beforeBackoffV4(ctx context.Context, fetch func(context.Context) error) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval = time.Second
	wait.Multiplier = 2
	wait.MaxInterval = 30 * time.Second
	wait.RandomizationFactor = 0
	wait.MaxElapsedTime = 2 * time.Minute
	return backoff.Retry(func() error {
		err := fetch(ctx)
		if errors.Is(err, errNotFound) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(backoff.WithMaxRetries(wait, 4), ctx))
}

func afterBackoffV4(ctx context.Context, fetch func(context.Context) error) error {
	policy := &retry.Policy{
		MaxAttempts: 5, // the first one counts
		MaxElapsed:  2 * time.Minute,
		Backoff:     retry.Exponential{Initial: time.Second, Multiplier: 2},
		MaxDelay:    30 * time.Second,
		Jitter:      retry.NoJitter,
		Classifier:  retry.On(retry.Final, errNotFound),
	}
	return policy.Execute(ctx, fetch)
}

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
