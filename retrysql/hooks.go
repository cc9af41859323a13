package retrysql

import (
	"context"

	"github.com/seed-5ff3c98e/retry/internal/aftercommit"
)

// AfterCommit registers do, which [InTx] calls once its transaction is committed. ctx is
// the context that InTx has given to fn, or a child of it; AfterCommit panics with any
// other context.
//
// After a successful commit, InTx calls the functions that the attempt has registered, in
// that order, on its own goroutine, before it returns nil; the connection is free by then.
// do gets the context of InTx, which may have ended. The error of InTx does not depend on
// do: do handles its own failures, with its own retries if necessary. A panic of do passes
// through, and the functions after it are not called.
//
// A rollback drops the functions that its attempt has registered, and the next attempt
// begins without functions. If the outcome of the commit is unknown, no function is called
// either: InTx returns [ErrCommitUnknown], or repeats fn if [TxOptions] has Idempotent. So
// do is called at most once, and not at all if the process ends right after the commit. If
// a step must not be lost, store it in the same transaction, as a job of package
// retrytable.
//
// It works with the context of Worker.InTx and Job.InTx of package retrytable too: there, do
// is called once the outcome of the job is stored.
//
// AfterCommit is safe for concurrent use while fn runs.
func AfterCommit(ctx context.Context, do func(ctx context.Context)) {
	h := aftercommit.Of(ctx)
	if h == nil {
		panic("retrysql: AfterCommit: the context is not that of a function of InTx")
	}
	h.Add(do)
}
