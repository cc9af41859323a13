// Package retry decides whether, when and how often to try again.
//
// The usual call is one of two:
//
//	err := policy.Execute(ctx, func(ctx context.Context) error { … })
//	v, err := retry.Do(ctx, policy, func(ctx context.Context) (T, error) { … })
//
// A [Policy] is a literal whose zero value is safe: 3 attempts, waits of up to 2
// and 4 seconds, full jitter. For most uses it needs no more than a limit and a
// backoff:
//
//	policy := &retry.Policy{
//		MaxAttempts: 5,
//		Backoff:     retry.Exponential{Initial: 200 * time.Millisecond},
//	}
//
// [Policy.Validate] reports settings out of range, and durations without a unit: call it where your
// program starts.
//
// For a loop of your own there is [Call]: it waits, makes the context of each attempt,
// and decides. Where the state of a job lives in a database, [Policy.Next] makes the same
// decision as a pure function of that state, the error and the time: a loop that
// blocks and a daemon that polls a table behave the same. If an engine hands out the jobs, package
// retryjob makes one attempt at a job.
//
// # What is retried
//
// [Classify] knows the errors of the standard library by their types, and errors of other packages
// by common methods such as Timeout and HTTPStatusCode. Unknown errors are retried, a bounded
// number of times. To say more, mark errors where they arise ([MarkFinal], [MarkRetryable],
// [MarkRateLimited]), or give the policy a [Classifier]. [Policy.Overrides] treats kinds of
// failures differently, and [Policy.NonIdempotent] retries only what certainly had no effect.
//
// # What a call promises
//
// A wait that would end at or after the context's deadline is not begun, and the operation is never
// called once the context is done. The error that ends a call wraps the last failure and gives the
// reason to stop. A server's hint is a lower bound of the wait, up to a limit. A delay is never
// negative or above its cap, and clients stay spread at the cap.
//
// # Neighbors
//
// Package retryhttp retries HTTP requests, retrysql retries transactions, and retryexec retries
// commands. Package retrypool runs tasks; a task that waits holds no worker. Package retrytable
// keeps jobs in your own table, and retryjob is for engines of your own. Package retryslog logs
// the events, and retrytest has a fake clock and scripted failures for tests. Modules of their
// own, listed in adapters/README.md, are for gRPC, Connect, pgx, go-redis, AWS and Google
// Cloud; for River, asynq, JetStream, RabbitMQ, Kafka, SQS, Pub/Sub, Redis Streams, Watermill,
// Temporal and Kubernetes; and for OpenTelemetry and Prometheus.
package retry
