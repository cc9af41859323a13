package retryhttp

import (
	"context"
	"net/http"
)

// trip is what a Transport tells about a round trip, through the context of the
// request of the response.
type trip struct {
	of       *http.Request // of this response, not of one that was made from its context
	attempts int
	gaveUp   bool
}

type tripKey struct{}

// tell returns a request like req that tells.
func tell(req *http.Request, t trip) *http.Request {
	about := &t
	about.of = req.WithContext(context.WithValue(req.Context(), tripKey{}, about))
	return about.of
}

// told returns what a Transport has told with a response, or nothing.
func told(resp *http.Response) trip {
	if resp.Request == nil {
		return trip{}
	}
	t, ok := resp.Request.Context().Value(tripKey{}).(*trip)
	if !ok || t.of != resp.Request {
		return trip{}
	}
	return *t
}

// Attempts returns how many requests a [Transport] has sent to get resp: 1 if
// there was no retry, or no Transport. It is read from the context of
// resp.Request. Attempts(nil) is 0.
func Attempts(resp *http.Response) int {
	if resp == nil {
		return 0
	}
	return max(told(resp).attempts, 1)
}

// outlive returns a request like req, whose context was derived from that of an
// attempt, under the context of the call: it keeps its values, and does not end with
// the attempt.
func outlive(req *http.Request, caller context.Context) *http.Request {
	return req.WithContext(outliving{caller, req.Context()})
}

type outliving struct {
	context.Context
	values context.Context
}

func (c outliving) Value(key any) any { return c.values.Value(key) }
