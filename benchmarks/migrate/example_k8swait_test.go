package migrate_test

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/seed-5ff3c98e/retry"
)

func beforeK8sWait(ctx context.Context, fetch func(context.Context) error) error {
	backoff := wait.Backoff{Steps: 5, Duration: time.Second, Factor: 2}
	return wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		err := fetch(ctx)
		if errors.Is(err, errNotFound) {
			return false, err
		}
		return err == nil, nil
	})
}

func afterK8sWait(ctx context.Context, fetch func(context.Context) error) error {
	policy := &retry.Policy{
		MaxAttempts: 5,
		Backoff:     retry.Exponential{Initial: time.Second},
		Jitter:      retry.NoJitter,
		Classifier:  retry.On(retry.Final, errNotFound),
	}
	return policy.Execute(ctx, fetch)
}

func beforeK8sPoll(ctx context.Context, ready func(context.Context) (bool, error)) error {
	return wait.PollUntilContextTimeout(ctx, 5*time.Second, 10*time.Minute, true, ready)
}

func afterK8sPoll(ctx context.Context, ready func(context.Context) (bool, error)) error {
	policy := &retry.Policy{
		Timeout: 10 * time.Minute,
		Backoff: retry.Constant(5 * time.Second),
		Jitter:  retry.NoJitter,
	}
	return policy.Execute(ctx, func(ctx context.Context) error {
		ok, err := ready(ctx)
		if err == nil && !ok {
			return retry.MarkPending(errNotReady)
		}
		return retry.MarkFinal(err) // without MarkFinal, up to three errors are retried
	})
}
