// Package retrypool runs tasks on a bounded number of workers, and runs them again if
// they fail:
//
//	pool := &retrypool.Pool{Workers: 4, Policy: policy}
//	for _, work := range works {
//		if _, err := pool.Submit(ctx, work); err != nil { // blocks while the queue is full
//			return err
//		}
//	}
//	if err := pool.Wait(ctx); err != nil { // until every task has ended, after all its retries
//		return err
//	}
//	left, err := pool.Close(ctx) // left is empty, because nothing waits for a retry
//
// A task that waits for its retry holds neither a worker nor a goroutine: it is an
// entry in a heap. Retries that are due and new tasks take turns, so neither can keep
// the other waiting; see [Pool].
//
// A [retry.Policy] decides, as in its Execute. To end a program before all its tasks, do
// not call Wait: [Pool.Close] then returns the unfinished tasks. Another pool continues
// them with [Pool.ResumeTask]. Another process continues them from their states with
// [Pool.Resume].
package retrypool
