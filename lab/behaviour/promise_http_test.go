package behaviour_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing/iotest"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
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
			closed := 0
			for _, ctx := range []context.Context{t.Context(), testkit.Canceled(t.Context())} {
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

// httpCalls are about calls as a whole.
var httpCalls = []promise[*httpContestant]{
	{
		"A dead context: nothing is sent",
		"A request whose context is canceled already.",
		inBubble(func(t tester, c *httpContestant) cell {
			e := c.send(usual, newRequest(t, testkit.Canceled(t.Context()), "GET", ""), reply{status: 200})
			return keptIf(e.requests == 0, "%s", count(e.requests, "request"))
		}),
	},
	{
		"Canceled in a wait: the last failure is kept, and the cause",
		"The connection breaks off; canceled in the wait after it, with a cause.",
		inBubble(func(t tester, c *httpContestant) cell {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			time.AfterFunc(time.Second, func() { cancel(errOther) })
			p := usual
			p.first, p.limit = time.Hour, time.Hour
			e := c.send(p, newRequest(t, ctx, "GET", ""), reply{err: errReset})
			last, cause := errors.Is(e.err, syscall.ECONNRESET), errors.Is(e.err, errOther)
			if last != cause {
				return cell{partly, choose(last, "the failure only", "the cause only")}
			}
			return keptIf(last, "%s", choose(last, "both", "neither: `"+text(e.err)+"`"))
		}),
	},
	{
		"An outage: retries are bounded",
		"1000 GET, one after another, to a host that answers 503; nothing is set for it.",
		inBubble(func(t tester, c *httpContestant) cell {
			total := 0
			base := roundTripper(func(req *http.Request) (*http.Response, error) {
				total++
				return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: newBody(""), Request: req}, nil
			})
			send := c.client(base, usual)
			for range 1000 {
				_, _ = send(newRequest(t, t.Context(), "GET", ""))
			}
			return keptIf(total < 1500, "%.3f requests per call", float64(total)/1000)
		}),
	},
	{
		"A body that breaks off is fetched again",
		"200 whose body ends too early, then a whole one; a function reads it within the attempt.",
		inBubble(func(t tester, c *httpContestant) cell {
			if c.reading == nil {
				return cell{absent, "none: the body is read after the call"}
			}
			requests, content := 0, ""
			base := roundTripper(func(req *http.Request) (*http.Response, error) {
				b := io.ReadCloser(newBody("content"))
				if requests++; requests == 1 {
					b = io.NopCloser(io.MultiReader(strings.NewReader("con"), iotest.ErrReader(io.ErrUnexpectedEOF)))
				}
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: b, Request: req}, nil
			})
			err := c.reading(base, usual, func(resp *http.Response) error {
				defer resp.Body.Close()
				all, err := io.ReadAll(resp.Body)
				content = string(all)
				return err
			})(newRequest(t, t.Context(), http.MethodGet, ""))
			return keptIf(err == nil && content == "content", "%s, “%s”", count(requests, "request"), content)
		}),
	},
	{
		"A body that can be read only once is sent again",
		"PUT of an `io.Reader` without GetBody; 503, then 200.",
		inBubble(func(t tester, c *httpContestant) cell {
			sent := func(p httpPolicy) int {
				req := newRequest(t, t.Context(), "PUT", "")
				req.Body = io.NopCloser(io.LimitReader(strings.NewReader("content"), 7))
				return c.send(p, req, reply{status: 503}, reply{status: 200}).requests
			}
			buffered := usual
			buffered.buffer = true
			plain, with := sent(usual), sent(buffered)
			if plain != with {
				return cell{partly, fmt.Sprintf("sent %s; with BufferBody %s", times(plain), times(with))}
			}
			return keptIf(plain == 2, "sent %s, from memory of any size", times(plain))
		}),
	},
	{
		"A hook changes the request before a retry",
		"To sign it anew: 503, then 200; the hook adds a header.",
		inBubble(func(t tester, c *httpContestant) cell {
			if c.signed == nil {
				return cell{partly, "by a RoundTripper beneath, which the caller has to write"}
			}
			var signatures []string
			send := c.signed(roundTripper(func(req *http.Request) (*http.Response, error) {
				signatures = append(signatures, req.Header.Get("Signature"))
				return &http.Response{StatusCode: choose(len(signatures) == 1, 503, 200), Header: http.Header{}, Body: newBody(""), Request: req}, nil
			}), func(req *http.Request) { req.Header.Set("Signature", "anew") })
			_, _ = send(newRequest(t, t.Context(), "GET", ""))
			return keptIf(len(signatures) == 2 && signatures[1] == "anew", "signed anew")
		}),
	},
	{
		"A circuit breaker",
		"It opens after 3 failures; 10 GET to a host that answers 503.",
		inBubble(func(t tester, c *httpContestant) cell {
			if c.broken == nil {
				return cell{absent, "none"}
			}
			requests := 0
			send := c.broken(roundTripper(func(req *http.Request) (*http.Response, error) {
				requests++
				return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: newBody(""), Request: req}, nil
			}))
			for range 10 {
				_, _ = send(newRequest(t, t.Context(), "GET", ""))
			}
			return keptIf(requests == 3, "%s of 10 sent", count(requests, "request"))
		}),
	},
}

// httpHints are about Retry-After.
var httpHints = []promise[*httpContestant]{
	{
		"Retry-After in seconds is a lower bound",
		"503 with `Retry-After: 5`, then 200. The backoff would wait for 1s.",
		inBubble(func(t tester, c *httpContestant) cell {
			return hinted(c.send(usual, newRequest(t, t.Context(), "GET", ""), reply{status: 503, headers: []string{"Retry-After", "5"}}, reply{status: 200}))
		}),
	},
	{
		"Retry-After as a date is a lower bound",
		"The same with a date, 5s from now, in the form of RFC 9110.",
		inBubble(func(t tester, c *httpContestant) cell {
			at := time.Now().Add(5 * time.Second).UTC().Format(http.TimeFormat)
			return hinted(c.send(usual, newRequest(t, t.Context(), "GET", ""), reply{status: 503, headers: []string{"Retry-After", at}}, reply{status: 200}))
		}),
	},
	{
		"Retry-After in the two older forms of a date is a lower bound",
		"Those of RFC 850 and of asctime, which RFC 9110 wants to be understood.",
		inBubble(func(t tester, c *httpContestant) cell {
			at := time.Now().Add(5 * time.Second).UTC()
			for _, form := range []string{"Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC} {
				got := hinted(c.send(usual, newRequest(t, t.Context(), "GET", ""), reply{status: 503, headers: []string{"Retry-After", at.Format(form)}}, reply{status: 200}))
				if got.mark != kept {
					return got
				}
				at = at.Add(6 * time.Second)
			}
			return cell{kept, "waited for 5s or up to 10 % more"}
		}),
	},
	{
		"A date is read by the server's clock",
		"`Date` and `Retry-After` of a server whose clock is an hour ahead: 5s.",
		inBubble(func(t tester, c *httpContestant) cell {
			now := time.Now().Add(time.Hour).UTC()
			e := c.send(usual, newRequest(t, t.Context(), "GET", ""),
				reply{status: 503, headers: []string{"Date", now.Format(http.TimeFormat), "Retry-After", now.Add(5 * time.Second).Format(http.TimeFormat)}}, reply{status: 200})
			ok := e.elapsed >= 5*time.Second && e.elapsed <= 6*time.Second
			return keptIf(ok, "%s", choose(ok, "waited for 5s or up to 10 % more", "waited for "+short(e.elapsed)))
		}),
	},
	{
		"An absurd Retry-After is neither a spin nor a wait for ever",
		"429 with each of these, forever: " + "`" + strings.Join(absurd, "`, `") + "`. Four attempts; given up on after a day.",
		func(t tester, c *httpContestant) cell {
			var bad []string
			for _, value := range absurd {
				if what := bubble(t, func(t tester) string { return absurdity(t, c, value) }); what != "" {
					bad = append(bad, "`"+value+"`: "+what)
				}
			}
			if len(bad) == 0 {
				return cell{kept, "ended at once, or waited as without it"}
			}
			return cell{broken, strings.Join(bad, "; ")}
		},
	},
	{
		"A Retry-After longer than the longest wait is not slept",
		"`Retry-After: 3600`; the longest wait is set to 30s.",
		inBubble(func(t tester, c *httpContestant) cell {
			e := c.send(usual, newRequest(t, t.Context(), "GET", ""), reply{status: 503, headers: []string{"Retry-After", "3600"}}, reply{status: 200})
			return keptIf(e.elapsed < time.Hour, "%s", choose(e.elapsed == 0, "returned at once, with the response", "slept for "+short(e.elapsed)))
		}),
	},
	{
		"A Retry-After beyond the deadline: returns at once",
		"`Retry-After: 20` and a deadline 10s away.",
		inBubble(func(t tester, c *httpContestant) cell {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			e := c.send(usual, newRequest(t, ctx, "GET", ""), reply{status: 503, headers: []string{"Retry-After", "20"}})
			return keptIf(e.elapsed == 0, "%s", choose(e.elapsed == 0, "returned at once", "slept for "+short(e.elapsed)+", until the deadline"))
		}),
	},
}

// absurd are values of Retry-After that mean nothing, or nothing sensible.
var absurd = []string{"9223372037", "99999999999999999999", "1e300", "-1", "Fri, 31 Dec 9999 23:59:59 GMT"}

// absurdity tells what is wrong with the answer to a Retry-After.
func absurdity(t tester, c *httpContestant, value string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	defer cancel()
	e := c.send(usual, newRequest(t, ctx, "GET", ""), reply{status: 429, headers: []string{"Retry-After", value}})
	switch waits := e.waits(); {
	case len(waits) > 0 && slices.Max(waits) == 0:
		return count(e.requests, "request") + " without a wait"
	case e.elapsed >= 24*time.Hour:
		return "still waiting after a day"
	default:
		return ""
	}
}

func hinted(e *exchange) cell {
	if e.requests != 2 {
		return cell{broken, count(e.requests, "request")}
	}
	ok := e.elapsed >= 5*time.Second
	return keptIf(ok, "%s", choose(ok, "waited for 5s or up to 10 % more", "waited for "+short(e.elapsed)))
}
