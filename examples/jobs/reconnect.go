package jobs

import (
	"context"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Reconnect connects again whenever connect returns an error, until ctx ends or connect
// returns nil. It waits up to 1s, 2s, 4s, … 30s, and starts these waits again after a
// connection that lasted a minute. The Classifier retries even Final errors, such as an
// unknown host.
func Reconnect(ctx context.Context, connect func(context.Context) error) error {
	policy := &retry.Policy{
		MaxAttempts: retry.Unlimited, Backoff: retry.Exponential{Initial: time.Second}, ResetAfter: time.Minute,
		Classifier: func(error) retry.Verdict { return retry.Verdict{Class: retry.Retryable} },
	}
	return policy.Execute(ctx, connect)
}
