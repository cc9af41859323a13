package retryhttp

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/errtree"
)

// Idempotent reports whether a request may be sent again even if it had an
// effect: its method is PUT or DELETE, or one that only reads (GET, HEAD, OPTIONS, TRACE,
// QUERY, and PROPFIND, REPORT and SEARCH of WebDAV), or it has an Idempotency-Key or
// X-Idempotency-Key header. A header with an empty list of values counts too, as in
// net/http: it marks a request without sending the header.
//
// https://www.rfc-editor.org/rfc/rfc9110#section-9.2.2, RFC 10008 (QUERY),
// https://www.iana.org/assignments/http-methods
func Idempotent(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace,
		http.MethodPut, http.MethodDelete, "QUERY", "PROPFIND", "REPORT", "SEARCH":
		return true
	default:
		return hasKey(req)
	}
}

// hasKey reports whether the server can tell a repeated request.
func hasKey(req *http.Request) bool {
	_, key := req.Header["Idempotency-Key"]
	_, xKey := req.Header["X-Idempotency-Key"]
	return key || xKey
}

// RandomKey is a function for [Transport].IdempotencyKey. It returns at least
// 128 random bits as text, without quotes.
func RandomKey(*http.Request) string { return rand.Text() }

// request returns the request of an attempt, with the context ctx.
func (c *call) request(ctx context.Context) (*http.Request, error) {
	_, trusted := c.base.(*http.Transport) // it does not change requests
	own := c.key != "" || c.t.AttemptHeader != "" || c.t.Prepare != nil || c.sent != nil || c.derives()
	if !own && c.body.shared == nil {
		first := c.Attempt() == 1
		if first && !trusted {
			c.kept = keep(c.req)
		}
		trusted = trusted || first || c.kept != nil && c.kept.unchanged(c.req)
		if first || trusted && !hasBody(c.req) {
			c.body.used = true
			return c.req, nil
		}
	}
	body, err := c.body.next()
	if err != nil {
		return nil, &rewindError{Redact(err), c.Last}
	}
	var req *http.Request
	switch {
	case trusted && !own:
		req = c.req.WithContext(ctx)
	case c.kept != nil:
		req = c.kept.request()
	default:
		req = c.req.Clone(ctx)
		req.Trailer = c.req.Trailer // the caller fills it in while the body is read
	}
	req.Body = c.sent.body(body)
	if !own {
		return req, nil
	}
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if c.key != "" {
		req.Header.Set("Idempotency-Key", c.key)
	}
	if c.t.AttemptHeader != "" {
		req.Header.Set(c.t.AttemptHeader, strconv.Itoa(c.Attempt()))
	}
	return req, nil
}

// derives reports whether an attempt may have a context of its own.
func (c *call) derives() bool {
	_, traced := c.Policy.Observer.(retry.AttemptObserver)
	return traced || c.limited()
}

// limited reports whether the context of an attempt may have a timeout.
func (c *call) limited() bool { return c.Policy.AttemptTimeout != 0 || c.Policy.Timeout > 0 }

// sent watches whether anything of a request was written, whether its body could be read,
// and whether an answer began.
type sent struct {
	once bool // the request is not idempotent, so what was written matters

	asked, got, wrote, broken atomic.Bool
	answer
}

// nothing reports whether it is certain that nothing the server could act on was
// written. A transport that calls no hook proves nothing, unless it is net/http's, which
// calls one whenever it wants a connection. An interrupted attempt with a connection
// proves nothing either, because HTTP/2 may then go on writing. The hook for the first
// encoded header field counts, because HTTP/2 calls WroteHeaders only after it has
// written them.
func (s *sent) nothing(interrupted, tells bool) bool {
	return s != nil && s.once && (tells || s.asked.Load()) && !s.wrote.Load() && (!interrupted || !s.got.Load())
}

// classify is classifyAttempt for an attempt that is watched. A failed dial proves nothing
// about the attempt, which may have had other steps: the hooks decide.
func (s *sent) classify(err error) retry.Verdict {
	v := classifyAttempt(err)
	v.NotApplied = v.NotApplied && !dialed(err)
	return v
}

// denies reports whether the server may have acted, whatever the policy's Classifier says
// of err: the request's body could not be read, or the dial that failed came after the
// first byte.
func (s *sent) denies(err error) bool {
	return s != nil && s.once && (s.broken.Load() || s.wrote.Load() && dialed(err))
}

// dialed reports whether a dial or a lookup has failed somewhere in the tree of err.
func dialed(err error) bool {
	return errtree.Any(err, func(node error) bool {
		switch e := node.(type) { //nolint:errorlint // every node is asked
		case *net.DNSError:
			return true
		case *net.OpError:
			return e != nil && e.Op == "dial"
		default:
			return false
		}
	})
}

// body returns a body that watches whether it can be read.
func (s *sent) body(body io.ReadCloser) io.ReadCloser {
	if s == nil || !s.once || body == nil || body == http.NoBody {
		return body
	}
	return watched{body, s}
}

type watched struct {
	io.ReadCloser
	by *sent
}

func (w watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		w.by.broken.Store(true)
	}
	return n, err
}

func (s *sent) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { s.asked.Store(true) },
		GotConn: func(info httptrace.GotConnInfo) {
			s.got.Store(true)
			s.reused.Store(info.Reused)
		},
		WroteHeaderField: func(name string, _ []string) {
			s.wrote.Store(true)
			if strings.HasPrefix(name, ":") {
				s.http2.Store(true)
			}
		},
		GotFirstResponseByte: s.begin,
	})
}
