package retryexec_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// The output goes to the output of the program.
func ExampleRun() {
	policy := &retry.Policy{
		Name:           "list",
		MaxAttempts:    5,
		AttemptTimeout: time.Minute,
	}
	err := retryexec.Run(context.Background(), policy, retryexec.Command("go", "list", "errors"))
	fmt.Println(err)
	// Output:
	// errors
	// <nil>
}

// A command with a directory of its own and without output. The error has the end
// of its standard error.
func ExampleRun_cmd() {
	policy := &retry.Policy{Name: "go"}
	err := retryexec.Run(context.Background(), policy, func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "go", "fetch") // each attempt has its own
		cmd.Dir = os.TempDir()
		return cmd
	})
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		fmt.Printf("exit code %d: %s", exit.ExitCode(), exit.Stderr)
	}
	// Output:
	// exit code 2: go fetch: unknown command
	// Run 'go help' for usage.
}

func ExampleOutput() {
	out, err := retryexec.Output(context.Background(), nil, retryexec.Command("go", "env", "GOOS"))
	fmt.Println(strings.TrimSpace(string(out)) == runtime.GOOS, err)

	_, err = retryexec.Output(context.Background(), nil, retryexec.Command("no-such-program"))
	fmt.Println(errors.Is(err, exec.ErrNotFound)) // at once, and not after three attempts
	// Output:
	// true <nil>
	// true
}

// A policy that runs other operations too.
func ExampleOnce() {
	policy := &retry.Policy{Classifier: retryexec.Classify, Clock: &retrytest.Clock{}}
	err := policy.Execute(context.Background(), func(ctx context.Context) error {
		return retryexec.Once(ctx, retryexec.Command("no-such-program"))
	})
	fmt.Println(errors.Is(err, exec.ErrNotFound))
	// Output: true
}

// A command with more than a name and arguments.
func ExampleCommand() {
	err := retryexec.Run(context.Background(), nil, func(ctx context.Context) *exec.Cmd {
		cmd := retryexec.Command("go", "env", "GOOS")(ctx)
		cmd.Env = append(os.Environ(), "GOOS=plan9")
		return cmd
	})
	fmt.Println(err)
	// Output:
	// plan9
	// <nil>
}

func ExampleRun_fetch() {
	ctx, policy := context.Background(), &retry.Policy{Clock: &retrytest.Clock{}}
	fetch := func() error {
		err := retryexec.Run(ctx, policy, retryexec.Command("git", "fetch"))
		return err
	}
	_ = fetch // where there is a repository
	// Output:
}
