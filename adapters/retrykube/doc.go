// Package retrykube lets a [retry.Policy] decide when a Kubernetes controller tries again:
//
//	retries := &retrykube.Retries[reconcile.Request]{Policy: policy}
//	err := ctrl.NewControllerManagedBy(mgr).
//		For(&corev1.Pod{}).
//		WithOptions(controller.Options{RateLimiter: retries}).
//		Complete(retries.Reconciler(reconciler))
//
// Every failure is classified, hints of servers are followed, and waits have jitter.
// [retry.Policy.AttemptTimeout], Budget and Observer work as in Execute.
//
// The same Retries is the rate limiter and wraps the reconciler. Set both: the rate limiter
// alone does not see the error, and the reconciler alone does not set the wait. A loop over a
// client-go queue uses [Retries.Try] with workqueue.NewTypedRateLimitingQueue(retries).
//
// # What is counted, and where the State is
//
// The [retry.State] of an item is in memory, from its first failure until it succeeds or
// is given up. Nothing else counts.
//
// # How items end
//
// An item that is given up, also by a Final error, is not requeued: the reconciler returns a
// reconcile.TerminalError. A later event about the object reconciles it again, with a new
// count. A terminal error of the reconciler and a panic also end the item. A Result with
// RequeueAfter is a success. A Result with Requeue alone is [retry.Pending]: the item is
// repeated with the waits of the policy, and no failure is counted. A reconciler that runs
// into the ReconciliationTimeout has failed.
//
// # Crash, shutdown, and a new policy
//
// Everything is forgotten when the process ends. The next process lists all objects and
// reconciles them at once, with new counts: a crash is not counted, and an object that
// crashes the controller is reconciled for ever. A reconciler that fails because the manager
// stops is not counted either. A new policy counts from the next attempt on.
//
// # What it cannot do
//
// An event about an object ends its wait: the attempt is earlier than decided. Failures
// before and after the event count together.
package retrykube
