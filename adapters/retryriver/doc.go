// Package retryriver has River retry jobs as a [retry.Policy] says:
//
//	config := &river.Config{Queues: queues, Workers: workers}
//	if err := retryriver.Configure(config, policy); err != nil {
//		return err
//	}
//	client, err := river.NewClient(riverpgxv5.New(pool), config)
//
// Configure the clients that insert jobs too, and have workers without a NextRetry of
// their own. Then every failure is classified, hints of servers are heeded, and waits
// have jitter. [retry.Policy.AttemptTimeout], Budget and Observer work as in Execute;
// River's own JobTimeout stays beside AttemptTimeout, and an attempt that it ends is a
// failure like others.
//
// # What River counts, and where the State is
//
// River counts every attempt in the column attempt, but those that a snooze or a
// shutdown ended. The [retry.State] is in the job's metadata, under "retry_0" to "retry_7"
// in turns, with the attempt that it belongs to. It is written with the row's new state, in
// the same statement, so a retry costs no more round trips than before. River counts in the
// metadata how often it has rescued a job from a worker that died. Each time is a failure.
// A job that has failed before River was configured begins anew.
//
// # How jobs end
//
// A job whose error is [retry.Final] is cancelled, and one that was given up for another
// reason is discarded. River keeps the error text of both. So that River does not end a
// job first, its MaxAttempts are set to the most that fits when it is inserted. Jobs
// that were inserted with fewer are discarded after those.
//
// River's JobSnooze and JobCancel do what they did. A panic ends the job, one of the
// policy's Observer or Classifier too: it is discarded with its stack trace. A job that has
// ended, and that somebody has River retry, begins anew.
//
// # Crash, shutdown, and a new policy
//
// A job whose worker died runs again when River rescues it: after RescueStuckJobsAfter, an
// hour by default, and then the policy's wait. With a JobTimeout of -1 River never rescues
// it. If the policy is exhausted by then, or is NonIdempotent, since the attempt may have
// taken effect, the job ends without being run. A shutdown that cancels a job's context
// costs no attempt, with the exceptions of [retry.Call.Interrupted]: a failure of a
// NonIdempotent policy is judged. A job under way follows a new policy from its next
// failure on.
//
// # Lost connections
//
// River tries for half a minute to store an outcome. If it cannot, or if it has never heard
// of a job that it took, the job stays running until it is rescued, which is a failure. So
// an outage can use up the attempts of a job, which is then discarded with [retry.ErrLost],
// even one whose function has succeeded. A RescueStuckJobsAfter below a minute makes that
// likely. If the outcome arrives after the rescue, and is an end, the job ends without being
// run again. River stores an outcome again if it has not heard that it was stored, even if
// another attempt is running by then: the job may so be early, or run twice at the same
// time. Each attempt counts. TestOutage has connections break and go silent at random,
// TestOutcomeStoredAgain and TestEndNotStored have what comes of it.
//
// # What it cannot do
//
// Failures that do not reach the worker are River's: a job whose kind has no worker, or
// whose arguments cannot be decoded, is retried with the waits of the policy until the
// MaxAttempts of the job. When it then reaches one, it has all attempts of the policy.
// Times are compared by the clock of the database, so waits are shorter or longer by what
// the worker's clock differs.
package retryriver
