// Package retryriver lets a [retry.Policy] decide when River retries a job:
//
//	retries := &retryriver.Retries{Policy: policy}
//	if err := retries.Configure(config); err != nil {
//		panic(err)
//	}
//	client, err := river.NewClient(riverpgxv5.New(pool), config)
//
// Every failure is classified, hints of servers are followed, and waits have jitter.
// [retry.Policy.AttemptTimeout] works as in Execute; the Observer is told of an outcome before
// River stores it; no Budget is asked.
//
// Configure the clients that insert jobs too. Workers must not have a NextRetry of their
// own. An attempt that River's JobTimeout ends is a failure like others.
//
// # What River counts, and where the State is
//
// River counts every attempt in the column attempt, except those that a snooze or a shutdown
// ended. The [retry.State] is in the job's metadata, under "retry_0" to "retry_7" in turns,
// and is written with the row's new state, so a retry costs no extra round trip. Each rescue
// of a job from a worker that died is a failure. A job that has failed before River was
// configured begins anew.
//
// # How jobs end
//
// A job whose error is [retry.Final] is cancelled. A job that panics, or is given up for
// another reason, is discarded. The error of a panic has its stack. Jobs are inserted with
// the largest MaxAttempts that fits, so that River does not end them first; a job that was
// inserted with fewer is discarded after those. JobSnooze and JobCancel work as before. A job
// that has ended, and that is retried by hand, begins anew.
//
// # Crash, shutdown, and a new policy
//
// A job whose worker died runs again when River rescues it: after RescueStuckJobsAfter, an
// hour by default, and then the policy's wait. With a JobTimeout of -1, River never rescues
// it. A shutdown that cancels a job's context costs no attempt; [retryjob.Stored] says which
// failures are still judged. A job under way follows a new policy from its next attempt on.
//
// # Lost connections
//
// River tries for half a minute to store an outcome. If it cannot, or if the answer that gave
// it the job was lost, the job is rescued later. That is a failure, even if the job had
// succeeded; a RescueStuckJobsAfter below a minute makes it likely. River may store an
// outcome again while another attempt runs: the job may then be early, or run twice at the
// same time. Each attempt counts.
//
// # What it cannot do
//
// River decides about failures that do not reach the worker: a job whose kind has no worker
// or no policy, or whose arguments cannot be decoded, is retried until its MaxAttempts, with
// the waits of the policy, or of the zero Policy. The worker's clock says when a job is due,
// and the database compares that with its own clock.
package retryriver
