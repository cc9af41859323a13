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

func ExampleCurl() {
	policy := &retry.Policy{Classifier: retryexec.Curl().Classify}
	fmt.Println(policy)

	curl := retryexec.Curl()
	fmt.Println(curl.ClassifyExit(nil, 22, "curl: (22) The requested URL returned error: 503").Class)
	fmt.Println(curl.ClassifyExit(nil, 22, "curl: (22) The requested URL returned error: 404").Class)
	fmt.Println(curl.ClassifyExit(nil, 7, "").Class) // it did not reach the server
	// Output:
	// 3 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s
	// retryable
	// final
	// retryable
}

func ExampleProfile() {
	// Exit code 1 of grep is a result and not a failure, so it is returned at
	// once.
	grep := retryexec.Profile{
		{Codes: []int{1}, Verdict: retry.Verdict{Class: retry.Final, Category: "no_match"}},
		{Stderr: regexp.MustCompile(`\bstale file handle\b`), Verdict: retry.Verdict{Class: retry.Retryable}},
	}
	fmt.Println(grep.ClassifyExit(nil, 1, "").Category)
	fmt.Println(grep.ClassifyExit(nil, 2, "grep: /mnt/x: Stale file handle").Class)
	fmt.Println(grep.ClassifyExit(nil, 2, "grep: boom") == retry.Verdict{}) // so ask Default

	policy := retry.Policy{Classifier: grep.Classify}
	fmt.Println(policy)
	// Output:
	// no_match
	// retryable
	// true
	// 3 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s
}

func ExampleClassifyExit() {
	for _, v := range []retry.Verdict{
		retryexec.ClassifyExit(nil, 1, "fatal: unable to access 'https://x/': Could not resolve host: x"),
		retryexec.ClassifyExit(nil, 1, "toomanyrequests: You have reached your pull rate limit."),
		retryexec.ClassifyExit(nil, 128, "git@x: Permission denied (publickey)."),
		retryexec.ClassifyExit(nil, 75, ""),
		retryexec.ClassifyExit(nil, 1, "boom"),
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

func ExampleClassify() {
	// A policy that runs other operations too.
	policy := &retry.Policy{Classifier: retryexec.Classify, Clock: &retrytest.Clock{}}
	err := policy.Execute(context.Background(), func(ctx context.Context) error {
		_, err := exec.CommandContext(ctx, "no-such-program").Output()
		return err
	})
	fmt.Println(errors.Is(err, exec.ErrNotFound))
	// Output: true
}

func ExampleSimple() {
	policy := &retry.Policy{Classifier: retryexec.Simple().Classify}
	fmt.Println(policy)
	fmt.Println(retryexec.Simple().ClassifyExit(nil, 1, "connection reset by peer").Class)
	fmt.Println(retryexec.Simple().ClassifyExit(nil, 2, "connection reset by peer").Class)
	fmt.Println(retryexec.Simple().ClassifyExit(nil, 1, "file not found").Class)
	fmt.Println(retryexec.Simple().ClassifyExit(nil, 1, "boom").Class)
	// Output:
	// 3 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s
	// retryable
	// final
	// final
	// unknown
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
