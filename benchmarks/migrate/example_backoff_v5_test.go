package migrate_test

import (
	"context"
	"errors"
	"time"

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
