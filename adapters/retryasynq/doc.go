// Package retryasynq lets a [retry.Policy] decide when asynq retries a task:
//
//	retries := &retryasynq.Retries{Policy: policy, Redis: client}
//	config := asynq.Config{Concurrency: 10}
//	if err := retries.Configure(&config); err != nil {
//		panic(err)
//	}
//	if err := asynq.NewServerFromRedisClient(client, config).Run(retries.Handler(mux)); err != nil {
//		panic(err)
//	}
//
// Every failure is classified, hints of servers are followed, and waits have jitter.
// [retry.Policy.AttemptTimeout] works as in Execute; the Observer is told of an outcome before
// asynq stores it; no Budget is asked.
//
// # What asynq counts, and where the State is
//
// asynq counts in Retried every failure and every worker that died. The [retry.State] is
// under a key of its own in Redis, "retryasynq:" with the queue and the ID of the task,
// together with the Retried that belongs to it. A failure, the beginning of a retry, and a
// success after retries each cost one round trip more; a task that succeeds at once costs
// none. Attempts that asynq counts and the State does not know were lost. Each is a failure.
// If the key is gone, all of Retried counts, so a task ends in any case. asynq knows whole
// seconds: attempts are never early, and up to a second later than decided, plus
// DelayedTaskCheckInterval, which is 5 seconds by default.
//
// # How tasks end
//
// A task that is given up is archived with its error. The error of a panic has the stack.
// Enqueue tasks with [MaxRetry]: otherwise asynq archives them at its own limit. SkipRetry
// and RevokeTask work as before. An archived task that is run again by hand begins anew.
//
// # Crash, shutdown, and a new policy
//
// A task whose worker died runs again when its lease is found to be over, a minute or two
// later, and after the policy's wait. So does a task whose outcome Redis could not be told, also a
// success: asynq 0.26 does not tell it again. A shutdown costs no attempt: asynq puts back tasks
// that it ends by ShutdownTimeout, NonIdempotent or not, and they run again at once. A task
// under way follows a new policy from its next attempt on. If Redis is silent, the handler
// returns in 15 seconds after the work, with the timeouts that go-redis has by default.
//
// # What it cannot do
//
// asynq's own Timeout and Deadline, and the end of a Config.BaseContext, end an attempt
// without the handler: the Observer is not told, and the attempt is a failure without a
// class, even if the handler then succeeds. Use [retry.Policy.AttemptTimeout], below the
// Timeout, which is 30 minutes by default.
package retryasynq
