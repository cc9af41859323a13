package migrate_test

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v7"

	"github.com/seed-5ff3c98e/retry"
)

func beforeBackoffV7(ctx context.Context, fetch func(context.Context) error) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := fetch(ctx)
		if errors.Is(err, errNotFound) {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithMaxTries(5), backoff.WithBackOff(backoff.NewConstantBackOff(5*time.Second)))
	if errors.Is(err, backoff.ErrExhausted) {
		return errGaveUp
	}
	return err
}

func afterBackoffV7(ctx context.Context, fetch func(context.Context) error) error {
	policy := &retry.Policy{
		MaxAttempts: 5,
		MaxElapsed:  15 * time.Minute, // the default of backoff
		Backoff:     retry.Constant(5 * time.Second),
		Jitter:      retry.NoJitter, // else ±10 %
		Classifier:  retry.On(retry.Final, errNotFound),
	}
	err := policy.Execute(ctx, fetch)
	if errors.Is(err, retry.StopAttempts) {
		return errGaveUp
	}
	return err
}
