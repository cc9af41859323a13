// Package retrykube lets a [retry.Policy] decide when a Kubernetes controller tries again:
//
//	retries := &retrykube.Retries[reconcile.Request]{Policy: policy}
//	err = ctrl.NewControllerManagedBy(mgr).
//		For(&corev1.Pod{}).
//		WithOptions(controller.Options{RateLimiter: retries}).
//		Complete(retries.Reconciler(reconciler))
//
// Every failure is classified, hints of servers are followed, and waits have jitter.
// [retry.Policy.AttemptTimeout] works as in Execute; the Observer is told of an outcome before
// the item is queued again; no Budget is asked.
//
// The same Retries is the rate limiter and wraps the reconciler. Set both: the rate limiter
// alone does not see the error, and the reconciler alone does not set the wait. A loop of your
// own uses [Retries.Try] with the queue of the example.
//
// Leave UsePriorityQueue true, which is its default: a queue of client-go has a limit, see below.
//
// # Which answers of the API server are tried again
//
// A call ends when the server says that an object is not there. A controller comes back: its
// next pass reads the objects anew. An answer is Final only if a change to the object or to
// the program has to come first, because the change to the object is an event. So this is
// decided by metav1.StatusReason, or by the code if the reason is none of these:
//
//	reason                       class        why
//	Conflict, AlreadyExists      Retryable    the cache was behind
//	NotFound                     Retryable    another controller may make it a moment later
//	Forbidden                    Retryable    a quota is raised, a role is bound, a terminating
//	                                          namespace goes: none of them is an event
//	Unauthorized                 Retryable    the token is renewed
//	Expired, Gone                Retryable    the next pass lists anew
//	Timeout, ServerTimeout       Retryable    RetryAfterSeconds is the hint
//	InternalError,               Retryable    also a webhook that does not answer
//	  StorageReadError,
//	  ServiceUnavailable
//	TooManyRequests              RateLimited  RetryAfterSeconds is the hint; also an eviction that
//	                                          a disruption budget refuses
//	Invalid,                     Final        the object stays bad until it is changed
//	  RequestEntityTooLarge
//	BadRequest,                  Final        the program is wrong, or a webhook says no to the
//	  MethodNotAllowed,                       object without a reason
//	  NotAcceptable,
//	  UnsupportedMediaType
//	another reason and code      Retryable
//
// Errors may be wrapped, joined or in an Aggregate; of several, one that is tried again is enough.
// The category is http_404 and so on, as in calls, for Overrides. Marks and the Classifier of the
// policy count before the table: a reconciler whose Invalid depends on other objects, such as a
// port that is taken, uses [retry.MarkRetryable]. Only a mark in an Aggregate counts after the
// Classifier. All other errors are judged by [retry.Classify]. Under a NonIdempotent policy, no
// answer says that the whole pass had no effect; only a mark does.
//
// MaxAttempts ends an object that waits for another one. So watch what it waits for, or give
// http_404 more attempts.
//
// # What is counted, and where the State is
//
// The [retry.State] of an item is in memory, from its first failure until it succeeds or
// is given up. Nothing else counts, and nothing is read from objects or annotations.
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
//
// A queue of client-go, also that of a controller with UsePriorityQueue false, keeps the end of
// the wait that an event has ended, and the adapter cannot tell it from another event. Then the
// object is reconciled once more at that time: the attempt after the event's is early, or an
// object that was given up is tried again, with a new count. The priority queue of
// controller-runtime has one entry for each object, and not this limit.
//
// There are no messages, and so no headers, no sizes and no dead letters: the end of an object is
// the error of its reconciler, in the log and the metrics of the controller.
package retrykube
