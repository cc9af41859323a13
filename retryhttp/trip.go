package retryhttp

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/show"
)

// trip has the facts about a round trip that [Attempts], [GaveUp], [Why] and [BudgetOf]
// return. It is the context of the response's request.
type trip struct {
	context.Context //nolint:containedctx // it is one

	of       *http.Request // of this response, not one that was made from its context
	attempts int
	why      error          // what Why returns; nil if ClassifyResponse says as much
	budget   retry.Throttle // of the retries; nil if there is none
}

type tripKey struct{}

// Value implements [context.Context].
func (t *trip) Value(key any) any {
	if key == (tripKey{}) {
		return t
	}
	return t.Context.Value(key)
}

// tell returns a request like req with a trip of these facts as its context.
func tell(req *http.Request, facts trip) *http.Request {
	facts.Context = req.Context()
	facts.of = req.WithContext(&facts)
	return facts.of
}

// told returns the facts of the trip of a response, or zeros.
func told(resp *http.Response) trip {
	if resp == nil || resp.Request == nil {
		return trip{}
	}
	t, ok := resp.Request.Context().Value(tripKey{}).(*trip)
	if !ok || t.of != resp.Request {
		return trip{}
	}
	return *t
}

// Attempts returns how many requests a [Transport] has sent to get resp, since the last
// request that lasted for the policy's ResetAfter. It is 1 if there was no retry, or no
// Transport. It is read from the context of resp.Request. Attempts(nil) is 0.
func Attempts(resp *http.Response) int {
	if resp == nil {
		return 0
	}
	return max(told(resp).attempts, 1)
}

// GaveUp reports whether a [Transport] has returned resp because it gave up: it would
// have retried, but the attempts, the time or the budget had run out, the server asked for
// too long a wait, or the request is not [Idempotent] and may have had an effect. It is
// false if the body of the request could not be read again. It is read from the context
// of resp.Request. [Why] has the reason.
func GaveUp(resp *http.Response) bool {
	return whyGaveUp(resp) != nil
}

// whyGaveUp returns the error of a Transport that has returned resp because it gave up, or nil.
func whyGaveUp(resp *http.Response) *retry.Error {
	gaveUp, _ := told(resp).why.(*retry.Error) //nolint:errorlint // the call's own
	return gaveUp
}

// Why returns why a [Transport] did not retry the request of resp, or not any more: an
// error that wraps a *[StatusError], or nil if resp is not a failure.
//
// If the Transport gave up, it is the [*retry.Error] of the call, with its Stop and its
// RetryAfter; after StopBudget, [BudgetOf] returns the budget. Otherwise the failure was
// [retry.Final], and the text has its category: "final: http_404", or "final:
// body_not_replayable" if the body of the request could not be read again. docs/why.md has an
// explanation of every text.
//
// It is read from the context of resp.Request. If that says nothing, as in a response from
// another RoundTripper, [ClassifyResponse] decides what is Final.
func Why(resp *http.Response) error {
	facts := told(resp)
	if facts.why != nil || resp == nil {
		return facts.why
	}
	v := ClassifyResponse(resp, time.Now())
	if v.Class != retry.Final {
		return nil
	}
	e := &StatusError{StatusCode: resp.StatusCode}
	if resp.Request != nil {
		e.Method, e.URL = resp.Request.Method, address(resp.Request.URL)
	}
	return &finalError{e, max(facts.attempts, 1), v.Category}
}

// BudgetOf returns the budget that the retries for resp were taken from. It is nil if there
// was neither a retry nor a reason for one, or no budget. If nothing else was set, it is the
// *[retry.Budget] of the host; its Balance tells how many retries are left.
func BudgetOf(resp *http.Response) retry.Throttle { return told(resp).budget }

// finalError is the reason of a response that is Final.
type finalError struct {
	status   *StatusError
	attempts int
	category string
}

// Error returns the form "failed after 1 attempt (final: http_404): GET https://example.com/:
// 404 Not Found".
func (e *finalError) Error() string {
	reason := retry.Final.String()
	if e.category != "" {
		reason += ": " + show.Name(e.category, mostCategory)
	}
	s := "s"
	if e.attempts == 1 {
		s = ""
	}
	return fmt.Sprintf("failed after %d attempt%s (%s): %v", e.attempts, s, reason, e.status)
}

// Unwrap returns the *StatusError.
func (e *finalError) Unwrap() error { return e.status }

// mostCategory bounds a category in a text: a ClassifyResponse may take it from a body.
const mostCategory = 64

// outlive gives the request of a response a context that ends with the call instead
// of the attempt, and keeps the values of the attempt's context.
func outlive(caller context.Context, resp *http.Response) {
	facts := told(resp)
	own := outliving{caller, resp.Request.Context()}
	resp.Request = resp.Request.WithContext(own)
	if facts.attempts > 0 {
		resp.Request = tell(resp.Request, facts)
	}
}

type outliving struct {
	context.Context
	values context.Context
}

// Value implements [context.Context].
func (c outliving) Value(key any) any { return c.values.Value(key) }
