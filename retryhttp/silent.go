package retryhttp

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/errtree"
)

// answer watches whether an answer to a request begins. If an attempt times out before, its
// connection may be dead.
type answer struct {
	reused, http2, begun atomic.Bool

	to      atomic.Pointer[host] // whose answers are counted; nil if nobody knows it
	before  uint64               // the answers of the host when the request was sent
	base    *http.Transport      // of the request
	instead *http.Transport      // what the request was sent through; nil for base
}

// begin notes the first byte of an answer.
func (a *answer) begin() {
	a.begun.Store(true)
	if to := a.to.Load(); to != nil {
		to.answers.Add(1)
	}
}

// mayFallSilent reports whether net/http may end an attempt because no answer begins.
func (c *call) mayFallSilent() bool {
	base, wait := c.base, time.Duration(0)
	if client, ok := base.(clientTransport); ok {
		base, wait = client.client.Transport.(hops).base, client.client.Timeout
	}
	own, ok := base.(*http.Transport)
	return ok && (c.limited() || wait > 0 || own.ResponseHeaderTimeout > 0)
}

// route returns the transport for a request: base, or a clone of it if a connection to the
// host has fallen silent. [Do] calls it for every redirect too.
func (c *call) route(base *http.Transport, req *http.Request) *http.Transport {
	if c.sent == nil && !c.t.hosts.moved.Load() || c.t == unbudgeted || !cloneable(req) {
		return base
	}
	to := c.t.host(req)
	instead := to.instead.Load()
	if s := c.sent; s != nil {
		s.got.Store(false)
		s.http2.Store(false)
		s.begun.Store(false)
		s.before, s.base, s.instead = to.answers.Load(), base, instead
		s.to.Store(to)
	}
	if instead != nil {
		return instead
	}
	return base
}

// suspect looks for the next attempt's connection if the one of an attempt that failed with
// err may be dead.
func (c *call) suspect(err error) {
	s := c.sent
	if s == nil || !s.got.Load() || s.begun.Load() || !c.TimedOut() && !isTimeout(err) {
		return
	}
	if s.wrote.Load() && !s.http2.Load() { // HTTP/1.1: net/http has closed it
		c.fresh = c.fresh || s.reused.Load() // others may be as old
		return
	}
	to := s.to.Load()
	if to == nil || c.fresh || to.answers.Load() != s.before { // the server is slow here, and only here
		c.fresh = true
		return
	}
	c.t.hosts.moved.Store(true)
	to.leave(s.base, s.instead)
}

// leave lets all requests to a host use new connections instead of old ones, unless another
// call has done so. old is nil for those of base.
func (h *host) leave(base, old *http.Transport) {
	if h.instead.Load() != old {
		return
	}
	next := clone(base)
	if next.IdleConnTimeout <= 0 {
		next.IdleConnTimeout = idleConnTimeout // nobody else may close what is left in it
	}
	if !h.instead.CompareAndSwap(old, next) {
		return
	}
	// The last request over the connection before this one has ended by now.
	if previous := h.previous.Swap(old); previous != nil {
		previous.CloseIdleConnections()
	}
}

// idleConnTimeout is that of [http.DefaultTransport].
const idleConnTimeout = 90 * time.Second

// isTimeout reports whether an error of the tree is a timeout.
func isTimeout(err error) bool {
	return errtree.Any(err, func(node error) bool {
		e, ok := node.(interface{ Timeout() bool })
		if !ok {
			return false
		}
		yes, _ := errtree.Try(e.Timeout)
		return yes
	})
}

// cloneable reports whether a clone of a transport can send a request: it lacks the
// protocols that were registered.
func cloneable(req *http.Request) bool {
	return req.URL != nil && (req.URL.Scheme == "http" || req.URL.Scheme == "https")
}

// clone returns a clone that shares no connections with base. An HTTP/2 of the caller's own
// keeps its connections outside of base, so the clone has that of net/http.
func clone(base *http.Transport) *http.Transport {
	c := base.Clone()
	if _, own := c.TLSNextProto["h2"]; own {
		c.TLSNextProto, c.ForceAttemptHTTP2 = nil, true
	}
	return c
}
