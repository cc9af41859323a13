package main

import (
	"errors"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// The categories of the document.
const (
	transient   = "transient"
	apiError    = "api_error"
	codeError   = "code_error"
	systemError = "system_error"
	unknown     = "unknown"
)

// newPolicy is the table of the document, whose Max Retries do not count the first
// attempt. Its delays start at delay.
func newPolicy(delay, limit time.Duration) *retry.Policy {
	exponential := retry.Exponential{Initial: delay, Multiplier: 2}
	linear := retry.Linear{Initial: delay, Step: delay}
	none := retry.Constant(0)
	return &retry.Policy{
		MaxAttempts:   1 + 1, // for what else there may be
		Backoff:       linear,
		MaxDelay:      limit,
		MaxRetryAfter: 24 * time.Hour, // a stored ticket can wait
		Jitter:        retry.NoJitter,
		Classifier:    classify,
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
func classify(err error) retry.Verdict {
	v := retry.Classify(err)
	v.Class, v.Category = retry.Retryable, category(err, v)
	if v.Category == unknown {
		v.Class = retry.Unknown
	}
	return v
}

// category asks the type of the error first. What an agent says is text mostly.
func category(err error, v retry.Verdict) string {
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
	}
	for _, rule := range rules {
		if rule.text.MatchString(err.Error()) {
			return rule.category
		}
	}
	return unknown
}

// rules say what the text of an error means. Texts match several ("API rate limit
// exceeded", "git: Permission denied"), so the order matters: from what passes by
// itself, by way of what has a name of its own, to the words that are everywhere.
var rules = []struct {
	category string
	text     *regexp.Regexp
}{
	{transient, regexp.MustCompile(`(?i)rate.?limit|too many requests|overloaded|service unavailable|\b(429|503|504)\b|time(d )?.?out|\bETIMEDOUT\b|connection (reset|refused)|\bECONN`)},
	{codeError, regexp.MustCompile(`(?i)syntax.?error|unexpected (token|end of)|\b(Type|Reference|Range|Assertion)Error\b|\bis not (defined|a function)|assertion failed|\blogic`)},
	{systemError, regexp.MustCompile(`(?i)\b(ENOENT|EACCES|EPERM|ENOSPC|EROFS)\b|no such file|permission denied|not a directory|no space left|(command|executable file) not found|exit status 12[67]\b|\bgit\b|\bfatal: `)},
	{apiError, regexp.MustCompile(`(?i)\bAPI\b|api[_ ]?(error|key)|\b[45]\d\d\b|unauthori[sz]ed|forbidden|authenticat|\bauth\b|invalid (token|credentials)`)},
}
