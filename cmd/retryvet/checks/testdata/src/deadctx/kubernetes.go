package deadctx

import (
	"context"
	"time"

	"k8s.io/client-go/util/retry"
)

// The end of a context is no conflict.
func conflict(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return retry.RetryOnConflict(1, func() error { return call(ctx) })
}
