// Package drivers tests that all drivers of a [retry.Policy] do the same: the loops of
// packages retry, retryhttp, retrysql and retryexec, a retrypool.Pool, and a job whose
// state is stored between attempts. It has tests only.
//
// One generator makes a random policy and a script of outcomes. Each driver runs the
// script, and the test compares its attempts, waits, verdicts and end with
// [retry.Policy.Execute].
package drivers
