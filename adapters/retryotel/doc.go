// Package retryotel tells OpenTelemetry what a [retry.Policy] does: events in the
// caller's span, spans of attempts if wanted, and metrics.
//
//	observer, err := retryotel.New(nil) // of the global providers
//	if err != nil {
//		panic(err)
//	}
//	policy := &retry.Policy{Name: "fetch", Observer: observer}
//
// One Observer serves any number of policies, and everything that drives them: loops,
// HTTP, transactions, commands, pools, and jobs whose state is stored.
//
// # Spans
//
// The span in the context of a call gets an event "retry" for every retry, with these
// attributes, and an event "retry.gave_up" if the call is given up for another reason than
// a final error:
//
//	retry.policy       the name of the policy
//	retry.attempt      the number of the attempt that failed, from 1
//	retry.progress     true if the attempt made progress before it failed, so that
//	                   attempts are counted from it on
//	retry.class        the class of the failure: "retryable", "rate_limited", or "unknown",
//	                   also if the context ended the call and no classifier was asked
//	retry.delay        the wait in seconds; of "retry" only
//	retry.stop_reason  the reason; of "retry.gave_up" only, a [retry.StopReason]
//	error.type         the category of the failure, such as "timeout" or "http_503"
//	exception.message  its text, without the secrets that [retryslog.Redact] knows
//
// With [Options].Spans every attempt has a span, a child of the caller's, with
// retry.attempt and error.type, which is "_OTHER" there, because nobody has classified
// the failure yet. Its status has the text of the error, redacted likewise. Spans of calls
// that the attempt makes are its children. The semantic conventions have no span for a call
// that is retried, and ask for one for each HTTP request and each gRPC attempt:
// instrumentation of HTTP and gRPC makes such spans, and does not need this one. If the
// attempt itself is the request, [HTTPAttributes] and [GRPCAttributes] give its span the
// number by the conventions of HTTP and gRPC.
//
// # Metrics
//
//	instrument            kind                unit       attributes
//	retry.calls           counter             {call}     retry.policy, retry.outcome, error.type
//	retry.attempts        counter             {attempt}  retry.policy
//	retry.retries         counter             {retry}    retry.policy, error.type
//	retry.calls.waiting   up-down counter     {call}     retry.policy
//	retry.budget.balance  gauge               {retry}    retry.budget
//	retry.quota.hold      gauge               s          retry.quota
//	retry.quota.waiting   gauge               {attempt}  retry.quota
//	retry.quota.rate      gauge               {turn}/s   retry.quota
//	retry.delay           histogram           s          retry.policy
//	retry.hold            histogram           s          retry.policy
//	retry.call.duration   histogram           s          retry.policy
//
// retry.outcome is "succeeded", "recovered" (a success after retries), or the reason of the
// failure, a [retry.StopReason]. Attempts are counted when a call ends, retries when they
// are decided on. retry.calls.waiting counts the calls and the tasks of pools that wait
// in this process now; operations whose State is stored wait elsewhere.
//
// retry.hold is how long a Quota of package retryquota has held all calls, once for each hold.
//
// The balance of a budget of [Options].Budgets is how many retries it would allow now,
// fractions included: below 1, the next retry is refused. Of a Quota of [Options].Quotas, there is the
// rest of its hold, how many attempts wait for their turns in this process, and how many turns it
// gives in a second, once it knows of a limit.
//
// error.type is the category of the last failure, or its class if it has none; it is
// missing after a success, for an unknown failure, and if the context ended the
// call. A call that succeeds at once costs no allocation here.
//
// The number of series is bounded: after 100 policies and 100 categories, or as many as
// Options allow, further ones are "_OTHER".
//
// There is no convention for the metrics of retries in general. The nearest are those of
// gRPC, grpc.client.call.retries and grpc.client.call.retry_delay.
//
//   - https://opentelemetry.io/docs/specs/semconv/http/http-spans/#http-request-retries-and-redirects
//   - https://github.com/grpc/proposal/blob/master/A96-retry-otel-stats.md
//   - https://github.com/grpc/proposal/blob/master/A72-open-telemetry-tracing.md
package retryotel
