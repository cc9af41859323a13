package main

import (
	_ "embed"
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

// The categories of errors, which are also labels of metrics and values in the database.
const (
	transient   = "transient"
	apiError    = "api_error"
	codeError   = "code_error"
	systemError = "system_error"
	unknown     = "unknown"
)

// newPolicy is the table of categories: how often each is retried, so that what may pass
// gets more than what a person has to mend. Retries do not count the first attempt. The
// delays start at delay.
func newPolicy(delay, limit time.Duration) *retry.Policy {
	exponential := retry.Exponential{Initial: delay, Multiplier: 2}
	linear := retry.Linear{Initial: delay, Step: delay}
	none := retry.Constant(0)
	return &retry.Policy{
		MaxAttempts: 1 + 1, // for what else there may be
		Backoff:     linear,
		MaxDelay:    limit,
		Jitter:      retry.NoJitter,
		Classifier:  classify,
		Overrides: map[string]retry.Override{
			transient:   {MaxAttempts: 1 + 3, Backoff: exponential},
			apiError:    {MaxAttempts: 1 + 2, Backoff: linear},
			codeError:   {MaxAttempts: 1 + 1, Backoff: none},
			systemError: {MaxAttempts: 1 + 2, Backoff: exponential},
			unknown:     {MaxAttempts: 1 + 1, Backoff: linear},
		},
	}
}

// errLost is what an agent whose VM is gone has failed with.
var errLost = retry.Mark(retry.ErrLost, retry.Verdict{Class: retry.Retryable, Category: systemError})

// classify puts an error into a category. How often that is retried is up to the
// policy, so nothing is Final here. A server's Retry-After is kept.
//
// The type of an error is asked first; then, of a command that failed, the end of its
// standard error, all of it: the cause is seldom the last line. Other errors have
// nothing but their text.
func classify(err error) retry.Verdict {
	v := retry.Classify(err)
	if category := ofType(err, v); category != "" {
		v.Category = category
	} else {
		said := rules.ClassifyExit(nil, -1, err.Error())
		if exit := new(exec.ExitError); errors.As(err, &exit) {
			said = rules.Classify(exit)
		}
		v.Class, v.Category = said.Class, said.Category
	}
	switch {
	case v.Category == unknown:
		v.Class = retry.Unknown
	case v.Class != retry.RateLimited:
		v.Class = retry.Retryable
	}
	return v
}

// ofType is the category of an error whose type says it, or else "".
func ofType(err error, v retry.Verdict) string {
	var errno syscall.Errno
	http := strings.HasPrefix(v.Category, "http_")
	switch {
	case v.Class == retry.RateLimited, v.Category == "http_503", v.Category == "http_504",
		v.Class == retry.Retryable && !http:
		return transient
	case http:
		return apiError
	case errors.As(err, &errno):
		return systemError
	default:
		return ""
	}
}

// rules say what a command means by its exit code, and else by what it wrote.
var rules = readRules(patterns)

// patterns has a category and a pattern on each line, in the order in which they are tried.
//
//go:embed patterns.txt
var patterns string

func readRules(patterns string) retryexec.Profile {
	profile := retryexec.Profile{
		{Codes: []int{126, 127}, Verdict: retry.Verdict{Class: retry.Retryable, Category: systemError}}, // the shell: cannot be run, not found
	}
	words := strings.NewReplacer(
		"{word}", `(?:^|[^\w/.@-])`, // begins here, and is no part of a path in a stack trace
		"{status}", `\b(?:https?|status|error|code|response)(?:/\d(?:\.\d)?)?(?:[ :='"_(-]|code|status|error)+`,
	)
	for line := range strings.Lines(patterns) {
		category, pattern, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok || category == "#" {
			continue
		}
		v := retry.Verdict{Class: retry.Retryable, Category: category}
		if category == "rate_limit" {
			v = retry.Verdict{Class: retry.RateLimited, Category: transient}
		}
		stderr := regexp.MustCompile(`(?m)` + words.Replace(strings.TrimLeft(pattern, " ")))
		profile = append(profile, retryexec.Rule{Verdict: v, Stderr: stderr})
	}
	return append(profile, retryexec.Rule{Verdict: retry.Verdict{Category: unknown}})
}
