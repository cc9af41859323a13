package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// The kinds of failures of [PerKind].
var (
	ErrBusy     = errors.New("busy")
	ErrConflict = errors.New("conflict")
	ErrGone     = errors.New("gone")
)

// PerKind makes five attempts, a second apart. After a conflict it makes only one more,
// at once, and after a resource is gone none.
func PerKind(ctx context.Context, op func(context.Context) error) error {
	policy := &retry.Policy{
		MaxAttempts: 5, Backoff: retry.Constant(time.Second), Jitter: retry.NoJitter,
		Classifier: retry.Chain(retry.On(retry.Final, ErrGone), retry.On(retry.Retryable, ErrConflict)),
		Overrides:  map[string]retry.Override{"retryable": {MaxAttempts: 2, Backoff: retry.Constant(0)}},
	}
	return policy.Execute(ctx, op)
}
