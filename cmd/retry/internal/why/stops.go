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
	change string
}

// stops has every StopReason, the most frequent first.
var stops = []stop{
	{
		retry.StopAttempts, "attempts exhausted",
		"`MaxAttempts` failures were counted, the first attempt included. The default is 3.",
		"`MaxAttempts: 5`, or `MaxAttempts: retry.Unlimited` with a `Timeout`; `Overrides` for one kind of failure",
	},
	{
		retry.StopFinal, "final: http_404",
		"Another attempt would fail in the same way. The error is returned as it is; only `retryhttp.Why` has a text.",
		"`Classifier: retry.On(retry.Retryable, err)`, `retry.MarkRetryable(err)`, `Transport.ClassifyResponse`",
	},
	{
		retry.StopBudget, "",
		"The local `Budget` had no retry left; the server did not say so. Only successes refill it, not time. " +
			"A Transport has such a budget for each host by default, and an interceptor of gRPC or Connect has one: see [The budget](#the-budget).",
		"`Transport{Budget: retryhttp.NoBudget}`, or a `Budget` with a larger `Reserve` or `Ratio`",
	},
	{
		retry.StopMaybeApplied, "a non-idempotent operation may have taken effect",
		"The operation is `NonIdempotent`, such as a POST, and the failure does not prove that it had no effect.",
		"`Transport{IdempotencyKey: retryhttp.RandomKey}` if the server knows such keys; `Idempotent` of gRPC, Connect and Redis; " +
			"a mark or a `Classifier` with `NotApplied`",
	},
	{
		retry.StopRetryAfter, "the server asks for a longer wait than allowed",
		"The server's hint, such as `Retry-After`, is longer than `MaxRetryAfter`: a minute, or `MaxDelay` if longer. `Error.RetryAfter` has it.",
		"`MaxRetryAfter: time.Hour`; or store the job and come back: [A hint of hours](recipes.md#a-hint-of-hours)",
	},
	{
		retry.StopDeadline, "context deadline exceeded",
		"The deadline of the caller's context has passed, or comes before the next attempt would start.",
		"a later deadline, shorter waits; `AttemptTimeout: retry.EqualShare` if one slow attempt took all the time",
	},
	{
		retry.StopCanceled, "not started: context canceled",
		"The caller's context was canceled: the program is stopping, or the client of your server has gone.",
		"nothing to set; `context.WithoutCancel(ctx)` for work that has to go on",
	},
	{
		retry.StopTimeout, "",
		"`Policy.Timeout` has passed, or comes before the next attempt would start. It limits the whole call, and interrupts an attempt.",
		"a longer `Timeout`, shorter waits, or `AttemptTimeout: retry.EqualShare`",
	},
	{
		retry.StopElapsed, "",
		"The next attempt would start later than `MaxElapsed` after the first one.",
		"a longer `MaxElapsed`, or shorter waits",
	},
	{
		retry.StopBackoff, "the backoff allows no other attempt",
		"A `Backoff` of your own returned a negative delay, which ends a call.",
		"the `Delay` method of that `Backoff`",
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
