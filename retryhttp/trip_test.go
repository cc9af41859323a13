package retryhttp_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

func TestAttempts(t *testing.T) {
	t.Parallel()
	assert.Zero(t, retryhttp.Attempts(nil))
	assert.Equal(t, 1, retryhttp.Attempts(&http.Response{}))
	s := serve(t, status(200), status(503))
	c := client(t, nil, atOnce(4))
	c.Timeout = time.Minute // wraps the body
	resp, err := c.Get(s.URL)
	require.NoError(t, err)
	assert.Equal(t, "status 200", text(t, resp))
	assert.Equal(t, 1, retryhttp.Attempts(resp))
	resp, err = c.Get(s.URL)
	require.NoError(t, err)
	assert.Equal(t, "status 503", text(t, resp))
	assert.Equal(t, 4, retryhttp.Attempts(resp))
	assert.Equal(t, s.URL, resp.Request.URL.String())
}

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

func TestGaveUp(t *testing.T) {
	t.Parallel()
	assert.False(t, retryhttp.GaveUp(nil))
	assert.False(t, retryhttp.GaveUp(&http.Response{}))
	for name, test := range map[string]struct {
		method   string
		policy   *retry.Policy
		handlers []http.HandlerFunc
		want     bool
	}{
		"attempts":         {http.MethodGet, atOnce(2), []http.HandlerFunc{status(503)}, true},
		"one attempt":      {http.MethodGet, atOnce(1), []http.HandlerFunc{status(503)}, true},
		"may be applied":   {http.MethodPost, atOnce(2), []http.HandlerFunc{status(500)}, true},
		"success":          {http.MethodGet, atOnce(2), []http.HandlerFunc{status(200)}, false},
		"success at last":  {http.MethodGet, atOnce(2), []http.HandlerFunc{status(503), status(200)}, false},
		"final":            {http.MethodGet, atOnce(2), []http.HandlerFunc{status(404)}, false},
		"final at last":    {http.MethodGet, atOnce(2), []http.HandlerFunc{status(503), status(501)}, false},
		"a hint too long":  {http.MethodGet, atOnce(2), []http.HandlerFunc{status(503, "Retry-After", "3600")}, true},
		"a response again": {http.MethodGet, atOnce(3), []http.HandlerFunc{status(503), status(429)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp, err := client(t, nil, test.policy).Do(request(t, test.method, serve(t, test.handlers...).URL, nil))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, test.want, retryhttp.GaveUp(resp))
		})
	}
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
