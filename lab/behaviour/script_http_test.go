package behaviour_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// body is a body that knows what became of it.
type body struct {
	io.Reader
	read, closed bool
}

func newBody(text string) *body { return &body{Reader: strings.NewReader(text)} }

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read = b.read || err == io.EOF
	return n, err
}

func (b *body) Close() error {
	b.closed = true
	return nil
}

// exchange is what became of a request.
type exchange struct {
	requests int
	at       []time.Duration
	bodies   []*body // of the responses
	resp     *http.Response
	err      error
	elapsed  time.Duration
}

// waits returns the waits between the requests.
func (e *exchange) waits() []time.Duration {
	r := run{at: e.at}
	return r.waits()
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// reply is a response, or an error; headers are pairs.
type reply struct {
	status  int
	headers []string
	err     error
}

// usual is the policy of most requests.
var usual = httpPolicy{attempts: 4, first: time.Second, limit: 30 * time.Second}

// send sends a request to a server that gives its replies in order, the last for
// ever. Request bodies are read and closed, as a RoundTripper must.
func (c *httpContestant) send(p httpPolicy, req *http.Request, replies ...reply) *exchange {
	e, start := &exchange{}, time.Now()
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		if err := req.Context().Err(); err != nil {
			if req.Body != nil {
				_ = req.Body.Close()
			}
			return nil, err // as http.Transport does, before it sends anything
		}
		e.requests++
		e.at = append(e.at, time.Since(start))
		if req.Body != nil {
			_, _ = io.Copy(io.Discard, req.Body)
			_ = req.Body.Close()
		}
		r := replies[min(e.requests, len(replies))-1]
		if r.err != nil {
			return nil, r.err
		}
		b := newBody("overloaded")
		e.bodies = append(e.bodies, b)
		resp := &http.Response{
			Status: http.StatusText(r.status), StatusCode: r.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{}, Body: b, ContentLength: -1, Request: req,
		}
		for i := 0; i < len(r.headers); i += 2 {
			resp.Header.Set(r.headers[i], r.headers[i+1])
		}
		return resp, nil
	})
	e.resp, e.err = c.client(base, p)(req)
	e.elapsed = time.Since(start)
	return e
}

func newRequest(t tester, ctx context.Context, method, content string) *http.Request { //nolint:revive // The test comes first.
	t.Helper()
	var r io.Reader
	if content != "" {
		r = strings.NewReader(content)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://service.test/", r)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// inBubble runs a probe of HTTP on the clock of a bubble.
func inBubble(f func(tester, *httpContestant) cell) func(tester, *httpContestant) cell {
	return func(t tester, c *httpContestant) cell {
		return bubble(t, func(t tester) cell { return f(t, c) })
	}
}

// refusing sends a GET to a server that answers 503 with a body, then 200, and
// returns the number of requests.
func (c *httpContestant) refusing(t tester, b io.ReadCloser) (requests int) {
	t.Helper()
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		if requests++; requests == 1 {
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, ContentLength: -1, Body: b, Request: req}, nil
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: newBody(""), Request: req}, nil
	})
	_, _ = c.client(base, usual)(newRequest(t, t.Context(), http.MethodGet, ""))
	return requests
}

// bigBody is a body of so many bytes.
type bigBody struct {
	left   int
	closed bool
}

func (b *bigBody) Read(p []byte) (int, error) {
	if b.left == 0 || b.closed {
		return 0, io.EOF
	}
	n := min(len(p), b.left)
	b.left -= n
	return n, nil
}

func (b *bigBody) Close() error {
	b.closed = true
	return nil
}

// stalledBody is a body that does not come.
type stalledBody struct {
	once   sync.Once
	closed chan struct{}
}

func (b *stalledBody) Read([]byte) (int, error) {
	select {
	case <-b.closed:
	case <-time.After(24 * time.Hour):
	}
	return 0, io.ErrUnexpectedEOF
}

func (b *stalledBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}
