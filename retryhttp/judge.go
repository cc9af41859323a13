package retryhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/errtree"
)

// fail ends an attempt that failed. resp is not nil if there was an answer all the same: a
// redirect that the client refused to follow.
func (c *call) fail(err error, resp *http.Response) {
	c.expire()
	c.suspect(err)
	v := c.Verdict(err)
	interrupted := c.TimedOut() || errtree.Is(err, context.DeadlineExceeded) || errtree.Is(err, context.Canceled)
	unsent := c.sent.nothing(interrupted, c.byNetHTTP())
	if v == (retry.Verdict{}) { // unknown, or not asked because Policy.Timeout is over
		switch {
		case c.TimedOut():
		case unsent:
			v.Class, v.Category = retry.Retryable, "unsent"
		case resp == nil && !c.NonIdempotent && isForeign(err):
			v.Class, v.Category = retry.Retryable, "conn"
		default:
			v.Class = retry.Final
		}
	}
	v.NotApplied = unsent || v.NotApplied && (!c.sent.denies(err) || harmless(err))
	c.decide(err, v)
}

// expire waits for the context of a request whose deadline has passed. http.Client.Timeout
// cancels the request at the deadline of its context, and either may come first.
func (c *call) expire() {
	ctx := c.req.Context()
	deadline, ok := ctx.Deadline()
	if !ok || c.Policy.Now().Before(deadline) {
		return
	}
	timer := time.NewTimer(expiry)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C: // it is not a context of the system's clock
	}
}

// expiry is longer than it takes to end a context whose deadline has passed.
const expiry = 100 * time.Millisecond

// harmless reports whether a mark says that the failed attempt had no effect.
func harmless(err error) bool {
	v, _ := retry.Marked(err)
	return v.NotApplied
}

// byNetHTTP reports whether an http.Transport itself makes the attempts, instead of a
// protocol that was registered with it.
func (c *call) byNetHTTP() bool {
	_, ok := c.base.(*http.Transport)
	return ok && c.req.URL != nil && (c.req.URL.Scheme == "http" || c.req.URL.Scheme == "https")
}
