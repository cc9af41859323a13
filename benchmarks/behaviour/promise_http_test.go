package behaviour_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// errReset is what net/http says when a connection breaks off.
var errReset = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}

// httpRequests are about requests and responses.
var httpRequests = []promise[*httpContestant]{
	{
		"Responses that are retried are drained and closed",
		"Three 503, then 200.",
		inBubble(func(t tester, c *httpContestant) cell {
			e := c.send(usual, newRequest(t, t.Context(), "GET", ""), reply{status: 503}, reply{status: 503}, reply{status: 503}, reply{status: 200})
			drained, closed := 0, 0
			for _, b := range e.bodies[:len(e.bodies)-1] {
				drained += choose(b.read, 1, 0)
				closed += choose(b.closed, 1, 0)
			}
			return keptIf(drained == 3 && closed == 3, "of 3, %d drained, %d closed", drained, closed)
		}),
	},
	{
		"The endless body of a failure is not read to its end",
		"503 with a body of 64 MiB, then 200.",
		inBubble(func(t tester, c *httpContestant) cell {
			b := &bigBody{left: 64 << 20}
			e := c.refusing(t, b)
			read := 64<<20 - b.left
			return keptIf(e == 2 && read < 1<<20 && b.closed, "%s, %s read, %s", count(e, "request"), choose(read < 1<<20, "less than 1 MiB", "64 MiB"), choose(b.closed, "closed", "not closed"))
		}),
	},
	{
		"A body that does not come does not hold up the retry",
		"503 with a body that blocks until it is closed, or for a day; then 200. The wait is 1s.",
		inBubble(func(t tester, c *httpContestant) cell {
			b, start := &stalledBody{closed: make(chan struct{})}, time.Now()
			e := c.refusing(t, b)
			took := time.Since(start)
			_ = b.Close()
			return keptIf(e == 2 && took < time.Minute, "%s within %s", count(e, "request"), choose(took < time.Minute, "a minute", short(took.Round(time.Hour))))
		}),
	},
	{
		"Ten failures use one connection",
		"A real server on loopback answers 503 with 1 KiB nine times, then 200.",
		func(t tester, c *httpContestant) cell {
			n := connections(t, c)
			return keptIf(n == 1, "%s", count(n, "connection"))
		},
	},
	{
		"A POST that may have taken effect is not repeated",
		"POST; the server answers 500, or the connection breaks off after it was sent.",
		inBubble(func(t tester, c *httpContestant) cell {
			status := c.send(usual, newRequest(t, t.Context(), "POST", "order"), reply{status: 500})
			reset := c.send(usual, newRequest(t, t.Context(), "POST", "order"), reply{err: errReset})
			return keptIf(status.requests == 1 && reset.requests == 1, "500: sent %s; broken off: sent %s", times(status.requests), times(reset.requests))
		}),
	},
	{
		"A POST with an Idempotency-Key is repeated",
		"503, then 200.",
		inBubble(func(t tester, c *httpContestant) cell {
			req := newRequest(t, t.Context(), "POST", "order")
			req.Header.Set("Idempotency-Key", "1")
			e := c.send(usual, req, reply{status: 503}, reply{status: 200})
			return keptIf(e.requests == 2, "sent %s", times(e.requests))
		}),
	},
	{
		"A POST that was refused is repeated with its whole body",
		"64 KiB; 429 with `Retry-After` twice, then 200.",
		inBubble(func(t tester, c *httpContestant) cell {
			const size = 64 << 10
			var sizes []int
			base := roundTripper(func(req *http.Request) (*http.Response, error) {
				sent, _ := io.ReadAll(req.Body)
				_ = req.Body.Close()
				sizes = append(sizes, len(sent))
				status := choose(len(sizes) < 3, http.StatusTooManyRequests, http.StatusOK)
				return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {"1"}}, Body: newBody(""), Request: req}, nil
			})
			_, err := c.client(base, usual)(newRequest(t, t.Context(), "POST", strings.Repeat("x", size)))
			return keptIf(err == nil && slices.Equal(sizes, []int{size, size, size}), "sent %v bytes", sizes)
		}),
	},
	{
		"The caller's request body is closed",
		"PUT of a body that knows; 200, and again under a dead context.",
		inBubble(func(t tester, c *httpContestant) cell {
			dead, cancel := context.WithCancel(t.Context())
			cancel()
			closed := 0
			for _, ctx := range []context.Context{t.Context(), dead} {
				b := newBody("content")
				req := newRequest(t, ctx, "PUT", "")
				req.Body = b
				_ = c.send(usual, req, reply{status: 200})
				closed += choose(b.closed, 1, 0)
			}
			return keptIf(closed == 2, "%d of 2 closed", closed)
		}),
	},
	{
		"The caller's request stays as it was",
		"PUT with 503 twice, then 200; its body and headers are compared.",
		inBubble(func(t tester, c *httpContestant) cell {
			req := newRequest(t, t.Context(), "PUT", "content")
			before, headers := req.Body, fmt.Sprint(req.Header)
			_ = c.send(usual, req, reply{status: 503}, reply{status: 503}, reply{status: 200})
			same := req.Body == before && fmt.Sprint(req.Header) == headers
			return keptIf(same, "%s", choose(same, "it does", "its Body is another one"))
		}),
	},
	{
		"A bad certificate is final",
		"The transport returns the error for an unknown authority.",
		inBubble(func(t tester, c *httpContestant) cell {
			e := c.send(usual, newRequest(t, t.Context(), "GET", ""), reply{err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}})
			return keptIf(e.requests == 1, "tried %s", times(e.requests))
		}),
	},
	{
		"The last response comes back, readable",
		"503 forever.",
		inBubble(func(t tester, c *httpContestant) cell {
			e := c.send(usual, newRequest(t, t.Context(), "GET", ""), reply{status: 503})
			if e.resp == nil {
				return cell{broken, "an error: `" + text(e.err) + "`"}
			}
			content, err := io.ReadAll(e.resp.Body)
			return keptIf(e.err == nil && err == nil && string(content) == "overloaded", "%d, “%s”", e.resp.StatusCode, content)
		}),
	},
	{
		"A limit for each attempt, and the body stays readable",
		"1s for each attempt; the first hangs, the body of the second is read after it has come.",
		inBubble(func(t tester, c *httpContestant) cell {
			requests := 0
			base := roundTripper(func(req *http.Request) (*http.Response, error) {
				if requests++; requests == 1 {
					<-req.Context().Done()
					return nil, req.Context().Err()
				}
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: &contextBody{newBody("content"), req.Context()}, Request: req}, nil
			})
			p := usual
			p.timeout = time.Second
			resp, err := c.client(base, p)(newRequest(t, t.Context(), "GET", ""))
			if err != nil {
				return cell{broken, "an error: `" + text(err) + "`"}
			}
			content, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			return keptIf(err == nil && string(content) == "content", "%s, then “%s”, %s", count(requests, "request"), content, text(err))
		}),
	},
}

func connections(t tester, c *httpContestant) int {
	t.Helper()
	var opened, requests atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(choose(requests.Add(1) < 10, http.StatusServiceUnavailable, http.StatusOK))
		_, _ = w.Write(make([]byte, 1<<10))
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.client(transport, httpPolicy{attempts: 10, first: time.Millisecond, limit: time.Millisecond})(req)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	return int(opened.Load())
}

// contextBody cannot be read when its context has ended, as with net/http.
type contextBody struct {
	*body
	ctx context.Context
}

func (b *contextBody) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.body.Read(p)
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	default:
		return fmt.Sprintf("%d times", n)
	}
}
