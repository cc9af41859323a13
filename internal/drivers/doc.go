// Package drivers tests that everything that drives a [retry.Policy] does the same:
// the loops of packages retry, retryhttp, retrysql and retryexec, a retrypool.Pool, and
// a job whose state is stored between attempts. It has tests only.
//
// One generator makes a random policy and a script of what happens under it. Each
// driver runs the script, and its attempts, waits, verdicts and end are compared with
// those of [retry.Policy.Execute].
package drivers
