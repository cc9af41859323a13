// Package why answers "why was it not retried?", for the command and for docs/why.md.
package why

import (
	"context"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// stop explains one StopReason.
type stop struct {
	reason retry.StopReason
	more   string // other texts with this reason
	means  string
	change []string // Go
}

// stops has every StopReason, the most frequent first.
var stops = []stop{
	{
		retry.StopAttempts, "attempts exhausted",
		"`MaxAttempts` failures were counted, the first attempt included. The default is 3.",
		[]string{"policy.MaxAttempts = 5", "policy.MaxAttempts, policy.Timeout = retry.Unlimited, time.Hour"},
	},
	{
		retry.StopFinal, "final: http_404",
		"Another attempt would fail in the same way. The error is returned as it is; only `retryhttp.Why` has a text.",
		[]string{"policy.Classifier = retry.On(retry.Retryable, target)", "err = retry.MarkRetryable(err)"},
	},
	{
		retry.StopBudget, "",
		"The local `Budget` had no retry left; the server did not say so. Only successes refill it, not time. " +
			"A Transport has such a budget for each host by default, and an interceptor of gRPC or Connect has one: see [The budget](#the-budget).",
		[]string{"transport.Budget = retryhttp.NoBudget", "policy.Budget = &retry.Budget{Reserve: 10, Ratio: 0.2}"},
	},
	{
		retry.StopMaybeApplied, "a non-idempotent operation may have taken effect",
		"The operation is `NonIdempotent`, such as a POST, and the failure does not prove that it had no effect.",
		[]string{"transport.IdempotencyKey = retryhttp.RandomKey // if the server knows such keys", "err = retry.MarkRetryable(err) // if it had no effect"},
	},
	{
		retry.StopRetryAfter, "the server asks for a longer wait than allowed",
		"The server's hint, such as `Retry-After`, is longer than `MaxRetryAfter`: a minute, or `MaxDelay` if longer, and a day for a stored job. `Error.RetryAfter` has it. " +
			"Or store the job and come back: see [A hint of hours](recipes.md#a-hint-of-hours).",
		[]string{"policy.MaxRetryAfter = time.Hour"},
	},
	{
		retry.StopDeadline, "context deadline exceeded",
		"The deadline of the caller's context has passed, or comes before the next attempt would start.",
		[]string{"policy.AttemptTimeout = retry.EqualShare // if one slow attempt took all the time"},
	},
	{
		retry.StopCanceled, "not started: context canceled",
		"The caller's context was canceled: the program is stopping, or the client of your server has gone.",
		[]string{"ctx = context.WithoutCancel(ctx) // for work that has to go on"},
	},
	{
		retry.StopTimeout, "",
		"`Policy.Timeout` has passed, or comes before the next attempt would start. It limits the whole call, and interrupts an attempt.",
		[]string{"policy.Timeout = time.Hour", "policy.AttemptTimeout = retry.EqualShare // if one slow attempt took all the time"},
	},
	{
		retry.StopElapsed, "",
		"The next attempt would start later than `MaxElapsed` after the first one.",
		[]string{"policy.MaxElapsed = time.Hour"},
	},
	{
		retry.StopBackoff, "the backoff allows no other attempt",
		"A `Backoff` of your own returned a negative delay, which ends a call.",
		[]string{"policy.Backoff = retry.Exponential{} // or mend its method Delay"},
	},
}

// constant returns the name of the reason in Go.
func (s stop) constant() string {
	words := strings.Split(s.reason.Error(), "_")
	for i, word := range words {
		words[i] = strings.ToUpper(word[:1]) + word[1:]
	}
	return "retry.Stop" + strings.Join(words, "")
}

// text returns what an Error says about a reason in parentheses, or "".
func (s stop) text() string {
	cause := error(nil)
	if s.reason == retry.StopCanceled {
		cause = context.Canceled
	}
	e := &retry.Error{Attempts: 3, Stop: s.reason, RetryAfter: 3 * time.Hour, Cause: cause}
	_, reason, ok := strings.Cut(e.Error(), "(")
	if !ok {
		return ""
	}
	return strings.TrimSuffix(reason, ")")
}

// texts returns all texts with this reason.
func (s stop) texts() []string {
	var texts []string
	for _, text := range []string{s.text(), s.more} {
		if text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}
