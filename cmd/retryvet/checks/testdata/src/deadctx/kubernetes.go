package deadctx

import (
	"context"
	"time"

	poll "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// The end of a context is no conflict.
func conflict(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return retry.RetryOnConflict(1, func() error { return call(ctx) })
}

// What a poll begins may go on after it.
func follows(ctx context.Context) error {
	return poll.PollUntilContextTimeout(ctx, time.Second, time.Minute, true, func(context.Context) (bool, error) {
		return true, call(ctx) // want `ctx is the context around the attempts`
	})
}

func followsOn(ctx context.Context) error {
	return poll.PollUntilContextTimeout(ctx, time.Second, time.Minute, true, func(_ context.Context) (bool, error) {
		return true, call(ctx)
	})
}
