package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// A client that follows a link may use the context of the last request. Attempts
// of the last response does not count for the next one.
func TestAttemptsAreNotInherited(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503), status(200))
	c := client(t, nil, atOnce(3))
	resp, err := c.Get(s.URL)
	require.NoError(t, err)
	assert.Equal(t, "status 200", text(t, resp))
	assert.Equal(t, 2, retryhttp.Attempts(resp))
	next := request(t, http.MethodGet, s.URL, nil).WithContext(resp.Request.Context())
	resp, err = c.Do(next)
	require.NoError(t, err)
	assert.Equal(t, "status 200", text(t, resp))
	assert.Equal(t, 1, retryhttp.Attempts(resp))
}

// Transports that clone requests, as oauth2's and otelhttp's must, put the clone into
// the response. Its context keeps what they put into it, and ends with the caller's,
// not with the attempt.
func TestContextOfResponse(t *testing.T) {
	t.Parallel()
	type key struct{}
	cloning := roundTripper(func(req *http.Request) (*http.Response, error) {
		return http.DefaultTransport.RoundTrip(req.Clone(context.WithValue(req.Context(), key{}, "span")))
	})
	s := serve(t, status(503), status(200))
	for name, base := range map[string]http.RoundTripper{"http.Transport": nil, "cloning": cloning} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := atOnce(3)
			p.AttemptTimeout = time.Minute
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			resp, err := client(t, base, p).Do(request(t, http.MethodGet, s.URL, nil).WithContext(ctx))
			require.NoError(t, err)
			assert.Equal(t, "status 200", text(t, resp))
			require.NoError(t, resp.Request.Context().Err(), "the body is closed, the caller is not done")
			_, limited := resp.Request.Context().Deadline()
			assert.False(t, limited)
			if name == "cloning" {
				assert.Equal(t, "span", resp.Request.Context().Value(key{}))
			}
			cancel()
			assert.ErrorIs(t, resp.Request.Context().Err(), context.Canceled)
		})
	}
}

// Why names the reason of every response that is a failure, and nothing else.
func TestWhy(t *testing.T) {
	t.Parallel()
	final := func(*http.Response) retry.Verdict { return retry.Verdict{Class: retry.Final, Category: "mine\n"} }
	once := func() io.Reader { return io.MultiReader(strings.NewReader("x")) } // cannot be read again
	for name, test := range map[string]struct {
		method    string
		body      io.Reader
		transport *retryhttp.Transport
		handlers  []http.HandlerFunc
		want      string // before the request; "" is no reason
	}{
		"success":         {"GET", nil, nil, []http.HandlerFunc{status(200)}, ""},
		"success at last": {"GET", nil, nil, []http.HandlerFunc{status(503), status(200)}, ""},
		"attempts":        {"GET", nil, nil, []http.HandlerFunc{status(503)}, "failed after 2 attempts: "},
		"maybe applied":   {"POST", nil, nil, []http.HandlerFunc{status(500)}, "failed after 1 attempt (it may have taken effect): "},
		"a long hint": {
			"GET", nil, nil,
			[]http.HandlerFunc{status(503, "Retry-After", "3600")},
			"failed after 1 attempt (server asks to wait 1h0m0s): ",
		},
		"a final answer":       {"GET", nil, nil, []http.HandlerFunc{status(404)}, "failed after 1 attempt (final: http_404): "},
		"a final answer later": {"GET", nil, nil, []http.HandlerFunc{status(503), status(404)}, "failed after 2 attempts (final: http_404): "},
		"a final failure":      {"GET", nil, nil, []http.HandlerFunc{status(501)}, "failed after 1 attempt (final: http_501): "},
		"the server forbids it": {
			"GET", nil, nil, []http.HandlerFunc{status(503, "X-Should-Retry", "false")}, "failed after 1 attempt (final: http_503): ",
		},
		"a body that is gone": {"PUT", once(), nil, []http.HandlerFunc{status(503)}, "failed after 1 attempt (final: body_not_replayable): "},
		"a hook": {
			"GET", nil, &retryhttp.Transport{ClassifyResponse: final},
			[]http.HandlerFunc{status(429)},
			`failed after 1 attempt (final: mine\n): `,
		},
		"a hook about an answer": {
			"GET", nil, &retryhttp.Transport{ClassifyResponse: final},
			[]http.HandlerFunc{status(403, "Retry-After", "1")},
			`failed after 1 attempt (final: mine\n): `,
		},
		"a hook about a success": {"GET", nil, &retryhttp.Transport{ClassifyResponse: final}, []http.HandlerFunc{status(200)}, ""},
		"an inner Transport": {
			"GET", nil, &retryhttp.Transport{Base: &retryhttp.Transport{Policy: atOnce(2)}},
			[]http.HandlerFunc{status(503)},
			"failed after 2 attempts: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			transport := test.transport
			if transport == nil {
				transport = &retryhttp.Transport{Budget: retryhttp.NoBudget}
			}
			transport.Policy = atOnce(2)
			s := serve(t, test.handlers...)
			resp, err := transport.RoundTrip(request(t, test.method, s.URL, test.body))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			why := retryhttp.Why(resp)
			if test.want == "" {
				require.NoError(t, why)
				return
			}
			status := fmt.Sprintf("%s %s: %s", test.method, s.URL, resp.Status)
			require.EqualError(t, why, test.want+status)
			var failure *retryhttp.StatusError
			require.ErrorAs(t, why, &failure)
			assert.Equal(t, resp.StatusCode, failure.StatusCode)
			var gaveUp *retry.Error
			assert.Equal(t, retryhttp.GaveUp(resp), errors.As(why, &gaveUp))
		})
	}
	require.NoError(t, retryhttp.Why(nil))
	require.NoError(t, retryhttp.Why(&http.Response{StatusCode: http.StatusServiceUnavailable}), "no Transport has decided that")
	require.EqualError(t, retryhttp.Why(&http.Response{StatusCode: http.StatusNotFound}), "failed after 1 attempt (final: http_404): GET : 404 Not Found")
}

// A server that fails twice a page, and a zero Transport: what a first program meets. The
// response says which limit it was, and how much of it is left.
func TestWhyNamesTheBudget(t *testing.T) {
	t.Parallel()
	base, _ := always(503)
	transport := &retryhttp.Transport{Base: base, Policy: atOnce(3)}
	_, err := get(t, transport, "http://a/")
	require.NoError(t, err)
	resp, err := get(t, transport, "http://a/x")
	require.NoError(t, err)
	why := retryhttp.Why(resp)
	require.EqualError(t, why, "failed after 2 attempts (local retry budget exhausted): GET http://a/x: 503 Service Unavailable")
	var gaveUp *retry.Error
	require.ErrorAs(t, why, &gaveUp)
	assert.Equal(t, retry.StopBudget, gaveUp.Stop)
	budget, ok := retryhttp.BudgetOf(resp).(*retry.Budget)
	require.True(t, ok)
	assert.Equal(t, 3, budget.Reserve)
	assert.Zero(t, budget.Balance(time.Now()))

	own := &retry.Budget{Reserve: retry.NoReserve}
	transport.Policy.Budget = own
	resp, err = get(t, transport, "http://a/x")
	require.NoError(t, err)
	assert.Same(t, own, retryhttp.BudgetOf(resp))

	base, _ = always(404)
	resp, err = get(t, &retryhttp.Transport{Base: base}, "http://a/")
	require.NoError(t, err)
	assert.Nil(t, retryhttp.BudgetOf(resp))
	assert.Nil(t, retryhttp.BudgetOf(nil))
}
