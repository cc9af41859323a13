package migrate_test

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	goretry "github.com/sethvargo/go-retry"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
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

func beforeRetryableHTTP(base http.RoundTripper) *http.Client {
	client := retryablehttp.NewClient()
	client.HTTPClient.Transport = base
	client.Logger = nil
	client.RetryMax = 4
	client.RetryWaitMin = time.Second
	client.RetryWaitMax = 30 * time.Second
	return client.StandardClient()
}

func afterRetryableHTTP(base http.RoundTripper) *http.Client {
	return &http.Client{Transport: &retryhttp.Transport{
		Base: base,
		Policy: &retry.Policy{
			MaxAttempts: 5, // the first one counts
			Backoff:     retry.Exponential{Initial: time.Second},
			MaxDelay:    30 * time.Second,
			Jitter:      retry.NoJitter,
		},
	}}
}
