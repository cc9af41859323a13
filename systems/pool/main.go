// Pool runs a graph of shell commands, and retries commands that fail for a transient
// reason; README.md has what it prints, and the exit codes.
//
//	go run . demo
//	go run . run -config graph.yaml
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

const usage = `pool runs a graph of shell commands, and retries those that fail for a transient reason.

  pool run    runs the graph of a file; pool run -h lists its flags
  pool demo   runs demo.yaml, of which three nodes fail on purpose
`

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
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	command, args := append(args, "")[0], args[min(len(args), 1):]
	flags := flag.NewFlagSet("pool "+command, flag.ContinueOnError)
	flags.SetOutput(errs)
	file, resume := "", ""
	switch command {
	case "demo":
	case "run":
		flags.StringVar(&file, "config", "", "the `file` with the graph")
		flags.StringVar(&resume, "resume", "", "the `file` for what an interrupted run leaves to the next")
	case "-h", "-help", "--help", "help":
		fmt.Fprint(out, usage)
		return 0
	default:
		fmt.Fprint(errs, usage)
		return 2
	}
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil: // it was told
	case flags.NArg() > 0:
		fmt.Fprintf(errs, "unexpected argument: %q\n", flags.Arg(0))
	case command == "run" && file == "":
		fmt.Fprintln(errs, `-config: "": must be a file`)
	default:
		return runGraph(ctx, file, resume, out, errs)
	}
	return 2
}

// runGraph runs the graph of a file, or of the demonstration.
func runGraph(ctx context.Context, file, resume string, out, errs io.Writer) int {
	graph, config, err := load(file, resume, out)
	dir, isDemo := "", file == "" // commands run where the program was started
	if err == nil && isDemo {
		dir, err = os.MkdirTemp("", "pool-")
		defer os.RemoveAll(dir)
	}
	if err != nil {
		fmt.Fprintln(errs, err)
		return 2
	}
	policy := config.Retry.Policy(newAudit(errs))
	fmt.Fprintf(out, "%v; workers: %v\n", policy, config.Workers)
	graph.Run(ctx, int(config.Workers), policy, shell(dir, out, seconds(config.TimeoutSeconds)))

	completed, canceled := graph.count(Completed), graph.count(Canceled)
	end := fmt.Sprintf("%d completed, %d failed, %d skipped, %d canceled",
		completed, graph.count(Failed), graph.count(Skipped), canceled)
	fmt.Fprintln(out, end)
	if err := graph.progress.write(resume, canceled > 0); err != nil {
		fmt.Fprintln(errs, err)
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

// load makes a graph that prints its changes to out.
func load(file, resume string, out io.Writer) (*Graph, *Config, error) {
	text, err := demo, error(nil)
	if file != "" {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, nil, err
	}
	config, err := parse(text)
	if err != nil {
		return nil, nil, err
	}
	start, color := time.Now(), isTerminal(out)
	graph, err := newGraph(config.Nodes, func(n *Node, s State, err error) {
		text := string(s)
		if err != nil {
			text += ": " + err.Error()
		}
		fmt.Fprintf(out, "%5.2fs  %s %s\n", time.Since(start).Seconds(), label(n.Name, color), text)
	})
	if err == nil {
		graph.progress, err = readProgress(resume)
	}
	return graph, config, err
}
