package migrate_test

import (
	"context"
	"time"

	retrygo "github.com/avast/retry-go/v5"

	"github.com/seed-5ff3c98e/retry"
)

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
		Observer: retry.ObserverFunc(func(ctx context.Context, e retry.Event) {
			if e.Kind == retry.Retrying {
				logRetry(ctx, e.Attempt, e.Err)
			}
		}),
	}
	return policy.Execute(ctx, fetch)
}
