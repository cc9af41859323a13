package jobs

import (
	"context"
	"sync/atomic"

	"github.com/seed-5ff3c98e/retry/retrypool"
)

// Import loads files, four at a time. It reports the end of each, after its retries, with
// the number of ended files. A file that waits for its retry holds no worker.
func Import(
	ctx context.Context, files []string, load func(context.Context, string) error, progress func(ended int, err error),
) error {
	var ended atomic.Int64
	pool := &retrypool.Pool{Workers: 4, OnEnd: func(_ context.Context, task *retrypool.Task) {
		progress(int(ended.Add(1)), task.Err())
	}}
	for _, file := range files {
		if _, err := pool.Submit(ctx, func(ctx context.Context) error { return load(ctx, file) }); err != nil {
			return err
		}
	}
	return pool.Wait(ctx)
}
