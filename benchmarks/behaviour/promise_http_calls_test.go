package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing/iotest"
	"time"
)

// httpCalls are about calls as a whole.
var httpCalls = []promise[*httpContestant]{
	{
		"A dead context: nothing is sent",
		"A request whose context is canceled already.",
		inBubble(func(t tester, c *httpContestant) cell {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			e := c.send(usual, newRequest(t, ctx, "GET", ""), reply{status: 200})
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
