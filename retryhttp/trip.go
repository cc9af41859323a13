package retryhttp

import (
	"context"
	"net/http"
)

// trip has the facts about a round trip that [Attempts] and [GaveUp] return. It
// is the context of the response's request.
type trip struct {
	context.Context //nolint:containedctx // it is one

	of       *http.Request // of this response, not one that was made from its context
	attempts int
	gaveUp   bool
}

type tripKey struct{}

// Value implements [context.Context].
func (t *trip) Value(key any) any {
	if key == (tripKey{}) {
		return t
	}
	return t.Context.Value(key)
}

// tell returns a request like req with a trip as its context.
func tell(req *http.Request, attempts int, gaveUp bool) *http.Request {
	t := &trip{Context: req.Context(), attempts: attempts, gaveUp: gaveUp}
	t.of = req.WithContext(t)
	return t.of
}

// told returns the facts of the trip of a response, or zeros.
func told(resp *http.Response) (attempts int, gaveUp bool) {
	if resp.Request == nil {
		return 0, false
	}
	t, ok := resp.Request.Context().Value(tripKey{}).(*trip)
	if !ok || t.of != resp.Request {
		return 0, false
	}
	return t.attempts, t.gaveUp
}

// Attempts returns how many requests a [Transport] has sent to get resp, since the last
// request that lasted for the policy's ResetAfter. It is 1 if there was no retry, or no
// Transport. It is read from the context of resp.Request. Attempts(nil) is 0.
func Attempts(resp *http.Response) int {
	if resp == nil {
		return 0
	}
	attempts, _ := told(resp)
	return max(attempts, 1)
}

// GaveUp reports whether a [Transport] has returned resp because it gave up: it would
// have retried, but the attempts, the time or the budget had run out, the server asked for
// too long a wait, or the request is not [Idempotent] and may have had an effect. It is
// false if the body of the request could not be read again. It is read from the context
// of resp.Request.
func GaveUp(resp *http.Response) bool {
	if resp == nil {
		return false
	}
	_, gaveUp := told(resp)
	return gaveUp
}

// outlive gives the request of a response a context that ends with the call instead
// of the attempt, and keeps the values of the attempt's context.
func outlive(caller context.Context, resp *http.Response) {
	attempts, gaveUp := told(resp)
	own := outliving{caller, resp.Request.Context()}
	resp.Request = resp.Request.WithContext(own)
	if attempts > 0 {
		resp.Request = tell(resp.Request, attempts, gaveUp)
	}
}

type outliving struct {
	context.Context
	values context.Context
}

// Value implements [context.Context].
func (c outliving) Value(key any) any { return c.values.Value(key) }
