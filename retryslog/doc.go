// Package retryslog logs the events of a [retry.Policy] to [log/slog]:
//
//	policy := &retry.Policy{Observer: retryslog.New(nil, nil)}
//
// Every event of a call is one record with one of these messages:
//
//   - "retrying": an attempt failed, and another one follows after delay.
//   - "gave up": the call failed.
//   - "recovered": the call succeeded after retries.
//   - "succeeded": the call succeeded at once. It is not logged unless
//     [Options] ask for it.
//
// The attributes have these names, and will keep them:
//
//   - policy: the name of the policy, if it has one.
//   - attempt: the number of the attempt, from 1; 0 if there was none.
//   - progress (retrying, gave up): true if the attempt made progress before it failed:
//     attempt and elapsed have begun again with this failure. Otherwise it is missing.
//   - delay (retrying): the wait that follows.
//   - class (retrying, gave up): "unknown", "final", "retryable", "rate_limited" or
//     "pending". It is missing where the context ended the call.
//   - category (retrying, gave up): the kind of the failure, if it is known,
//     such as "timeout" or "http_503".
//   - stop (gave up): the reason, such as "attempts" or "deadline"; see
//     [retry.StopReason].
//   - retry_after (retrying, gave up): the server's hint, or the wait that the
//     budget refused, if there is one.
//   - elapsed: the time since the first attempt began, or since the last progress.
//   - error (retrying, gave up): the text of the error, without the secrets that
//     [Redact] knows, and up to 64 KiB of it.
//   - suppressed: how many lines of this kind were left out since the last one, if
//     [Options] have an Interval and there were any.
//
// The attributes that Options.Attrs returns come last.
package retryslog
