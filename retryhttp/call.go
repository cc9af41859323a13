package retryhttp

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/calls"
)

// call is one round trip: a request and its attempts.
type call struct {
	retry.Call

	t    *Transport
	base http.RoundTripper
	req  *http.Request // the caller's, not to be changed
	key  string        // the Idempotency-Key that the request gets, or ""
	body replay
	kept *snapshot // of the request, if Base got the caller's own; otherwise nil

	// read is part of an attempt of Do, and nil in RoundTrip.
	read func(*http.Response) error
	ask  func(http.Header) // of Download; nil in Do

	// served says that the server has done the work of the request: it answered
	// with a redirect that changes the method.
	served bool

	guard   *guard         // of the drained bodies; nil if there was none
	shown   string         // the address of req, once it was computed
	sent    *sent          // of the last attempt; nil if it is not watched
	resp    *http.Response // of the last attempt, unread; nil if there is none or it was discarded
	fresh   bool           // the next attempt needs a connection of its own
	renewed bool           // the last answer refused a token, which Prepare has renewed

	unready *unready // of the last attempt; nil if its request was prepared
	final   error    // what Why returns for a response that is Final; nil if its status says as much
}

// begin sets the policy of a call, and the settings that depend on the request.
func (c *call) begin(p *retry.Policy, budget retry.Throttle) {
	switch {
	case c.t.QuotaFor != nil && p.Quota == nil:
		c.Policy = calls.Paced(calls.Policy(p, defaultPolicy), c.t.QuotaFor(c.req))
	case c.t.Cooldown > 0 && p.Quota == nil:
		c.Policy = c.t.host(c.req).pace(p)
	default:
		c.Policy = calls.Policy(p, defaultPolicy)
	}
	c.Budget = budget
	if !Idempotent(c.req) {
		if c.t.IdempotencyKey != nil {
			c.key = c.t.IdempotencyKey(c.req)
		}
		c.NonIdempotent = c.key == ""
	}
	c.body = newReplay(c.req, c.t.BufferBody)
}

// classifyAttempt classifies the failure of an attempt. It wraps err in a url.Error,
// as http.Client would, so that an io.EOF is a lost connection.
func classifyAttempt(err error) retry.Verdict {
	if e, ok := err.(*StatusError); ok && e.verdict != (retry.Verdict{}) { //nolint:errorlint // made here
		return e.verdict
	}
	return Classify(&url.Error{Err: err})
}

// classifyBody classifies a failure to read a response. The server has acted by then,
// and an unknown error is Final, because it will not get better.
func classifyBody(err error) retry.Verdict {
	v := Classify(err)
	if v == (retry.Verdict{}) {
		v.Class = retry.Final
	}
	v.NotApplied = false
	return v
}

func (c *call) roundTrip() (*http.Response, error) {
	returned := false
	defer func() { c.close(returned) }() // also after a panic
	for c.Next(c.req.Context()) {
		c.try()
	}
	resp, err := c.result()
	returned = true
	return resp, err
}

// close releases what the call still holds.
func (c *call) close(returned bool) {
	c.Abort()
	c.body.finish(returned && c.resp != nil)
	c.kept.release()
	if returned {
		return
	}
	if c.resp != nil {
		_ = c.resp.Body.Close()
	}
	if c.req.Body != nil {
		_ = c.req.Body.Close()
	}
}

// try makes an attempt.
func (c *call) try() {
	ctx := c.Context()
	c.Protocol = classifyAttempt
	c.sent, c.unready = nil, nil
	once := c.NonIdempotent || c.Policy.NonIdempotent
	if once || c.mayFallSilent() {
		c.sent = &sent{once: once}
		ctx = c.sent.watch(ctx)
	}
	if once {
		c.Protocol = c.sent.classify
	}
	req, err := c.request(ctx)
	if err != nil {
		c.End(retry.MarkFinal(err))
		return
	}
	resp, err := c.send(req) //nolint:bodyclose // respond or the caller closes it
	switch {
	case c.unready != nil:
		c.unprepared()
	case err != nil:
		c.fail(Redact(err), resp)
	case resp == nil:
		c.End(retry.MarkFinal(errNoResponse))
	default:
		c.respond(req, resp)
	}
}

var errNoResponse = errors.New("retryhttp: Base returned neither a response nor an error")

// transport returns the RoundTripper of the next attempt.
func (c *call) transport() http.RoundTripper {
	if c.fresh {
		if base, ok := afresh(c.base, c.req); ok {
			return base
		}
	}
	if base, ok := c.base.(*http.Transport); ok {
		return c.route(base, c.req)
	}
	return c.base
}

// afresh returns a RoundTripper that uses a new connection, if base can be
// cloned. Closing the idle connections of base instead would slow down other
// requests.
func afresh(base http.RoundTripper, req *http.Request) (http.RoundTripper, bool) {
	switch base := base.(type) {
	case *http.Transport:
		if !cloneable(req) {
			return nil, false
		}
		once := clone(base)
		once.DisableKeepAlives = true
		return once, true
	case hops:
		once, ok := afresh(base.base, req)
		return hops{once, base.call}, ok
	case clientTransport:
		once, ok := afresh(base.client.Transport, req)
		client := *base.client
		client.Transport = once
		return clientTransport{&client}, ok
	default:
		return nil, false
	}
}

// result returns the result of the round trip when the call has ended.
func (c *call) result() (*http.Response, error) {
	err := c.Err()
	if c.resp == nil {
		return nil, err
	}
	gaveUp, ok := err.(*retry.Error) //nolint:errorlint // the call's own
	if ok && gaveUp.Cause != nil {   // the context ended
		_ = c.resp.Body.Close()
		c.resp = nil
		return nil, err
	}
	attempts := c.Attempt()
	if attempts <= 1 && !ok && c.final == nil {
		return c.resp, nil
	}
	facts := trip{attempts: attempts, why: c.final, budget: c.Policy.Budget}
	if ok {
		facts.why = gaveUp
		c.warn(gaveUp)
	}
	if facts.why == nil {
		facts.why = told(c.resp).why // by an inner Transport
	}
	if facts.budget == nil {
		facts.budget = c.Budget
	}
	c.resp.Request = tell(c.answered(c.resp), facts)
	return c.resp, nil
}

// warn logs, once per Transport, that the budget of a host has refused a retry: nothing else
// tells a caller who only looks at the error, which is nil.
func (c *call) warn(gaveUp *retry.Error) {
	own := c.t.Budget == nil && c.Policy.Budget == nil
	told := c.Policy.Observer != nil && c.Policy.Observer.Event != nil
	if gaveUp.Stop != retry.StopBudget || !own || told || c.t.hosts.warned.Swap(true) {
		return
	}
	slog.Default().WarnContext(c.req.Context(),
		"retryhttp: no retry, because the retry budget of the host is used up (logged once); see docs/why.md",
		"host", c.t.host(c.req).origin.String())
}
