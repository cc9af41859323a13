// Package retryprometheus counts for Prometheus what a [retry.Policy] does. A
// [Collector] is a [prometheus.Collector], and has the Observer of the policies:
//
//	retries := retryprometheus.New(nil)
//	registry.MustRegister(retries)
//	policy := &retry.Policy{Name: "fetch", Observer: retries.Observer()}
//
// One Collector serves any number of policies, and everything that drives them: loops,
// HTTP, transactions, commands, pools, and jobs whose state is stored.
//
//			metric                               type       labels
//			retry_calls_total                    counter    policy, outcome, category
//			retry_attempts_total                 counter    policy
//			retry_retries_total                  counter    policy, category
//			retry_calls_waiting                  gauge      policy
//			retry_budget_balance                 gauge      budget
//			retry_quota_hold_seconds             gauge      quota
//			retry_quota_waiting                  gauge      quota
//			retry_quota_rate                     gauge      quota
//			retry_hold_seconds                   histogram  policy
//			retry_delay_seconds                  histogram  policy
//			retry_call_duration_seconds          histogram  policy
//
//	  - policy is the name of the policy.
//	  - outcome is "succeeded" for a success at the first attempt, "recovered" for one after
//	    retries, and otherwise the reason of the failure, a [retry.StopReason]: "attempts",
//	    "final", "deadline". outcome="budget" means that the budget refused a retry.
//	  - category is the kind of the last failure, such as "timeout" or "http_503"; its class
//	    if it has no category; and empty for a success, for an unknown failure, and
//	    if the context ended the call.
//	  - retry_retries_total counts when a retry is decided on, so an outage shows at once. A
//	    call whose context ends during a wait has one more retry than attempts were made.
//	  - retry_attempts_total counts all attempts of a call when it ends. For a job whose State
//	    is stored, these include attempts in other processes.
//	  - retry_calls_waiting is how many calls and tasks of pools wait in this process now.
//	    Operations whose State is stored wait elsewhere.
//	  - retry_budget_balance is how many retries a budget of [Options].Budgets would allow now,
//	    fractions included: below 1, the next retry is refused.
//	  - retry_quota_hold_seconds is the rest of the hold of a Quota of [Options].Quotas, retry_quota_waiting
//	    how many attempts wait for their turns in this process, and retry_quota_rate how many turns
//	    it gives in a second, once it knows of a limit.
//	  - retry_hold_seconds is how long a Quota of package retryquota has held all calls, once for each hold.
//	  - retry_delay_seconds has the waits before retries, retry_call_duration_seconds the time
//	    from the first attempt to the end.
//
// Names and labels will stay as they are. The number of series is bounded: after as many
// policies and categories as [Options] allow, further ones are counted as "other", because
// a category may be made from what a server sends.
//
// The files dashboard.json, for Grafana, and alerts.yaml, for Prometheus, use these
// metrics. They show and watch the share of retries, refusals of the budget, and calls
// that were given up.
//
// A call that succeeds at once costs no allocation here.
package retryprometheus
