package retryexec_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func ExampleRun() {
	policy := &retry.Policy{
		Name:           "go",
		MaxAttempts:    5,
		AttemptTimeout: time.Minute,
	}
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

func ExampleProfile() {
	// Exit code 1 of grep is a result and no failure: return it at once.
	grep := retryexec.Profile{
		{Codes: []int{1}, Verdict: retry.Verdict{Class: retry.Final, Category: "no_match"}},
		{Stderr: regexp.MustCompile(`\bstale file handle\b`), Verdict: retry.Verdict{Class: retry.Retryable}},
	}
	fmt.Println(grep.Classify(nil, 1, "").Category)
	fmt.Println(grep.Classify(nil, 2, "grep: /mnt/x: Stale file handle").Class)
	fmt.Println(grep.Classify(nil, 2, "grep: boom") == retry.Verdict{}) // so ask Default

	policy := retry.Policy{Classifier: grep.ClassifyError}
	fmt.Println(policy)
	// Output:
	// no_match
	// retryable
	// true
	// 3 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s
}

func ExampleClassify() {
	for _, v := range []retry.Verdict{
		retryexec.Classify(nil, 1, "fatal: unable to access 'https://x/': Could not resolve host: x"),
		retryexec.Classify(nil, 1, "toomanyrequests: You have reached your pull rate limit."),
		retryexec.Classify(nil, 128, "git@x: Permission denied (publickey)."),
		retryexec.Classify(nil, 75, ""),
		retryexec.Classify(nil, 1, "boom"),
	} {
		fmt.Println(v.Class, v.Category)
	}
	// Output:
	// retryable stderr_transient
	// rate_limited stderr_rate_limit
	// final stderr_auth
	// retryable exit_75
	// unknown exit_1
}

func ExampleClassifyError() {
	// A policy that also does other things than running commands.
	policy := &retry.Policy{Classifier: retryexec.ClassifyError, Clock: &retrytest.Clock{}}
	err := policy.Execute(context.Background(), func(ctx context.Context) error {
		_, err := exec.CommandContext(ctx, "no-such-program").Output()
		return err
	})
	fmt.Println(errors.Is(err, exec.ErrNotFound))
	// Output: true
}

func ExampleSimple() {
	policy := &retry.Policy{Classifier: retryexec.Simple().ClassifyError}
	fmt.Println(policy)
	fmt.Println(retryexec.Simple().Classify(nil, 1, "connection reset by peer").Class)
	fmt.Println(retryexec.Simple().Classify(nil, 2, "connection reset by peer").Class)
	fmt.Println(retryexec.Simple().Classify(nil, 1, "file not found").Class)
	fmt.Println(retryexec.Simple().Classify(nil, 1, "boom").Class)
	// Output:
	// 3 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s
	// retryable
	// final
	// final
	// unknown
}

// A policy that also does other things than running a command.
func ExampleOnce() {
	policy := &retry.Policy{Classifier: retryexec.ClassifyError, Clock: &retrytest.Clock{}}
	err := policy.Execute(context.Background(), func(ctx context.Context) error {
		return retryexec.Once(ctx, retryexec.Command("no-such-program"))
	})
	fmt.Println(errors.Is(err, exec.ErrNotFound))
	// Output: true
}

func ExampleCommand() {
	ctx, policy := context.Background(), &retry.Policy{Clock: &retrytest.Clock{}}
	fetch := func() error {
		err := retryexec.Run(ctx, policy, retryexec.Command("git", "fetch"))
		return err
	}
	_ = fetch // where there is a repository
	// Output:
}
