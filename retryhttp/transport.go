package retryhttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// DefaultPolicy returns the policy of a [Transport] without one, for a caller to
// change: 3 attempts, waits of up to 200ms and 400ms, full jitter, and waits of
// up to a minute where the server asks for them. Every call returns a new one.
func DefaultPolicy() *retry.Policy {
	return &retry.Policy{
		Backoff:  retry.Exponential{Initial: 200 * time.Millisecond},
		MaxDelay: 10 * time.Second,
	}
}

var defaultPolicy = DefaultPolicy()

// Transport is an [http.RoundTripper] that sends a request again when an
// attempt fails and another one may help: because the connection failed, or
// because the server answered with a status that says so. The zero Transport is
// ready to use. It is safe for concurrent use, and must not be changed then.
//
// A request is retried after any such failure if it is idempotent: its method is
// GET, HEAD, OPTIONS, TRACE, PUT or DELETE, or it has an Idempotency-Key or
// X-Idempotency-Key header. Others, such as POST, are retried only if the failed
// attempt is known to have had no effect: the connection was refused, or the
// status is 429, 408, 421, 425, or 503 with a Retry-After. A request whose body
// cannot be had a second time, because it has no GetBody, is sent once.
//
// What is retried to no avail is still a response: the last one is returned as
// it came, with a nil error and its body unread. A Transport returns an error if
// there is no response, or if the request's context ended; it is then an
// [*retry.Error], unless it is Final. A response that is not retried, a 404 for
// one, is a success in the eyes of the policy's Observer and Budget.
//
// The errors that Classifier and Observer of the policy see are those of the
// transport beneath, and *[StatusError].
type Transport struct {
	// Base makes the attempts. nil means http.DefaultTransport.
	Base http.RoundTripper

	// Policy decides. nil means that of [DefaultPolicy]; one that is given is
	// used as it is. Its AttemptTimeout goes on until the response's body is
	// read to the end or closed.
	Policy *retry.Policy
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	c := &call{base: t.base(), req: req}
	c.configure(t.Policy)
	err := c.policy.Execute(req.Context(), c.attempt)
	if c.attempts == 0 && req.Body != nil {
		_ = req.Body.Close() // nobody else will
	}
	return c.result(err)
}

// CloseIdleConnections closes the idle connections of Base, if it can.
// [http.Client.CloseIdleConnections] calls it.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// call is one round trip: a request and its attempts.
type call struct {
	base    http.RoundTripper
	req     *http.Request // the caller's, not to be changed
	policy  retry.Policy  // for this request
	timeout time.Duration // of one attempt

	attempts int
	resp     *http.Response // of the last attempt, unread; nil if it has none or was discarded
	err      error          // of the last attempt
	timedOut bool           // the last attempt ran into its own timeout
}

// configure makes the policy for the request out of the Transport's.
func (c *call) configure(p *retry.Policy) {
	if p == nil {
		p = defaultPolicy
	}
	c.policy = *p
	// Execute would end the context of an attempt before the caller reads the
	// response.
	c.timeout, c.policy.AttemptTimeout = p.AttemptTimeout, 0
	c.policy.Classifier = retry.Chain(p.Classifier, c.classify)
	c.policy.Observer = retry.Observers(retry.ObserverFunc(c.discard), p.Observer)
	if !idempotent(c.req) {
		c.policy.NonIdempotent = true
	}
	if !replayable(c.req) {
		c.policy.MaxAttempts, c.policy.FreeRateLimits, c.policy.Overrides = 1, 0, nil
	}
}

// idempotent reports whether a request may be sent twice whatever became of the
// first.
//
// https://www.rfc-editor.org/rfc/rfc9110#section-9.2.2
func idempotent(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace,
		http.MethodPut, http.MethodDelete:
		return true
	default:
		return hasKey(req)
	}
}

// hasKey reports whether the server can tell a repeated request. An empty list
// counts, as in net/http: it marks a request without sending the header.
func hasKey(req *http.Request) bool {
	_, key := req.Header["Idempotency-Key"]
	_, xKey := req.Header["X-Idempotency-Key"]
	return key || xKey
}

func replayable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

// attempt sends the request once.
func (c *call) attempt(ctx context.Context) error {
	c.attempts++
	c.timedOut = false
	attemptCtx, cancel := c.withTimeout(ctx)
	req, err := c.clone(attemptCtx)
	if err != nil {
		cancel()
		return retry.MarkFinal(err)
	}
	resp, err := c.base.RoundTrip(req) //nolint:bodyclose // discard or the caller closes it
	if err == nil && resp == nil {
		err = retry.MarkFinal(errors.New("retryhttp: Base returned neither a response nor an error"))
	}
	if err != nil {
		c.timedOut = c.timeout > 0 && attemptCtx.Err() != nil && ctx.Err() == nil
		c.err = err
		cancel()
		return err
	}
	if resp.Request == req {
		resp.Request = c.req // whose context does not end with the body
	}
	holdContext(resp, cancel)
	c.resp = resp
	c.err = c.judge(resp)
	return c.err
}

// withTimeout returns the context of an attempt. It can always be canceled, so
// that draining a response can.
func (c *call) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.timeout <= 0 {
		return context.WithCancel(ctx)
	}
	if clock, ok := c.policy.Clock.(interface {
		AttemptContext(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
	}); ok {
		return clock.AttemptContext(ctx, c.timeout)
	}
	return context.WithTimeout(ctx, c.timeout)
}

// clone returns the request of an attempt.
func (c *call) clone(ctx context.Context) (*http.Request, error) {
	req := c.req.Clone(ctx)
	req.Trailer = c.req.Trailer // the caller fills it in while the body is read
	if c.attempts == 1 || c.req.Body == nil || c.req.Body == http.NoBody {
		return req, nil
	}
	body, err := c.req.GetBody()
	if err != nil {
		return nil, &rewindError{err, c.err}
	}
	req.Body = body
	return req, nil
}

// judge returns nil if the response is for the caller, and an error if it is a
// failure that can be retried.
func (c *call) judge(resp *http.Response) error {
	if resp.StatusCode < 400 || vetoed(resp.Header) {
		return nil
	}
	err := newStatusError(c.req, resp, c.now())
	v := c.policy.Classify(err)
	if v.Class == retry.Final || v == (retry.Verdict{}) {
		return nil
	}
	return err
}

// vetoed reports whether the server rules a retry out. "true" is not heeded: it
// would overrule the caller.
func vetoed(h http.Header) bool {
	return h.Get("X-Should-Retry") == "false" || h.Get("Stripe-Should-Retry") == "false"
}

// classify is asked after the Classifier of the Transport's policy. Most is left
// to [retry.Classify].
func (c *call) classify(err error) retry.Verdict {
	if c.timedOut {
		return retry.Verdict{Class: retry.Retryable, Category: "timeout"}
	}
	status, ok := err.(*StatusError) //nolint:errorlint // as judge made it
	if ok && status.StatusCode == http.StatusConflict && hasKey(c.req) {
		// The first request with this key is still at work.
		return retry.Verdict{Class: retry.Retryable, After: status.After, Category: "http_409"}
	}
	return retry.Verdict{}
}

// discard observes the policy: when it has decided for a retry, the response is
// of no use, and its connection is free for others during the wait.
func (c *call) discard(_ context.Context, e retry.Event) {
	if e.Kind == retry.Retrying && c.resp != nil {
		drain(c.resp)
		c.resp = nil
	}
}

// result turns the end of the call into that of the round trip.
func (c *call) result(err error) (*http.Response, error) {
	if c.resp == nil {
		return nil, err
	}
	if e, ok := err.(*retry.Error); ok && e.Cause != nil { //nolint:errorlint // Execute's own: the context ended
		_ = c.resp.Body.Close()
		return nil, err
	}
	return c.resp, nil
}

func (c *call) now() time.Time {
	if c.policy.Clock == nil {
		return time.Now()
	}
	return c.policy.Clock.Now()
}
