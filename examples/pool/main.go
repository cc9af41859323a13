// Pool runs a graph of shell commands, and retries commands that fail for a
// transient reason:
//
//	go run .                     # a demonstration
//	go run . -config graph.yaml  # your own
//	go run . -config graph.yaml -resume graph.state
//
// Changes of states go to standard output; the audit log, one line of JSON for every
// attempt, goes to standard error. The exit code is 0 if all nodes are completed, 1 if
// not, 2 if there is nothing to run, and 130 after ^C. With -resume, the next run goes on
// where ^C ended this one. Some nodes of the demonstration
// fail on purpose: its exit code is 0 if exactly these fail.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

//go:embed demo.yaml
var demo []byte

// demoEnd is the expected end of the demonstration.
const demoEnd = "4 completed, 3 failed, 2 skipped, 0 canceled"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second ^C ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code.
func run(ctx context.Context, args []string, out, audit io.Writer) int {
	flags := flag.NewFlagSet("pool", flag.ContinueOnError)
	flags.SetOutput(out)
	file := flags.String("config", "", "the `file` with the graph; without any argument there is a demonstration")
	resume := flags.String("resume", "", "the `file` for what an interrupted run leaves to the next")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	isDemo := len(args) == 0
	switch {
	case flags.NArg() > 0:
		fmt.Fprintf(out, "unexpected argument: %q; the file with the graph is given with -config\n", flags.Arg(0))
		return 2
	case *file == "" && !isDemo:
		fmt.Fprintln(out, "-config: \"\": must be a file")
		return 2
	}
	graph, config, err := load(*file, out)
	if err != nil {
		fmt.Fprintln(out, err)
		return 2
	}
	if progress, err := readProgress(*resume); err != nil {
		fmt.Fprintln(out, err)
		return 2
	} else if progress != nil {
		graph.progress = progress
	}
	dir := "" // where the program was started
	if isDemo {
		if dir, err = os.MkdirTemp("", "pool-"); err != nil {
			fmt.Fprintln(out, err)
			return 2
		}
		defer os.RemoveAll(dir)
	}

	policy := config.Retry.Policy(newAudit(audit))
	fmt.Fprintf(out, "%v; workers: %v\n", policy, config.Workers)
	graph.Run(ctx, int(config.Workers), policy, shell(dir, out, seconds(config.TimeoutSeconds)))

	completed, canceled := graph.count(Completed), graph.count(Canceled)
	end := fmt.Sprintf("%d completed, %d failed, %d skipped, %d canceled",
		completed, graph.count(Failed), graph.count(Skipped), canceled)
	fmt.Fprintln(out, end)
	if err := graph.progress.write(*resume, canceled > 0); err != nil {
		fmt.Fprintln(out, err)
	}
	switch {
	case canceled > 0:
		return 130
	case isDemo && end == demoEnd:
		fmt.Fprintln(out, "the demonstration is over: what failed was meant to")
		return 0
	case completed < len(config.Nodes):
		return 1
	default:
		return 0
	}
}

// load reads a configuration and makes a graph that prints its changes to out.
func load(file string, out io.Writer) (*Graph, *Config, error) {
	text := demo
	if file != "" {
		var err error
		if text, err = os.ReadFile(file); err != nil {
			return nil, nil, err
		}
	}
	config, err := parse(text)
	if err != nil {
		return nil, nil, err
	}
	start := time.Now()
	graph, err := newGraph(config.Nodes, func(n *Node, s State, err error) {
		fmt.Fprintf(out, "%5.2fs  %-10s %s", time.Since(start).Seconds(), n.Name, s)
		if err != nil {
			fmt.Fprintf(out, ": %v", err)
		}
		fmt.Fprintln(out)
	})
	return graph, config, err
}
