// Package retryexec runs commands under a [retry.Policy], and says of a failed
// command whether to run it again:
//
//	err := retryexec.Run(ctx, policy, retryexec.Command("git", "fetch"))
//
// [Run] and [Output] make a fresh [exec.Cmd] for every attempt, pass its output
// through while they keep the end of standard error, give it the same input again
// where they can, and kill the process with its group when the context ends. The
// decisions are those of the policy; this package adds what is particular to
// commands: what exit codes, signals and the end of standard error say.
//
// A [Profile], an ordered list of rules, holds that knowledge. [Default] is asked
// about every command, after the Classifier of the policy, which may be the profile
// of a program, such as [Curl], or one of your own. [Classify] and [ClassifyExit]
// judge failures without running anything, for commands that run elsewhere or under
// a policy of another kind.
package retryexec
