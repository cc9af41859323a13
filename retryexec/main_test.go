package retryexec_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

func TestMain(m *testing.M) {
	if script, ok := os.LookupEnv(childEnv); ok {
		os.Exit(child(script))
	}
	retryexec.SetPipeDelay(2 * time.Second)
	os.Exit(m.Run())
}

// childEnv makes the test binary a command that does what its value says.
const childEnv = "RETRYEXEC_CHILD"

// child obeys a script: words to standard output (out:…) and standard error
// (err:…, fill:… bytes), and an exit code (exit:…); copy copies standard input,
// hang never ends.
func child(script string) int {
	for line := range strings.Lines(script) {
		_, script, _ = strings.Cut(script, "\n")
		verb, arg, _ := strings.Cut(strings.TrimSpace(line), ":")
		n, _ := strconv.Atoi(arg)
		switch verb {
		case "out":
			fmt.Println(arg)
		case "err":
			fmt.Fprintln(os.Stderr, arg)
		case "fill":
			fmt.Fprint(os.Stderr, strings.Repeat("x", n))
		case "copy":
			_, _ = io.Copy(os.Stdout, os.Stdin)
		case "hang":
			time.Sleep(time.Hour) // an empty select would be a deadlock
		case "exit":
			return n
		case "run", "once", "output", "mortal":
			return parent(verb, script)
		}
	}
	return 0
}

// parent runs the test binary by way of Command, and prints what Output returns.
func parent(verb, script string) int {
	_ = os.Setenv(childEnv, script)
	newCmd := retryexec.Command(os.Args[0])
	var err error
	switch verb {
	case "run":
		err = retryexec.Run(context.Background(), &retry.Policy{MaxAttempts: 1}, newCmd)
	case "once":
		err = retryexec.Once(context.Background(), newCmd)
	case "mortal":
		err = retryexec.Once(context.Background(), with(newCmd, func(cmd *exec.Cmd) { retryexec.KillWithParent(cmd) }))
	case "output":
		var out []byte
		out, err = retryexec.Output(context.Background(), &retry.Policy{MaxAttempts: 1}, newCmd)
		fmt.Printf("output %q\n", out)
	}
	if err != nil {
		fmt.Println("error:", err)
	}
	return 0
}

// command makes the test binary run a script.
func command(ctx context.Context, script ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = environ(script...)
	return cmd
}

// environ is the environment in which the test binary runs a script.
func environ(script ...string) []string {
	// The race detector would let every child sleep for a second at its end.
	return append(os.Environ(), "GORACE=atexit_sleep_ms=0", childEnv+"="+strings.Join(script, "\n"))
}

// scripts makes one command after the other, the last of them again and again.
func scripts(list ...[]string) func(context.Context) *exec.Cmd {
	attempt := 0
	return func(ctx context.Context) *exec.Cmd {
		script := list[min(attempt, len(list)-1)]
		attempt++
		return command(ctx, script...)
	}
}

// commands makes the same command again and again.
func commands(script ...string) func(context.Context) *exec.Cmd { return scripts(script) }

// with prepares every command that newCmd makes.
func with(newCmd func(context.Context) *exec.Cmd, prepare func(cmd *exec.Cmd)) func(context.Context) *exec.Cmd {
	return func(ctx context.Context) *exec.Cmd {
		cmd := newCmd(ctx)
		prepare(cmd)
		return cmd
	}
}

// untilItWrites runs a command until it writes to standard output, when the context ends.
func untilItWrites(t *testing.T, newCmd func(context.Context) *exec.Cmd, prepare func(cmd *exec.Cmd)) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	return retryexec.Run(ctx, nil, with(newCmd, func(cmd *exec.Cmd) {
		cmd.Stdout = onWrite(func([]byte) { cancel() })
		prepare(cmd)
	}))
}
