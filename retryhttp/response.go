package retryhttp

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/hint"
	"github.com/seed-5ff3c98e/retry/internal/known"
	"github.com/seed-5ff3c98e/retry/internal/verdict"
)

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
		v = c.t.ClassifyResponse(resp)
	}
	switch {
	case resp.Request == req, resp.Request == nil && c.read == nil && c.t.Prepare != nil: // see strayed
		resp.Request = c.req
	case resp.Request != nil && limited:
		outlive(c.req.Context(), resp)
	}
	answers := c.ask != nil && resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && v == (retry.Verdict{})
	switch {
	case resp.StatusCode >= 400 && !answers || v.Class != retry.Final && v != (retry.Verdict{}):
		c.refused(resp, v)
	case c.read == nil || c.consume(resp):
		c.succeed(resp)
	}
}

// cancelWithBody keeps the context of an attempt alive until the body of its
// response is read to the end or closed.
func cancelWithBody(resp *http.Response, cancel context.CancelFunc) {
	switch b := resp.Body.(type) {
	case io.ReadWriteCloser: // 101 Switching Protocols
		resp.Body = &duplex{body{b, cancel}, b}
	default:
		if b == http.NoBody {
			cancel()
			return
		}
		resp.Body = &body{b, cancel}
	}
}

// body ends the context of its attempt.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.cancel()
	}
	return n, err
}

func (b *body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// duplex is a body that can be written to.
type duplex struct {
	body
	io.Writer
}

// refused ends an attempt whose response is a failure because of its status or of own, the
// verdict of Transport.ClassifyResponse, which may be zero.
func (c *call) refused(resp *http.Response, own retry.Verdict) {
	if own != (retry.Verdict{}) {
		own.Category = cmp.Or(own.Category, known.Status(resp.StatusCode, false).Category)
		own.NotApplied = own.NotApplied || isRefusal(resp.StatusCode)
	}
	status := resp.StatusCode
	if status < 400 { // the status does not say that the request may be repeated
		status = http.StatusServiceUnavailable
	}
	var after time.Duration
	hinted, inBody := false, (c.t.BodyHints || c.read != nil) && known.MoreInBody(resp.StatusCode)
	if hint.May(resp.Header) {
		after, hinted = ParseHint(status, resp.Header, c.Policy.Now())
	}
	var says bodyAnswer
	if inBody {
		says = peek(resp)
	}
	if !hinted {
		after, hinted = says.hint()
	}
	err, gaveUp := c.statusError(resp, after), whyGaveUp(resp) // an inner Transport
	switch err.verdict = own; {
	case own == retry.Verdict{}:
		err.verdict = c.judgeAnswer(resp, after, hinted, says.reason)
	case own.After == 0 && !own.Exact:
		err.verdict.After = after
	default:
		err.verdict.After = max(own.After, 0)
	}
	v := c.Verdict(err)
	if gaveUp != nil && own == (retry.Verdict{}) && v == err.verdict {
		v = verdict.Permanent(categoryGaveUp)
	}
	c.fresh = c.fresh || resp.StatusCode == http.StatusMisdirectedRequest
	if v.Class == retry.RateLimited && c.t.Cooldown > 0 {
		c.blame(c.t.host(c.answered(resp)))
	}
	v = c.again(resp.StatusCode, v)
	switch {
	case c.read != nil:
		err.Body = excerpt(resp, v.Class == retry.Final)
		c.resp = nil
		c.decide(around(gaveUp, err), v)
	case v.Class == retry.Final && isAnswer(resp.StatusCode):
		if own != (retry.Verdict{}) || v != err.verdict && v.Category != categoryGaveUp { // Why cannot find it out by itself
			c.final = &finalError{err, c.Attempt(), v.Category}
		}
		c.End(nil)
	default:
		switch d := c.decide(err, v); {
		case d.Retry: // its connection is free for others during the wait
			c.drain(resp)
			c.resp = nil
		case d.Stop == retry.StopFinal && gaveUp == nil:
			c.final = &finalError{err, c.Attempt(), d.Verdict.Category}
		}
	}
}

const categoryGaveUp = "gave_up"

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

// answered returns the request that a response answers. After a redirect in Do
// it is not the first request.
func (c *call) answered(resp *http.Response) *http.Request {
	if resp.Request != nil {
		return resp.Request
	}
	return c.req
}

// around returns the error of an inner Transport that gave up with a response, with err in it,
// or else err: a job around both is judged by that.
func around(gaveUp *retry.Error, err *StatusError) error {
	if gaveUp == nil {
		return err
	}
	own := *gaveUp
	own.Err = err
	return &own
}

// again returns the verdict on a response. Where the server refuses a token, and the next attempt
// has another one, the request is sent once more, which is neither a failure nor a load that a
// Budget would keep away. A server that refuses the new token too has another reason.
func (c *call) again(status int, v retry.Verdict) retry.Verdict {
	before := c.renewed
	c.renewed = isRefusal(status) && v.Class == retry.Retryable && c.t.Prepare != nil
	switch {
	case c.renewed && before:
		v.Class = retry.Final
	case c.renewed:
		v.Class, v.NotStarted, v.NotApplied, v.Exact = retry.Pending, true, true, true
	}
	return v
}

// isRefusal reports whether the server wants to know first who asks.
func isRefusal(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusProxyAuthRequired
}

// decide ends an attempt that failed, if the request can be sent again at all.
func (c *call) decide(err error, v retry.Verdict) retry.Decision {
	if v.Class != retry.Final && !c.body.repeatable() {
		v = retry.Verdict{Class: retry.Final, After: v.After, Category: "body_not_replayable"}
	}
	v.NotApplied = v.NotApplied && !c.served
	return c.EndVerdict(err, v)
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

// consume calls read with the response of an attempt of Do, and reports whether that succeeded.
// Otherwise the attempt has ended.
func (c *call) consume(resp *http.Response) bool {
	c.resp = nil
	defer resp.Body.Close()
	if err := Redact(c.read(resp)); err != nil {
		c.Protocol = classifyBody
		c.decide(err, c.Verdict(err))
		return false
	}
	c.drain(resp)
	return true
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

// How much of a response is read, and for how long, to save its connection.
const (
	drainSize = 4 << 10
	drainTime = 50 * time.Millisecond
)

// excerpt returns the beginning of a body, and closes it. If final is true, the
// caller will see it, and excerpt waits for it as long as the context of the
// attempt lives.
func excerpt(resp *http.Response, final bool) []byte {
	defer resp.Body.Close()
	if !final {
		defer closeAfter(drainTime, resp.Body).Stop()
	}
	data, _ := io.ReadAll(io.LimitReader(resp.Body, drainSize))
	return data
}

// closeAfter ends a Read that hangs, unless the timer is stopped.
func closeAfter(d time.Duration, body io.Closer) *time.Timer {
	return time.AfterFunc(d, func() { _ = body.Close() })
}

// drain reads and closes the body of a discarded response, so that its
// connection can be used again. The rest of a long or slow body is not read.
func (c *call) drain(resp *http.Response) {
	if resp.Body != http.NoBody && resp.ContentLength != 0 && resp.ContentLength <= drainSize {
		if c.guard == nil {
			c.guard = new(guard)
		}
		c.guard.watch(resp.Body)
		discard(resp.Body)
		c.guard.stop()
	}
	_ = resp.Body.Close()
}

// guard ends hanging Reads of drain, with one timer for all attempts.
type guard struct {
	mu    sync.Mutex
	body  io.Closer
	timer *time.Timer
}

func (g *guard) watch(body io.Closer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.body = body; g.timer == nil {
		g.timer = time.AfterFunc(drainTime, g.fire)
	} else {
		g.timer.Reset(drainTime)
	}
}

func (g *guard) stop() {
	g.timer.Stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.body = nil
}

// fire may run late: then there is nothing to close, or a later body that has
// used some of its time.
func (g *guard) fire() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.body != nil {
		_ = g.body.Close()
	}
}

var discarded = sync.Pool{New: func() any { return new([drainSize]byte) }}

// discard reads up to drainSize bytes.
func discard(body io.Reader) {
	buf := discarded.Get().(*[drainSize]byte) //nolint:forcetypeassert // see New
	defer discarded.Put(buf)
	for free := buf[:]; len(free) > 0; {
		n, err := body.Read(free)
		if err != nil {
			return
		}
		free = free[n:]
	}
}
