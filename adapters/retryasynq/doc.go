// Package retryasynq has asynq retry tasks as a [retry.Policy] says:
//
//	retries, err := retryasynq.New(redis, policy)
//	if err != nil {
//		return err
//	}
//	defer retries.Close()
//	config := asynq.Config{Concurrency: 10}
//	if err := retries.Configure(&config); err != nil {
//		return err
//	}
//	err = asynq.NewServer(redis, config).Run(retries.Handler(mux))
//
// and, where tasks are enqueued:
//
//	_, err := client.Enqueue(task, retryasynq.MaxRetry())
//
// Then every failure is classified, hints of servers are heeded, and waits have jitter.
// [retry.Policy.AttemptTimeout], Budget and Observer work as in Execute.
//
// # What asynq counts, and where the State is
//
// asynq counts in Retried every failure and every worker that died. The [retry.State] is
// under a key of its own in Redis, "retryasynq:" with the queue and the ID of the task,
// together with the Retried that belongs to it: asynq itself has no place for it. A
// failure costs one round trip more, and so does the beginning of a retry and a success
// after retries; a task that succeeds at once costs none. What asynq counts and the
// State does not know are attempts that were lost. Each is a failure. If the key is
// gone, all of Retried counts, and so a task ends in any case.
//
// # How tasks end
//
// A task that is given up is archived, with the error. asynq archives a task itself when
// its MaxRetry is reached, rate limits included, whatever the policy says: hence
// [MaxRetry]. The error of a task that ended by a MaxRetry of its own says so. SkipRetry
// and RevokeTask do what they did. A panic ends the task, one of the policy's
// Observer or Classifier too; the error has its stack. An archived task that is run again
// by hand begins anew.
//
// asynq knows whole seconds: attempts are never early, and up to a second later than
// decided, and later by DelayedTaskCheckInterval, which is 5 seconds by default.
//
// # Crash, shutdown, and a new policy
//
// A task whose worker died runs again when its lease is found to be over, a minute or
// two after the crash, and after the policy's wait. If the policy is exhausted by then,
// or is NonIdempotent, since the attempt may have taken effect, the task is archived
// without being run. A shutdown costs no attempt: asynq puts tasks back that are in
// progress at the end of ShutdownTimeout, and they run again at once. A failure that is
// just being written then may be forgotten. A task under way follows a new policy from
// its next failure on.
//
// # What it cannot do
//
// asynq's own Timeout and Deadline end an attempt behind the back of every handler, even
// one that then succeeds: the Observer is not told, the attempt counts as a failure
// without being classified, and the wait is that of the Policy for so many failures. So
// does a Config.BaseContext that ends. Use [retry.Policy.AttemptTimeout], below the
// Timeout, which is 30 minutes by default. Likewise, a NonIdempotent policy cannot keep
// asynq from running a task again after a shutdown.
package retryasynq
