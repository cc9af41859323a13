package jobs

import (
	"context"

	"github.com/seed-5ff3c98e/retry"
)

// Retry retries an operation under the zero policy. In a test it needs no clock: in a
// bubble of testing/synctest its waits take no time.
func Retry(ctx context.Context, op func(context.Context) error) error {
	return (&retry.Policy{}).Execute(ctx, op)
}
