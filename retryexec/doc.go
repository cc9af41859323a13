// Package retryexec runs commands under a [retry.Policy], and tells whether a
// failed command may be run again:
//
//	err := retryexec.Run(ctx, policy, retryexec.Command("git", "fetch"))
//
// [Run] and [Output] make a fresh [exec.Cmd] for every attempt, pass its output
// through, keep both ends of standard error, give the command the same input again
// if they can, and kill the process with its group when the context ends. The
// policy decides. This package classifies exit codes, signals and the end of
// standard error.
//
// A [Profile] is an ordered list of rules for this. [Default] is asked about every
// command, after the Classifier of the policy. That Classifier may be the profile of a
// program, such as [Curl], or your own profile. [Classify] and [ClassifyExit]
// classify failures without running anything, for commands that run elsewhere.
package retryexec
