package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

var errNotReady = errors.New("not ready")

// Poll asks every five seconds, for ten minutes at most. Three errors of check end it;
// "not ready" is not an error.
func Poll(ctx context.Context, check func(context.Context) (bool, error)) error {
	policy := &retry.Policy{Timeout: 10 * time.Minute, Backoff: retry.Constant(5 * time.Second), Jitter: retry.NoJitter}
	return policy.Execute(ctx, func(ctx context.Context) error {
		ready, err := check(ctx)
		if err == nil && !ready {
			err = retry.MarkPending(errNotReady)
		}
		return err
	})
}
