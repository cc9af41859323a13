// Pool runs a graph of shell commands, and retries commands that fail for a transient
// reason; README.md has what it prints, and the exit codes.
//
//	go run . run -config graph.yaml
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/retryexec"
	"github.com/seed-5ff3c98e/retry/retryslog"
)

func main() { shared.Main(program(os.Stderr).Run) }

// program writes its audit log to audit.
func program(audit io.Writer) *shared.Program {
	return &shared.Program{
		Name: "pool", About: "runs a graph of shell commands, and retries those that fail for a transient reason.",
		Commands: []shared.Command{{Name: "run", About: "runs the graph of a file", Flags: func(flags *flag.FlagSet) shared.Action {
			file := flags.String("config", "", "the `file` with the graph")
			resume := flags.String("resume", "", "the `file` for what an interrupted run leaves to the next")
			return func(ctx context.Context, out io.Writer) error {
				graph, config, err := load(*file, *resume, out)
				if err != nil {
					return shared.Usage(err)
				}
				policy := config.Retry.Policy(newAudit(audit))
				policy.AttemptTimeout = seconds(config.TimeoutSeconds)
				fmt.Fprintf(out, "%v; workers: %v\n", policy, config.Workers)
				graph.Run(ctx, int(config.Workers), policy, shell(out))
				return conclude(graph, *resume, out)
			}
		}}},
	}
}

// conclude prints how the nodes have ended, and says if they are not all completed.
func conclude(graph *Graph, resume string, out io.Writer) error {
	n := graph.counts()
	fmt.Fprintf(out, "%d completed, %d failed, %d skipped, %d canceled\n", n[Completed], n[Failed], n[Skipped], n[Canceled])
	err := graph.progress.write(resume, n[Canceled] > 0)
	switch {
	case n[Canceled] > 0:
		return shared.Exit(130, errors.Join(errors.New("pool was interrupted"), err))
	case n[Failed]+n[Skipped] > 0:
		return errors.Join(errors.New("not all nodes were completed"), err)
	default:
		return err
	}
}

// load makes a graph that prints its changes to out.
func load(file, resume string, out io.Writer) (graph *Graph, config *Config, err error) {
	if file == "" {
		return nil, nil, errors.New(`-config: "": must be a file`)
	}
	text, err := os.ReadFile(file)
	if err == nil {
		config, err = parse(text)
	}
	if err != nil {
		return nil, nil, err
	}
	start := time.Now()
	graph, err = newGraph(config.Nodes, func(n *Node, s State, err error) {
		text := string(s)
		if err != nil {
			text += ": " + err.Error()
		}
		fmt.Fprintf(out, "%5.2fs  %-10s %s\n", time.Since(start).Seconds(), n.Name, text)
	})
	if err == nil {
		err = graph.progress.read(resume)
	}
	return graph, config, err
}

// newAudit returns the audit log: one line of JSON for every attempt of every
// node, successes too.
func newAudit(w io.Writer) *retry.Observer {
	json := slog.NewJSONHandler(w, &slog.HandlerOptions{ReplaceAttr: durationsAsText})
	node := func(ctx context.Context) []slog.Attr {
		return []slog.Attr{slog.String("node", ctx.Value(nodeKey{}).(*Node).Name)}
	}
	return retryslog.New(slog.New(json), &retryslog.Options{Succeeded: slog.LevelInfo, Attrs: node})
}

func durationsAsText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

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
