// Package retrykube has Kubernetes controllers requeue as a [retry.Policy] says:
//
//	retries, err := retrykube.New[reconcile.Request](policy)
//	if err != nil {
//		return err
//	}
//	err = ctrl.NewControllerManagedBy(mgr).
//		For(&corev1.Pod{}).
//		WithOptions(controller.Options{RateLimiter: retries}).
//		Complete(retries.Reconciler(reconciler))
//
// A rate limiter alone does not see the error. Here one object is both the rate limiter
// and around the reconciler, so every failure is classified, hints of servers are
// heeded, and waits have jitter. [retry.Policy.AttemptTimeout], Budget and Observer work
// as in Execute. Set both: with only the RateLimiter, errors are not seen, and with only
// the Reconciler, the waits are those of another limiter.
//
// A loop over a queue of client-go uses [Retries.Try] with
// workqueue.NewTypedRateLimitingQueue(retries).
//
// # What is counted, and where the State is
//
// The [retry.State] of an item is in memory, from its first failure until it succeeds or
// is given up. Nothing else counts.
//
// # How items end
//
// An item that is given up, by a Final error too, is not requeued: the reconciler returns
// a reconcile.TerminalError. A later event about the object reconciles it again, with a
// new count. A terminal error of the reconciler's own ends the item likewise, and a panic
// does, one of the policy's Observer or Classifier too; the error has its stack. A Result
// with RequeueAfter is a success. One with Requeue alone is [retry.Pending]: it is
// repeated with the waits of the policy, and counts as no failure. A reconciler that runs
// into the ReconciliationTimeout has failed.
//
// # Crash, shutdown, and a new policy
//
// All is forgotten when the process ends. The next one lists all objects and reconciles
// them at once, with new counts: a crash is not counted, and an object that crashes the
// controller is reconciled for ever. A reconciler that fails because the manager stops is
// not counted either. A new policy therefore applies from the start of its process on.
//
// # What it cannot do
//
// An event about an object ends its wait: the attempt is earlier than decided. Failures
// before and after it count together.
package retrykube
