package main

import (
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

// rules say what a command means by its exit code and by what it wrote. Texts match
// several ("API rate limit exceeded", "git: Permission denied"), so the order matters:
// first what leaves no doubt, then the words that may be about something else. A
// number is a status only where something says so: lines and rows have numbers too.
var rules = retryexec.Profile{
	{Codes: []int{126, 127}, Verdict: is(systemError)}, // the shell: cannot be run, not found
	{Verdict: limited, Stderr: anyOf(
		status+`429\b`, `\btoo many requests`, `\boverloaded_?error`,
		`\brate[ -]limit(?:ed|ing| was| is)?(?: exceeded| reached| hit)`, `\brate_?limit(?:_?error|_?exceeded|ed\b)`,
	)},
	{Verdict: is(transient), Stderr: anyOf(
		status+`50[34]\b`, `\bservice (?:temporarily )?unavailable`, `\bgateway time-?out`,
		`\beconn(?:reset|refused|aborted)\b`, `\betimedout\b`, `\beai_again\b`, `\bsocket hang up`, `\bfetch failed`,
		`\bconnection (?:reset|refused|closed|aborted|timed out)`,
		`\bfailed to connect`, `\bcould(?: not|n't) (?:connect|resolve)`, `\btemporary failure in name resolution`,
	)},
	{Verdict: is(codeError), Stderr: anyOf(
		word+`(?:type|reference|range|assertion|name|attribute|indentation)error(?::| \[|$)`, word+`syntax ?error`,
		`\bunexpected (?:token|end of)`, `\bis not (?:defined|a function|a constructor|iterable)\b`,
		`\bassertion failed`, word+`logic`,
	)},
	{Verdict: is(systemError), Stderr: anyOf(
		`\b(?:enoent|eacces|eperm|enospc|erofs|enotdir)\b`, `\bno such file`, `\bnot a directory`, `\bno space left`,
		`\b(?:command|executable file) not found`, `\bexit status 12[67]\b`,
	)},
	{Verdict: limited, Stderr: anyOf(`\brate[ -]?limit`, `\boverloaded\b`)},
	{Verdict: is(transient), Stderr: anyOf(
		word+`timed?[ -]?out(?:[^\w.]|\.?$|\. )`, `timeout_?error\b`,
	)},
	{Verdict: is(systemError), Stderr: anyOf(`\bpermission denied`, word+`git(?:[ :]|$)`, `\bfatal: `)},
	{Verdict: is(apiError), Stderr: anyOf(
		status+`[45]\d\d\b`, `\b[45]\d\d (?:client|server) error`, `\binternal server error`, `\bbad (?:request|gateway)\b`,
		word+`api(?:[ :_]|error|$)`, `\bapi_?key\b`, `\bunauthori[sz]ed`, `\bforbidden`, word+`auth(?:[ :_]|enticat|$)`,
		`\binvalid (?:token|credentials)`,
	)},
	{Verdict: retry.Verdict{Category: unknown}},
}

const (
	word   = `(?:^|[^\w/.@-])` // begins here, and is no part of a path in a stack trace
	status = `\b(?:https?|status|error|code|response)(?:/\d(?:\.\d)?)?(?:[ :='"_(-]|code|status|error)+`
)

func is(category string) retry.Verdict {
	return retry.Verdict{Class: retry.Retryable, Category: category}
}

var limited = retry.Verdict{Class: retry.RateLimited, Category: transient}

// anyOf matches a line that has one of the patterns, which are in lower case.
func anyOf(patterns ...string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)` + strings.Join(patterns, "|"))
}
