package retryhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/done"
)

// call is one round trip: a request and its attempts.
type call struct {
	t      *Transport
	base   http.RoundTripper
	req    *http.Request // the caller's, not to be changed
	policy retry.Policy  // for this request
	caller *retry.Policy // what it was made of
	key    string        // the Idempotency-Key that the request gets, or ""
	body   replay
	plain  bool // attempts need nothing of their own but a body, see Transport.plain

	// read is part of an attempt of Do, and nil in RoundTrip.
	read func(*http.Response) error

	first outcome // of the first attempt, if it has been made

	// served says that the request was, because its answer sent the client on
	// with another method.
	served bool

	// Of the last attempt:
	attempts int
	sent     *sent          // nil if nobody watches
	resp     *http.Response // unread; nil if there is none or it was discarded
	err      error
	verdict  retry.Verdict
	fresh    bool // the next one needs a connection of its own
}

// outcome is what a RoundTripper returns.
type outcome struct {
	resp *http.Response
	err  error
}

func (t *Transport) newCall(req *http.Request, p *retry.Policy, budget *retry.Budget) *call {
	c := &call{t: t, base: t.base(), req: req, policy: *p, caller: p}
	if t.IdempotencyKey != nil && !Idempotent(req) {
		c.key = t.IdempotencyKey(req)
	}
	if !Idempotent(req) && c.key == "" {
		c.policy.NonIdempotent = true
	}
	c.body = newReplay(req, t.BufferBody)
	c.policy.Budget = budget
	// Execute would end the context of an attempt before the caller reads the
	// response.
	c.policy.AttemptTimeout = 0
	c.policy.Classifier = func(error) retry.Verdict { return c.verdict }
	c.policy.Observer = c
	return c
}

func (c *call) roundTrip() (*http.Response, error) {
	returned := false
	defer func() { // also if somebody panics
		c.body.finish(returned && c.resp != nil)
		if returned {
			return
		}
		if c.resp != nil {
			_ = c.resp.Body.Close()
		}
		if c.req.Body != nil {
			_ = c.req.Body.Close()
		}
	}()
	err := c.policy.Execute(c.req.Context(), c.attempt)
	if c.first != (outcome{}) {
		err = c.interrupted(err)
	}
	resp, err := c.result(err)
	returned = true
	return resp, err
}

// attempt sends the request once.
func (c *call) attempt(ctx context.Context) error {
	c.attempts++
	c.err = c.try(ctx)
	return c.err
}

func (c *call) try(ctx context.Context) error {
	if first := c.first; first != (outcome{}) {
		c.first, c.body.used = outcome{}, true
		return c.settle(first, false)
	}
	if wait := c.awaitCooldown(ctx); wait > 0 {
		c.verdict = retry.Verdict{
			Class: retry.RateLimited, NotApplied: true, After: wait, Category: "cooldown",
		}
		return fmt.Errorf("retryhttp: %s is rate limited: not sent", address(c.req.URL))
	}
	attemptCtx, cancel := c.context(ctx)
	kept := false
	defer func() {
		if !kept {
			cancel()
		}
	}()
	req, err := c.request(attemptCtx)
	if err != nil {
		return retry.MarkFinal(err)
	}
	resp, err := c.transport().RoundTrip(req) //nolint:bodyclose // discard or the caller closes it
	if err == nil && resp == nil {
		err = errors.New("retryhttp: Base returned neither a response nor an error")
	}
	if err != nil {
		return c.settle(outcome{nil, err}, overtime(attemptCtx) && !done.Is(ctx))
	}
	if resp.Request == req {
		resp.Request = c.req // whose context does not end with the body
	}
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	if c.caller.AttemptTimeout > 0 {
		cancelWithBody(resp, cancel)
		kept = true
	}
	err = c.settle(outcome{resp, nil}, false)
	if err == nil && c.read != nil {
		return c.consume(ctx, attemptCtx)
	}
	return err
}

// settle judges what an attempt has brought. It returns nil if that is for the
// caller.
func (c *call) settle(o outcome, timedOut bool) error {
	if o.err != nil {
		err := Redact(o.err)
		// Within a url.Error, as http.Client would return it, an io.EOF is a
		// connection that was lost.
		c.judge(err, &url.Error{Err: err}, timedOut)
		return err
	}
	c.resp = o.resp
	if o.resp.StatusCode < 400 {
		return nil
	}
	return c.refused(o.resp)
}

// context returns the context of an attempt.
func (c *call) context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := c.caller.AttemptContext(ctx)
	if c.policy.NonIdempotent {
		c.sent = &sent{}
		ctx = c.sent.watch(ctx)
	}
	return ctx, cancel
}

// overtime reports whether the deadline of an attempt has passed. Its context may
// also have been canceled, when the body was read to its end.
func overtime(ctx context.Context) bool {
	return done.Is(ctx) && errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// transport returns what makes the next attempt.
func (c *call) transport() http.RoundTripper {
	if c.fresh {
		if base, ok := afresh(c.base, c.req); ok {
			return base
		}
	}
	return c.base
}

// afresh returns a RoundTripper that will not use a connection twice, if it knows
// how to make one. To close the idle connections of the one there is would be
// at the cost of other requests.
func afresh(base http.RoundTripper, req *http.Request) (http.RoundTripper, bool) {
	switch base := base.(type) {
	case *http.Transport:
		if req.URL == nil || req.URL.Scheme != "http" && req.URL.Scheme != "https" {
			return nil, false // Clone forgets what is registered
		}
		once := base.Clone()
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

// awaitCooldown waits while the host wants no requests. It returns how long it
// still would have to, if that is too long.
func (c *call) awaitCooldown(ctx context.Context) time.Duration {
	if c.t.Cooldown <= 0 {
		return 0
	}
	host := c.t.host(c.req)
	wait := time.Duration(0)
	// Waiting for a hint is what the policy does.
	p := c.policy
	p.MaxAttempts, p.Overrides = retry.Unlimited, nil
	p.Classifier, p.Budget, p.Observer = nil, nil, nil
	_ = p.Execute(ctx, func(context.Context) error {
		wait = host.cooling(p.Now())
		if wait == 0 {
			return nil
		}
		return retry.MarkRateLimited(errCooling, wait)
	})
	return wait
}

var errCooling = errors.New("cooling down")

// Observe is told by the policy: when it has decided for a retry, the response is
// of no use, and its connection is free for others during the wait.
func (c *call) Observe(ctx context.Context, e retry.Event) {
	if e.Kind == retry.Retrying && c.resp != nil {
		drain(c.resp)
		c.resp = nil
	}
	if c.caller.Observer != nil {
		c.caller.Observer.Observe(ctx, e)
	}
}

// interrupted mends the error of a call whose context ended after the first
// attempt, and before Execute could learn of that.
func (c *call) interrupted(err error) error {
	first := c.first
	if first.err == nil {
		_ = first.resp.Body.Close()
		first.err = c.statusError(first.resp, 0)
	}
	first.err = Redact(first.err)
	var e *retry.Error
	if errors.As(err, &e) {
		e.Attempts, e.Err = 1, first.err
	}
	c.body.used = true
	return err
}

// answered returns the request that a response answers, which is another one
// after a redirect in Do.
func (c *call) answered(resp *http.Response) *http.Request {
	if resp.Request != nil {
		return resp.Request
	}
	return c.req
}

// result turns the end of the call into that of the round trip.
func (c *call) result(err error) (*http.Response, error) {
	if c.resp == nil {
		return nil, err
	}
	if e, ok := err.(*retry.Error); ok && e.Cause != nil { //nolint:errorlint // Execute's own: the context ended
		_ = c.resp.Body.Close()
		c.resp = nil
		return nil, err
	}
	if c.attempts > 1 {
		req := c.answered(c.resp)
		c.resp.Request = req.WithContext(context.WithValue(req.Context(), attemptsKey{}, c.attempts))
	}
	return c.resp, nil
}
