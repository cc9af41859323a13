package jobs

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	"github.com/seed-5ff3c98e/retry/examples/jobs"
	"github.com/seed-5ff3c98e/retry/examples/jobs/jobstest"
)

func failsafeRetry(ctx context.Context, op jobstest.Op) error {
	policy := retrypolicy.NewBuilder[any]().WithBackoff(time.Second, 30*time.Second).Build()
	return failsafe.With(policy).WithContext(ctx).Run(func() error { return op(ctx) })
}

//nolint:bodyclose // there is no response here
func failsafeHTTPClient(base http.RoundTripper) *http.Client {
	policy := failsafehttp.NewRetryPolicyBuilder().WithBackoff(time.Second, 30*time.Second).Build()
	return &http.Client{Timeout: 10 * time.Second, Transport: failsafehttp.NewRoundTripper(base, policy)}
}

func failsafeExactDelay(ctx context.Context, op jobstest.Op) error {
	policy := retrypolicy.NewBuilder[any]().WithDelayFunc(func(e failsafe.ExecutionAttempt[any]) time.Duration {
		busy := &jobs.BusyError{}
		_ = errors.As(e.LastError(), &busy)
		return busy.Wait
	}).Build()
	return failsafe.With(policy).WithContext(ctx).Run(func() error { return op(ctx) })
}

func failsafeNested(ctx context.Context, op jobstest.Op) error {
	inner := retrypolicy.NewBuilder[any]().WithBackoff(time.Second, 30*time.Second).Build()
	outer := retrypolicy.NewBuilder[any]().WithBackoff(time.Second, 30*time.Second).
		AbortOnErrors(retrypolicy.ErrExceeded).Build()
	return failsafe.With(outer, inner).WithContext(ctx).Run(func() error { return op(ctx) })
}
