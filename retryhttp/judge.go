package retryhttp

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/errtree"
	"github.com/seed-5ff3c98e/retry/internal/hint"
	"github.com/seed-5ff3c98e/retry/internal/known"
	"github.com/seed-5ff3c98e/retry/internal/verdict"
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

const categoryGaveUp = "gave_up"

// inner returns the error of an inner Transport that gave up with this response, with err in it,
// or else err: a job around both is judged by that.
func inner(resp *http.Response, err *StatusError) error {
	gaveUp, ok := told(resp).why.(*retry.Error) //nolint:errorlint // that of the Transport itself
	if !ok {
		return err
	}
	own := *gaveUp
	own.Err = err
	return &own
}

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

// isForeign reports whether an unknown error is not net/http's own. Then it comes from a
// hook such as DialContext or Proxy, from a connection that the hook has made, or from
// another RoundTripper.
func isForeign(err error) bool {
	if e, ok := err.(*url.Error); ok && e != nil && e.Err != nil { //nolint:errorlint // of an http.Client in Do
		err = e.Err
	}
	text, _ := errtree.Try(err.Error)
	return !ownType(err) && !strings.HasPrefix(text, "net/http: ") && !strings.HasPrefix(text, "http: ")
}

// decide ends an attempt that failed, if the request can be sent again at all.
func (c *call) decide(err error, v retry.Verdict) retry.Decision {
	if v.Class != retry.Final && !c.body.repeatable() {
		v = retry.Verdict{Class: retry.Final, After: v.After, Category: "body_not_replayable"}
	}
	v.NotApplied = v.NotApplied && !c.served
	return c.EndVerdict(err, v)
}

// decideAnswer is decide for a failure that is a response. A budget keeps retries from a server in
// trouble. A server that refuses a token is not in trouble, and the next attempt has another token.
func (c *call) decideAnswer(status int, err error, v retry.Verdict) retry.Decision {
	if status != http.StatusUnauthorized && status != http.StatusProxyAuthRequired {
		return c.decide(err, v)
	}
	p, budget := c.Policy, c.Budget
	spared := *p
	spared.Budget = nil
	c.Policy, c.Budget = &spared, nil
	d := c.decide(err, v)
	c.Policy, c.Budget = p, budget
	return d
}

// respond ends an attempt with the response to req.
func (c *call) respond(req *http.Request, resp *http.Response) {
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	limited := c.limited()
	if limited && c.read == nil {
		// The response is read under the context of its attempt, which goes on.
		cancelWithBody(resp, c.Detach())
	}
	c.resp = resp
	var v retry.Verdict
	if c.t.ClassifyResponse != nil {
		if v = c.t.ClassifyResponse(resp); v.Category == "" && v != (retry.Verdict{}) {
			v.Category = known.Status(resp.StatusCode, false).Category
		}
	}
	switch {
	case resp.Request == req, resp.Request == nil && c.read == nil && c.t.Prepare != nil: // see strayed
		resp.Request = c.req
	case resp.Request != nil && limited:
		outlive(c.req.Context(), resp)
	}
	switch {
	case resp.StatusCode >= 400 || v.Class != retry.Final && v != (retry.Verdict{}):
		c.refused(resp, v)
	case c.read != nil:
		c.consume(resp)
	default:
		c.succeed(resp)
	}
}

// succeed ends an attempt with a response that is no failure. It may say that the quota is
// used up.
func (c *call) succeed(resp *http.Response) {
	if c.Turn != 0 && hint.May(resp.Header) {
		if after, ok := hint.UsedUp(resp.Header, c.Policy.Now()); ok {
			c.EndVerdict(nil, retry.Verdict{Class: retry.RateLimited, After: after})
			return
		}
	}
	c.End(nil)
}

// refused ends an attempt whose response is a failure because of its status or the
// verdict of Transport.ClassifyResponse.
func (c *call) refused(resp *http.Response, own retry.Verdict) {
	var after time.Duration
	hinted := false
	if hint.May(resp.Header) {
		status := resp.StatusCode
		if status < 400 { // the status does not say that the request may be repeated
			status = http.StatusServiceUnavailable
		}
		after, hinted = ParseHint(status, resp.Header, c.Policy.Now())
	}
	var says bodyAnswer
	if (c.t.BodyHints || c.read != nil) && known.MoreInBody(resp.StatusCode) {
		says = peek(resp)
	}
	if !hinted {
		after, hinted = says.hint()
	}
	err, gaveUp := c.statusError(resp, after), GaveUp(resp) // by an inner Transport, which has said why
	switch err.verdict = own; {
	case own == retry.Verdict{}:
		err.verdict = c.judgeAnswer(resp, after, hinted, says.reason)
	case own.After == 0 && !own.Exact:
		err.verdict.After = after
	default:
		err.verdict.After = max(own.After, 0)
	}
	v := c.Verdict(err)
	if gaveUp && own == (retry.Verdict{}) && v == err.verdict {
		v = verdict.Permanent(categoryGaveUp)
	}
	c.fresh = c.fresh || resp.StatusCode == http.StatusMisdirectedRequest
	if v.Class == retry.RateLimited && c.t.Cooldown > 0 {
		c.blame(c.t.host(c.answered(resp)))
	}
	switch {
	case c.read != nil:
		err.Body = excerpt(resp, v.Class == retry.Final)
		c.resp = nil
		c.decideAnswer(resp.StatusCode, inner(resp, err), v)
	case v.Class == retry.Final && isAnswer(resp.StatusCode):
		if own != (retry.Verdict{}) || v != err.verdict && v.Category != categoryGaveUp { // Why cannot find it out by itself
			c.final = &finalError{err, c.Attempt(), v.Category}
		}
		c.End(nil)
	default:
		switch d := c.decideAnswer(resp.StatusCode, err, v); {
		case d.Retry: // its connection is free for others during the wait
			c.drain(resp)
			c.resp = nil
		case d.Stop == retry.StopFinal && !gaveUp:
			c.final = &finalError{err, c.Attempt(), d.Verdict.Category}
		}
	}
}

// blame lets a rate limit hold the host that has answered. After a redirect in Do, that is not
// the one whose turn the attempt has taken.
func (c *call) blame(answered *host) {
	asked := c.t.host(c.req)
	if c.Policy.Quota != &asked.quota || answered == asked {
		return
	}
	asked.quota.Return(c.Policy, c.Turn, 1)
	other := *c.Policy
	other.Quota = &answered.quota
	c.Turn, _, _ = other.Quota.Take(&other, 1)
	c.Policy = &other
}

// judgeAnswer classifies a response by its status, its headers, the reason in its body and
// the state of this call.
func (c *call) judgeAnswer(resp *http.Response, after time.Duration, hinted bool, reason known.Fact) retry.Verdict {
	if c.t.TrustShouldRetry && known.ShouldRetry(resp.Header) == "true" {
		return retry.Verdict{Class: retry.Retryable, NotApplied: true, After: after, Category: "should_retry"}
	}
	v := judgeStatus(resp, after, hinted, c.key != "" || conflictPasses(c.req), reason)
	if resp.StatusCode == http.StatusMisdirectedRequest {
		// Another connection may reach another server. It is tried once.
		if _, ok := afresh(c.base, c.req); !ok || c.fresh {
			v.Class = retry.Final
		}
	}
	return v
}

// isAnswer reports whether a final status means that the server did its work.
func isAnswer(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusMisdirectedRequest, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	default:
		return status < 500
	}
}
