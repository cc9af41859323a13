package main

import (
	"context"
	"io"
	"os/exec"
	"regexp"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

// rules are the required rules: Retryable is RETRIABLE, Final is NON_RETRIABLE.
// They contradict each other, so the order matters: first a timeout, because it
// ended the command, whatever the command wrote before; then the final rules.
var rules = retryexec.Profile{
	{Err: context.DeadlineExceeded, Verdict: verdict(retry.Retryable, "timeout")},
	{
		Stderr:  regexp.MustCompile(`permission denied|invalid|not found`),
		Verdict: verdict(retry.Final, "stderr_final"),
	},
	{MinCode: 2, Verdict: verdict(retry.Final, "")},
	{
		Stderr:  regexp.MustCompile(`timeout|rate limit|connection`),
		Verdict: verdict(retry.Retryable, "stderr_transient"),
	},
	{Codes: []int{1}, Verdict: verdict(retry.Retryable, "")},
	{Verdict: verdict(retry.Unknown, "")}, // retried, but not called Retryable
}

func verdict(class retry.Class, category string) retry.Verdict {
	return retry.Verdict{Class: class, Category: category}
}

// shell returns a function that runs the command of a node once; the pool decides
// about retries. All that the command writes goes to out, standard error too, because
// the cause of a failure is seldom the last line, which is what the error has. The
// command is killed with its group when the context ends, or after the timeout, if there
// is one.
func shell(dir string, out io.Writer, timeout time.Duration) func(context.Context, *Node) error {
	return func(ctx context.Context, n *Node) error {
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		return retryexec.Once(ctx, func(ctx context.Context) *exec.Cmd {
			cmd := exec.CommandContext(ctx, "sh", "-c", n.Command)
			cmd.Dir, cmd.Stdout = dir, out
			cmd.Stderr = struct{ io.Writer }{out} // another writer, so that the rules see it alone
			return cmd
		})
	}
}
