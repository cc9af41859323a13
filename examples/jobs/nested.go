package jobs

import (
	"context"

	"github.com/seed-5ff3c98e/retry"
)

// Nested has a policy around another one, as in a program that calls a library which
// retries too. The attempts do not multiply: the error of an inner policy that gave up is
// Final to the outer one.
func Nested(ctx context.Context, op func(context.Context) error) error {
	outer, inner := &retry.Policy{}, &retry.Policy{}
	return outer.Execute(ctx, func(ctx context.Context) error { return inner.Execute(ctx, op) })
}
