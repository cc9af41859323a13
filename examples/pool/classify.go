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

// rules are those of the document: Retryable is its RETRIABLE, Final its
// NON_RETRIABLE. They contradict each other, so the order matters: a timeout says
// what ended the command, whatever that wrote before; then what is final.
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
	{Verdict: verdict(retry.Unknown, "")}, // retried, but not taken for Retryable
}

func verdict(class retry.Class, category string) retry.Verdict {
	return retry.Verdict{Class: class, Category: category}
}

// shell returns a function that runs the command of a node once: what follows is
// decided in the pool. It is killed with its group when the context ends, or after
// the timeout, if there is one.
func shell(dir string, stdout io.Writer, timeout time.Duration) func(context.Context, *Node) error {
	return func(ctx context.Context, n *Node) error {
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		return retryexec.Once(ctx, func(ctx context.Context) *exec.Cmd {
			cmd := exec.CommandContext(ctx, "sh", "-c", n.Command)
			cmd.Dir, cmd.Stdout = dir, stdout
			return cmd
		})
	}
}
