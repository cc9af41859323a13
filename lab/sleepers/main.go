// Command sleepers measures calls that wait for their retry:
//
//	sleepers     bytes of each of 100,000 calls asleep in their first wait
//	pool-none    bytes of each of 1,000,000 tasks of retrypool that wait, whose
//	             contexts cannot be canceled
//	pool-shared  likewise, and all have one context
//	pool-own     likewise, and each has its own
//	cancel       10,000 calls asleep, and one cancel: until all have returned, and
//	             the goroutines left then; the median of five
//	accuracy     300 waits of 10ms in turn: how late the next attempt comes
//
// Every contestant has a process of its own for every measurement, so that none
// sleeps on stacks that another has grown. Rounds are interleaved. The output is in
// the format of Go benchmarks:
//
//	go run ./sleepers -rounds 5 > raw/sleepers.txt
//	go run ./sleepers -what 'pool.*|cancel' -only 'hand|retry'
//
// Nothing but a small closure is beneath a call, so that one that needs little has
// room on the 2 KiB of stack that a goroutine starts with. Where a caller's own
// frames take some hundred bytes more, every contestant needs 4 KiB.
//
// Bytes are the growth of what runtime.MemStats calls HeapAlloc and StackInuse,
// after two collections: stacks, goroutines, timers, what the call has allocated.
// The contexts of the pool's tasks are made before, and so are not in it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

func main() {
	if child(os.Stdout) {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sleepers:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}

// run starts a process for every measurement of every round.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("sleepers", flag.ContinueOnError)
	rounds := flags.Int("rounds", 1, "how often everything is measured")
	n := flags.Int("n", 0, "how many sleepers, tasks or waits; 0 means as documented")
	what := flags.String("what", ".*", "`regexp` of the whole names of measurements")
	only := flags.String("only", ".*", "`regexp` of the whole names of contestants")
	if err := flags.Parse(args); err != nil {
		return err
	}
	whats, err := names(*what)
	if err != nil {
		return err
	}
	onlys, err := names(*only)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "go: %s\ngoos: %s\ngoarch: %s\npkg: github.com/seed-5ff3c98e/retry/lab/sleepers\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for range *rounds {
		for _, m := range measurements {
			if !whats.MatchString(m.name) {
				continue
			}
			for _, by := range m.peers() {
				if !onlys.MatchString(by) {
					continue
				}
				if err := start(ctx, out, m.name, by, *n); err != nil {
					return fmt.Errorf("%s by %s: %w", m.name, by, err)
				}
			}
		}
	}
	return nil
}

// names compiles a regexp for whole names: retry is not also retry-go-v4.
func names(expr string) (*regexp.Regexp, error) {
	return regexp.Compile("^(?:" + expr + ")$")
}

// task is the environment variable that tells a process to measure.
const task = "RETRY_SLEEPERS_TASK"

// start runs this program again, to measure one thing.
func start(ctx context.Context, out io.Writer, what, by string, n int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), task+"="+strings.Join([]string{what, by, strconv.Itoa(n)}, " "))
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	return cmd.Run()
}

// child measures, if that is what the process is for.
func child(out io.Writer) bool {
	var what, by string
	var n int
	if _, err := fmt.Sscan(os.Getenv(task), &what, &by, &n); err != nil {
		return false
	}
	if err := measure(what, by, n, out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}
