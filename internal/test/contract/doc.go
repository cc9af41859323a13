// Package contract compares what the documents promise about a policy with what every
// driver does. It has tests only.
//
// The model is written from the documents alone, slow and without a thought of how the
// drivers work: model_test.go is a policy, and loop_test.go the loops over it. A script
// has a random policy, what the attempts of an operation do, and when its context ends.
// The model and a driver write down every event of the script, with its instant, and
// both must write the same lines. Waits are exact where the random words are known, and
// otherwise within the range of the jitter. The drivers are the loops of packages retry, retryhttp,
// retrysql and retryexec, a Pool, a Stored, and a loop over Next.
//
// If a test fails, either the driver or a sentence of the documents is wrong.
//
// # What the documents leave open
//
// Here the model does what the drivers do:
//
//   - Several reasons to stop hold at once: Timeout is over, Final, NonIdempotent, the
//     attempts, MaxElapsed is over, MaxRetryAfter, the Backoff, a wait that ends too late,
//     the context's deadline, the Budget. The first counts.
//   - After progress, the number of the attempt, Error.Waited and Event.Elapsed start again.
//   - A failure whose error is not asked counts as a failed attempt.
//   - A free rate limit is never the last attempt, whatever the limit of its kind is.
//   - The default of MaxRetryAfter uses the MaxDelay of the failure's kind, and without
//     one the longest wait that a Constant or a Schedule has.
//   - A custom Backoff that says stop is heeded in spite of a hint, unless that is Exact.
//   - A wait of 0 gets no jitter.
//   - The addition to a hint crosses no limit of the policy either.
//   - Resumed operations: an attempt is begun after MaxElapsed, but not after Timeout.
//   - A response that comes after AttemptTimeout has the verdict of its status.
//   - Final responses with the statuses 408, 425, 429 and from 500 on are failures to an
//     Observer and a Budget.
//   - A job whose NonIdempotent attempt was lost, and whose Timeout is over, ends without
//     counting that attempt.
package contract
