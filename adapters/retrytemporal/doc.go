// Package retrytemporal lets a [retry.Policy] decide when a Temporal server retries an activity:
//
//	retries := &retrytemporal.Retries{Policy: policy}
//	options := worker.Options{}
//	if err := retries.Configure(&options); err != nil {
//		panic(err)
//	}
//	w := worker.New(c, "jobs", options)
//
// Every failure is classified, hints of servers are followed, and waits have jitter.
// [retry.Policy.AttemptTimeout] works as in Execute; the Observer is told of an outcome before
// the server stores it; no Budget is asked.
//
// The server must be of version 1.24.2 or later: an earlier one does not know the delay of an
// error, and waits by the activity's RetryPolicy.
//
// # What Temporal counts, and where the State is
//
// Temporal counts every attempt of an activity. The [retry.State] is in the details of a
// heartbeat, behind the activity's own details; the activity does not see it, and a workflow
// that reads LastHeartbeatDetails need not. The server hands the last heartbeat to the next
// attempt. So a failure costs one round trip more. Attempts that the State does not know were
// lost, with their worker, by a timeout of the server, or because the heartbeat failed. Each is
// a failure. Those of a worker without this adapter count as such too.
//
// An activity that somebody resets begins anew. One that is paused while it runs, and returns
// an error because its context has ended, has not used an attempt.
//
// # How activities end
//
// An activity that is given up fails with an ApplicationError that is not retried. The error
// of a panic has the stack. Type and Details are those of the ApplicationError that the
// activity has returned. Without one, the Type is the category of the failure, or its class.
// Its text is cut after 8 KiB, and it has no Cause.
// A failure that costs no attempt has the category Benign. An ApplicationError of the
// activity is Final if it is not retryable; otherwise its NextRetryDelay is a hint. Under a
// NonIdempotent policy only a mark or the Classifier says that an attempt had no effect.
//
// # Crash, shutdown, and a new policy
//
// An activity whose worker died runs again after its HeartbeatTimeout, or else
// StartToCloseTimeout, and the wait of its RetryPolicy, which only lost attempts use. A
// RetryPolicy with MaximumAttempts or NonRetryableErrorTypes fails the activity. A stopping
// worker ends the contexts of activities after WorkerStopTimeout. A failure then costs no
// attempt, except for the failures in [retryjob.Stored]. A new policy counts from the next attempt.
//
// The State has 5 seconds to reach the server: if that is silent, the attempt ends in that time
// after the activity. The SDK's Stop takes 10 seconds then.
//
// # What it cannot do
//
// ScheduleToCloseTimeout ends an activity, and StartToCloseTimeout an attempt, without the
// policy: set AttemptTimeout to less. The policy does not retry local activities, activities
// that complete asynchronously, child workflows, and the activities with which the SDK makes
// sessions.
package retrytemporal
