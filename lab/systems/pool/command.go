package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"regexp"

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

// shell returns a function that runs the command of a node once, and returns its standard
// output; the pool decides about retries. All that the command writes goes to out line by
// line, standard error too, of which an error has the last line alone. The command is
// killed with its group when the context ends, and with this program, where the system can.
func shell(out io.Writer) func(context.Context, *Node) (string, error) {
	return func(ctx context.Context, n *Node) (string, error) {
		stdout, stderr := &lines{out: out, node: n.Name}, &lines{out: out, node: n.Name}
		err := retryexec.Once(ctx, func(ctx context.Context) *exec.Cmd {
			cmd := exec.CommandContext(ctx, "sh", "-c", n.Command)
			cmd.Stdout, cmd.Stderr = stdout, stderr
			retryexec.KillWithParent(cmd) // or it would run on beside the next run of its node
			return cmd
		})
		stdout.end()
		stderr.end()
		return string(stdout.kept), err
	}
}

// lines writes whole lines, each after the name of a node, so that lines of nodes that run at once do
// not mix: a line is one Write to out, which takes several at once, as an os.File does.
type lines struct {
	out  io.Writer
	node string
	rest []byte // of a line that has not ended yet
	kept []byte // what was written, as much as may fill the memory
}

const (
	longestLine = 64 << 10 // longer ones are broken
	mostKept    = 1 << 20
)

func (l *lines) Write(p []byte) (int, error) {
	l.kept = append(l.kept, p[:min(len(p), mostKept-len(l.kept))]...)
	l.rest = append(l.rest, p...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok && len(line) < longestLine {
			return len(p), nil
		}
		if _, err := fmt.Fprintf(l.out, "%-10s | %s\n", l.node, line); err != nil {
			return 0, err
		}
		l.rest = rest
	}
}

// end writes a last line that has no end.
func (l *lines) end() {
	if len(l.rest) > 0 {
		fmt.Fprintf(l.out, "%-10s | %s\n", l.node, l.rest)
		l.rest = nil
	}
}
