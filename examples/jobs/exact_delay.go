package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// BusyError is an error that has the time to wait.
type BusyError struct{ Wait time.Duration }

// Error implements error.
func (e *BusyError) Error() string { return fmt.Sprintf("busy for %v", e.Wait) }

// ExactDelay waits as long as a [BusyError] says, to the nanosecond.
func ExactDelay(ctx context.Context, op func(context.Context) error) error {
	policy := &retry.Policy{Classifier: func(err error) retry.Verdict {
		busy := &BusyError{}
		found := errors.As(err, &busy)
		return retry.Verdict{After: busy.Wait, Exact: found}
	}}
	return policy.Execute(ctx, op)
}
