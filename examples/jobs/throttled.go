package jobs

import (
	"context"

	"github.com/seed-5ff3c98e/retry"
)

// Throttled returns a function that runs operations. Without successes, they make
// three retries in all.
func Throttled() func(context.Context, func(context.Context) error) error {
	policy := &retry.Policy{Budget: &retry.Budget{Reserve: 3}}
	return policy.Execute
}
