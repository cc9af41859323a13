package contract_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

const payload = "payload"

// An exchange is a script whose attempts are requests. Their answers have headers.
type exchange struct {
	*script
	transport  retryhttp.Transport
	method     string
	key        bool // the request has an Idempotency-Key
	keyed      bool // or gets one
	idempotent bool
	watched    bool // by httptrace, because the call is not to take effect twice
	body       io.Reader
	replayable bool
	wired      bool // over a real connection
	headers    []http.Header
}

// A seeker has no GetBody, but Seek.
type seeker struct{ io.ReadSeeker }

func (seeker) Close() error { return nil }

func (d *decoder) exchange(s *script) *exchange {
	x := &exchange{script: s, method: pick(d, "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"), key: d.once(4), replayable: true}
	x.idempotent, x.keyed = x.key || x.method != "POST" && x.method != "PATCH", x.key
	if d.once(4) {
		x.transport.IdempotencyKey = retryhttp.RandomKey // for a request that is not idempotent
		x.idempotent, x.keyed = true, !x.idempotent || x.key
	}
	once := struct{ io.Reader }{strings.NewReader(payload)}
	switch d.n(6) {
	case 1:
		x.body = strings.NewReader(payload) // with GetBody
	case 2:
		x.body = seeker{strings.NewReader(payload)}
	case 3:
		x.body, x.transport.BufferBody = once, int64(len(payload))
	case 4:
		x.body, x.transport.BufferBody, x.replayable = once, int64(len(payload))-1, false
	case 5:
		x.body, x.replayable = once, false
	}
	x.watched = !x.idempotent || s.policy.NonIdempotent
	x.wired = d.once(16)
	for i := range s.attempts {
		if x.wired {
			s.attempts[i].takes = 0 // a real connection would see its context end
		}
		h := http.Header{}
		x.headers = append(x.headers, h)
		f := &s.attempts[i].failure
		if d.once(3) && f.err != nil {
			x.fails(d, f)
		} else {
			*f = x.answers(d, h)
		}
		f.once = !x.replayable
		// "A Final response, such as a 404, is a success": of these statuses none is.
		busy := f.answer >= 500 || slices.Contains([]int{408, 425, 429}, f.answer)
		final := verdict(&s.policy, failure{err: f.err, base: f.base}, false).Class == retry.Final
		f.harmless = f.answer > 0 && !busy && final
	}
	s.exchange = fmt.Sprintf("%s, key %v, idempotent %v, body %T, replayable %v, wired %v, %v",
		x.method, x.key, x.idempotent, x.body, x.replayable, x.wired, x.headers)
	return x
}

// A strangeError is unknown to everybody.
type strangeError struct{ error }

// fails makes an attempt fail without a response: of a connection, or with a mark.
func (x *exchange) fails(d *decoder, f *failure) {
	unsent := d.once(3) && x.watched
	switch d.n(4) {
	case 0:
		*f = failure{err: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}, unsent: x.watched}
		f.base.Class, f.base.NotApplied = retry.Retryable, true
	case 1:
		*f = failure{err: &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}, unsent: unsent}
		f.base.Class = retry.Retryable
	case 2:
		*f = failure{err: strangeError{errors.New("strange")}, unsent: unsent}
		if f.base.Class = retry.Final; unsent || x.idempotent {
			f.base.Class = retry.Retryable
		}
	default:
		if f.unsent = unsent; f.mark == nil || f.mark.Class == retry.Unknown {
			f.marked(retry.MarkFinal(f.err), retry.Verdict{Class: retry.Final})
		}
	}
}

// answers makes an attempt get a response, by the list of ClassifyResponse. 421 is left
// out, because it depends on the connection.
func (x *exchange) answers(d *decoder, h http.Header) failure {
	code := pick(d, 200, 204, 302, 404, 400, 403, 408, 409, 413, 423, 425, 429, 500, 501, 502, 503, 504, 505, 520, 524, 525, 529,
		530, 598, 599, 600)
	f := failure{answer: code}
	after, hint := d.hintHeader(h)
	limited, empty, never := d.once(9), d.once(9), d.once(9)
	switch v := &f.base; {
	case limited && code >= 400 && code < 600:
		v.Class, v.NotApplied = retry.RateLimited, true
	case code == 429, code == 403 && (hint || empty):
		v.Class, v.NotApplied = retry.RateLimited, true
	case code == 529:
		v.Class = retry.RateLimited
	case code == 408, code == 425, code == 503 && hint:
		v.Class, v.NotApplied = retry.Retryable, true
	case slices.Contains([]int{500, 502, 503, 504, 520, 524, 530, 598, 599}, code), hint && (code == 413 || code == 423),
		code == 409 && x.keyed:
		v.Class = retry.Retryable
	default:
		v.Class = retry.Final
	}
	if limited {
		h.Set("X-Envoy-Ratelimited", "true")
	}
	if empty {
		h.Set("X-RateLimit-Remaining", "0")
	}
	if never {
		h.Set(pick(d, "X-Should-Retry", "Stripe-Should-Retry"), "false")
		f.base.Class = retry.Final
	}
	if f.base.Category = fmt.Sprint("http_", code); f.base.Class != retry.Final {
		f.base.After = after
	}
	if code >= 400 {
		f.err = &retryhttp.StatusError{Method: x.method, URL: "http://example.com/", StatusCode: code, After: f.base.After}
	}
	return f
}

// hintHeader sets a header with a hint.
func (d *decoder) hintHeader(h http.Header) (time.Duration, bool) {
	switch d.n(8) {
	case 4:
		h.Set("Retry-After", "3")
		return 3 * time.Second, true
	case 5:
		h.Set("Retry-After", "7")
		h.Set("Retry-After-Ms", "1500")
		return 1500 * time.Millisecond, true
	case 6:
		h.Set("Date", "Fri, 20 Nov 2026 12:00:00 GMT")
		h.Set("Retry-After", pick(d, "Fri, 20 Nov 2026 12:00:30 GMT", "2026-11-20T12:00:30Z"))
		return 30 * time.Second, true
	case 7:
		h.Set("Retry-After", "0")
		return 0, true
	}
	return 0, false
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// base makes the attempts, as net/http does: it reads the body, closes it, and tells
// net/http/httptrace about the connection.
func (x *exchange) base(s *stage) roundTripper {
	return func(req *http.Request) (*http.Response, error) {
		n, a := s.calls, s.at(s.calls+1, s.now().Sub(s.start))
		sent := x.wired && a.failure.answer > 0 // over the real connection
		if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && !sent {
			told(trace, !a.failure.unsent)
		}
		if !sent {
			x.read(s, req)
		}
		err := s.operation(req.Context())
		if err == errInterrupted || a.failure.answer == 0 && err != nil {
			return nil, err
		}
		h := http.Header{}
		if n < len(x.headers) {
			h = x.headers[n]
		}
		if sent {
			return wire(req, a.failure.answer, h)
		}
		return &http.Response{StatusCode: a.failure.answer, Header: h, Body: http.NoBody, Request: req}, nil
	}
}

// read expects the whole body in each attempt.
func (x *exchange) read(s *stage, req *http.Request) {
	if req.Body == nil {
		return
	}
	text, err := io.ReadAll(req.Body)
	if err != nil || string(text) != payload {
		s.log("body: %q, %v", text, err)
	}
	_ = req.Body.Close()
}

// told tells that a connection was asked for, and that the request was written.
func told(trace *httptrace.ClientTrace, written bool) {
	if trace.GetConn != nil {
		trace.GetConn("example.com:80")
	}
	if !written {
		return
	}
	if trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	if trace.WroteHeaderField != nil {
		trace.WroteHeaderField("Host", []string{"example.com"})
	}
	if trace.WroteHeaders != nil {
		trace.WroteHeaders()
	}
	if trace.WroteRequest != nil {
		trace.WroteRequest(httptrace.WroteRequestInfo{})
	}
}

// server is a real one. It answers with the status and the headers that a request asks for.
var server = sync.OnceValue(func() string {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		text, err := io.ReadAll(req.Body)
		if err != nil || len(text) > 0 && string(text) != payload {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		for name, values := range req.Header {
			if name, ok := strings.CutPrefix(name, "Answer-"); ok {
				w.Header()[name] = values
			}
		}
		code, _ := strconv.Atoi(req.Header.Get("Status"))
		w.WriteHeader(code)
	})).Listener.Addr().String()
})

// wire sends a request to the server.
func wire(req *http.Request, status int, answer http.Header) (*http.Response, error) {
	sent := req.Clone(req.Context())
	sent.URL.Host = server()
	sent.Header.Set("Status", strconv.Itoa(status))
	for name, values := range answer {
		sent.Header["Answer-"+name] = values
	}
	resp, err := http.DefaultTransport.RoundTrip(sent)
	if err == nil {
		resp.Request = req
	}
	return resp, err
}

func testTransport(t *testing.T, d *decoder) {
	t.Helper()
	s := newStage(t, d.script())
	s.state = retry.State{}
	x := d.exchange(s.script)
	x.transport.Policy, x.transport.Base, x.transport.Budget = &s.policy, x.base(s), retryhttp.NoBudget
	req, err := http.NewRequestWithContext(s.ctx, x.method, "http://example.com/", x.body)
	require.NoError(t, err)
	if x.key {
		req.Header.Set("Idempotency-Key", "7")
	}
	resp, err := x.transport.RoundTrip(req)
	if err == nil {
		s.log("returned %s", result(resp.StatusCode, retryhttp.Attempts(resp), retryhttp.GaveUp(resp)))
		_ = resp.Body.Close()
	} else {
		s.returned(err)
	}
	s.policy.NonIdempotent = s.policy.NonIdempotent || !x.idempotent
	if s.policy.Backoff == nil { // of DefaultPolicy
		s.policy.Backoff = retry.Exponential{Initial: 200 * time.Millisecond}
		if s.policy.MaxDelay <= 0 {
			s.policy.MaxDelay = 10 * time.Second
		}
	}
	s.compare(t, (*run).live)
}
