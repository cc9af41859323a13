//go:build unix

package retryexec_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

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
