// Package retrytemporal has a Temporal server retry activities as a [retry.Policy] says:
//
//	retries, err := retrytemporal.New(policy)
//	if err != nil {
//		return err
//	}
//	w := worker.New(client, "jobs", worker.Options{Interceptors: []interceptor.WorkerInterceptor{retries}})
//
// Activities and workflows stay as they are. Every failure is classified, hints of servers
// are heeded, and waits have jitter. [retry.Policy.AttemptTimeout], Budget and Observer
// work as in Execute. The server waits, from version 1.24.2 on: an earlier one does not
// know the delay of an error, and waits by the activity's RetryPolicy.
//
// # What Temporal counts, and where the State is
//
// Temporal counts every attempt of an activity. The [retry.State] is in the details of a
// heartbeat, before those of the activity, which does not see it; the server hands the
// last details to the next attempt. So a failure costs one round trip more. Attempts that
// the State does not know are those that were lost: their worker died, or a timeout of the
// server has ended them. Each is a failure. If the heartbeat fails, all attempts since the
// last one count.
//
// # How activities end
//
// An activity that is given up fails with an ApplicationError that is not retried, as
// does one that panics, or whose policy's Observer or Classifier does; the error has its
// stack. The Type and the Details are those of
// the ApplicationError that the activity has returned, or else the Type is the category
// of the failure, or its class. A failure that costs no attempt has the category Benign.
// An ApplicationError of the activity that is not retryable is Final, and its
// NextRetryDelay is a hint.
//
// The activity's RetryPolicy is for the attempts that are lost: after those, the server
// waits by it. An activity whose RetryPolicy has MaximumAttempts or
// NonRetryableErrorTypes fails with an error that names the setting: leave them empty.
// ScheduleToCloseTimeout ends an activity whatever the policy says.
//
// # Crash, shutdown, and a new policy
//
// An activity whose worker died runs again after its HeartbeatTimeout, or else after
// StartToCloseTimeout, and the wait of its RetryPolicy. If the policy is exhausted by
// then, or is NonIdempotent, since the attempt may have taken effect, the activity ends
// without being run. A worker that stops ends the contexts of activities after
// WorkerStopTimeout. One that fails then runs again after a second, and no attempt is
// counted, with the exceptions of [retry.Call.Interrupted]: a failure of a NonIdempotent
// policy is judged. Close the client after that. An activity under way follows a new
// policy from its next failure on.
//
// # What it cannot do
//
// StartToCloseTimeout ends attempts without a failure that the policy sees: set
// AttemptTimeout to less. Activities that complete asynchronously are not retried by the
// policy, nor are local activities and child workflows. The heartbeats of an activity are
// sent at intervals; if one waits when the worker stops, that attempt counts.
package retrytemporal
