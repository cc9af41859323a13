package jobs

import (
	"context"

	"github.com/seed-5ff3c98e/retry"
)

// AllErrors gives the operation the number of its attempt. It returns the error of each
// attempt, and the error of the call.
func AllErrors(ctx context.Context, op func(ctx context.Context, attempt int) error) (all []error, err error) {
	call := retry.Call{}
	for call.Next(ctx) {
		err := op(call.Context(), call.Attempt())
		all = append(all, err)
		call.End(err)
	}
	return all, call.Err()
}
