// Pool runs a graph of shell commands, and those that fail for a passing reason
// again:
//
//	go run .                     # a demonstration
//	go run . -config graph.yaml  # your own
//
// What happens goes to standard output; the audit log, one line of JSON for every
// attempt, to standard error. The exit code is 0 if all nodes are completed, 1 if
// not, 2 if there is nothing to run, and 130 after ^C.
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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second ^C ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code.
func run(ctx context.Context, args []string, out, audit io.Writer) int {
	flags := flag.NewFlagSet("pool", flag.ContinueOnError)
	flags.SetOutput(out)
	file := flags.String("config", "", "the `file` with the graph; without one, a demonstration")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	graph, config, err := load(*file, out)
	if err != nil {
		fmt.Fprintln(out, err)
		return 2
	}
	dir := "" // where the program was started
	if *file == "" {
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
	fmt.Fprintf(out, "%d completed, %d failed, %d skipped, %d canceled\n",
		completed, graph.count(Failed), graph.count(Skipped), canceled)
	switch {
	case canceled > 0:
		return 130
	case completed < len(config.Nodes):
		return 1
	default:
		return 0
	}
}

// load reads a configuration and makes a graph that tells out what happens.
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
