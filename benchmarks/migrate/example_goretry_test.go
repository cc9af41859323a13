package migrate_test

import (
	"context"
	"errors"
	"time"

	goretry "github.com/sethvargo/go-retry"

	"github.com/seed-5ff3c98e/retry"
)

func beforeGoRetry(ctx context.Context, fetch func(context.Context) error) error {
	wait := goretry.NewExponential(time.Second)
	wait = goretry.WithCappedDuration(30*time.Second, wait)
	wait = goretry.WithMaxRetries(4, wait)
	return goretry.Do(ctx, wait, func(ctx context.Context) error {
		err := fetch(ctx)
		if errors.Is(err, errDown) || errors.Is(err, errBusy) {
			return goretry.RetryableError(err)
		}
		return err
	})
}

func afterGoRetry(ctx context.Context, fetch func(context.Context) error) error {
	policy := &retry.Policy{
		MaxAttempts: 5, // the first one counts
		Backoff:     retry.Exponential{Initial: time.Second},
		MaxDelay:    30 * time.Second,
		Jitter:      retry.NoJitter,
		Classifier: retry.Chain(
			retry.On(retry.Retryable, errDown, errBusy),
			func(error) retry.Verdict { return retry.Verdict{Class: retry.Final} }, // all others
		),
	}
	return policy.Execute(ctx, fetch)
}
