// Package retrypool runs tasks on a bounded number of workers, and again if they
// fail. A task that waits for its retry holds neither a worker nor a goroutine: it
// is an entry in a heap, so old failures do not keep new work waiting.
//
//	pool := &retrypool.Pool{Workers: 4, Policy: policy}
//	task, err := pool.Submit(ctx, work)
//
// The decisions are those of a [retry.Policy], as in its Execute. What is left
// when the program ends comes back from [Pool.Close] with its state, and goes on
// with [Pool.Resume].
package retrypool
