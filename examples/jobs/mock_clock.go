package jobs

import (
	"context"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// WithMockClock runs an operation on a mock clock, such as
// github.com/benbjohnson/clock's, that moves while the policy waits. Production code
// keeps the nil Clock.
func WithMockClock(ctx context.Context, mock retrytest.Mock, op func(context.Context) error) error {
	policy := &retry.Policy{Jitter: retry.NoJitter, Clock: retrytest.Auto(mock)}
	return policy.Execute(ctx, op)
}
