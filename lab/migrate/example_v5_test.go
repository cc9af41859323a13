package migrate_test

import (
	"context"
	"errors"
	"time"

	retrygo "github.com/avast/retry-go/v5"
	"github.com/cenkalti/backoff/v5"

	"github.com/seed-5ff3c98e/retry"
)

func beforeBackoffV5(ctx context.Context, load func(context.Context) (string, error)) (string, error) {
	return backoff.Retry(ctx, func() (string, error) {
		value, err := load(ctx)
		switch {
		case errors.Is(err, errNotFound):
			return "", backoff.Permanent(err)
		case errors.Is(err, errBusy):
			return "", backoff.RetryAfter(7)
		}
		return value, err
	}, backoff.WithMaxTries(5), backoff.WithBackOff(&backoff.ExponentialBackOff{
		InitialInterval: time.Second, Multiplier: 2, MaxInterval: 30 * time.Second,
	}))
}

func afterBackoffV5(ctx context.Context, load func(context.Context) (string, error)) (string, error) {
	policy := &retry.Policy{
		MaxAttempts: 5,
		MaxElapsed:  15 * time.Minute, // the default of backoff
		Backoff:     retry.Exponential{Initial: time.Second, Multiplier: 2},
		MaxDelay:    30 * time.Second,
		Jitter:      retry.NoJitter,
		Classifier: retry.Chain(retry.On(retry.Final, errNotFound), func(err error) retry.Verdict {
			if errors.Is(err, errBusy) {
				return retry.Verdict{Class: retry.RateLimited, After: 7 * time.Second, Exact: true}
			}
			return retry.Verdict{}
		}),
	}
	return retry.Do(ctx, policy, load)
}

func beforeRetryGoV5(ctx context.Context, fetch func(context.Context) error) error {
	return retrygo.New(
		retrygo.Context(ctx),
		retrygo.Attempts(5),
		retrygo.AttemptsForError(2, errBusy),
		retrygo.AttemptsForError(1, errNotFound),
		retrygo.Delay(time.Second),
		retrygo.DelayType(retrygo.FixedDelay),
		retrygo.OnRetry(func(n uint, err error) { logRetry(ctx, int(n)+1, err) }),
	).Do(func() error { return fetch(ctx) })
}

func afterRetryGoV5(ctx context.Context, fetch func(context.Context) error) error {
	policy := &retry.Policy{
		MaxAttempts: 5,
		Backoff:     retry.Constant(time.Second),
		Jitter:      retry.NoJitter,
		Classifier:  retry.Chain(retry.On(retry.Final, errNotFound), retry.On(retry.Retryable, errBusy)),
		Overrides:   map[string]retry.Override{"retryable": {MaxAttempts: 2}},
		Observer: &retry.Observer{Event: func(ctx context.Context, e retry.Event) {
			if e.Kind == retry.Retrying {
				logRetry(ctx, e.Attempt, e.Err)
			}
		}},
	}
	return policy.Execute(ctx, fetch)
}
