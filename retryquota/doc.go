// Package retryquota gives the calls that share a limit their turns, in one order for all: calls that
// wait, tasks of a pool, jobs of a table or an engine.
//
// A [Quota] learns the limit from the answers. [Keys] has a Quota for each tenant, key or host. A
// [Line] has a limiter of your own in place of what a Quota learns. Each is a [retry.Pacer], for the
// field Quota of a policy.
//
// docs/quota.md says what holds, who waits where, and has figures. Three parts make a Quota: the
// machine, a pure function of time and answers, in internal/pace; the line, in line.go; and the keys.
package retryquota
