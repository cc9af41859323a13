package retryexec_test

import (
	"fmt"
	"regexp"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

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
