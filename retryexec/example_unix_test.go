//go:build unix

package retryexec_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// The first attempt reads the input and fails. The second one reads it again.
func ExampleRun_input() {
	policy := &retry.Policy{Clock: &retrytest.Clock{}} // it does not wait in a test
	orders, attempts := strings.NewReader("pears\napples\n"), 0
	err := retryexec.Run(context.Background(), policy, func(ctx context.Context) *exec.Cmd {
		attempts++
		cmd := retryexec.Command("sh", "-c", "echo attempt $N; sort; [ $N = 2 ]")(ctx)
		cmd.Env = append(os.Environ(), fmt.Sprint("N=", attempts))
		cmd.Stdin = orders
		return cmd
	})
	fmt.Println(err)
	// Output:
	// attempt 1
	// apples
	// pears
	// attempt 2
	// apples
	// pears
	// <nil>
}

// Output returns the output of the last attempt only.
func ExampleOutput_lastAttempt() {
	policy, attempts := &retry.Policy{Clock: &retrytest.Clock{}}, 0
	out, err := retryexec.Output(context.Background(), policy, func(ctx context.Context) *exec.Cmd {
		attempts++
		cmd := retryexec.Command("sh", "-c", "echo answer $N; [ $N = 3 ]")(ctx)
		cmd.Env = append(os.Environ(), fmt.Sprint("N=", attempts))
		return cmd
	})
	fmt.Printf("%q %v\n", out, err)
	// Output: "answer 3\n" <nil>
}

// A command that hangs is killed, with its children, and run again.
func ExampleRun_timeout() {
	policy := &retry.Policy{MaxAttempts: 2, AttemptTimeout: 50 * time.Millisecond, Backoff: retry.Constant(time.Millisecond)}
	err := retryexec.Run(context.Background(), policy, retryexec.Command("sh", "-c", "sleep 1000; exit 1"))
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.Is(err, retry.StopAttempts))
	// Output: true true
}

// When the context ends, the command is asked to stop. It is killed ten seconds later if
// it has not stopped.
func ExampleRun_gentleStop() {
	ctx, cancel := context.WithCancel(context.Background()) // signal.NotifyContext in a program
	defer cancel()
	err := retryexec.Run(ctx, nil, func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "sh", "-c", "trap 'echo saved; exit 1' INT; echo ready; while :; do sleep 0.01; done")
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 10 * time.Second
		cmd.Stdout = writerFunc(func(output []byte) {
			fmt.Print(string(output))
			cancel() // it is ready
		})
		return cmd
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// ready
	// saved
	// true
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// The program has one exit code for failures that should be retried. All others are
// final.
func ExampleRun_exitCodes() {
	policy := &retry.Policy{
		Classifier: retryexec.Profile{
			{Codes: []int{42}, Verdict: retry.Verdict{Class: retry.Retryable, Category: "lock_held"}},
			{Verdict: retry.Verdict{Class: retry.Final, Category: "failed"}},
		}.Classify,
		Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) { fmt.Println(e.Kind, e.Verdict.Category) }},
		Clock:    &retrytest.Clock{}, // it does not wait in a test
	}
	codes := []string{"42", "1"}
	err := retryexec.Run(context.Background(), policy, func(ctx context.Context) *exec.Cmd {
		code := codes[0]
		codes = codes[1:]
		return retryexec.Command("sh", "-c", "exit "+code)(ctx)
	})
	fmt.Println(err)
	// Output:
	// retrying lock_held
	// gave_up failed
	// exit status 1
}
