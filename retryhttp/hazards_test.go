package retryhttp_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// What a review has found, or was afraid of.

func nothing(*http.Response) error { return nil }

// A POST that was answered with a redirect to look at the result has been done,
// whatever becomes of the look.
func TestDoIsServedByARedirect(t *testing.T) {
	t.Parallel()
	gone := serve(t, status(200))
	gone.Close()
	tests := []struct {
		name   string
		status int
		then   http.HandlerFunc
		posts  int64
	}{
		{"refused for its rate", http.StatusSeeOther, status(429), 1},
		{"unavailable, with a hint", http.StatusFound, status(503, "Retry-After", "1"), 1},
		{"connection refused", http.StatusSeeOther, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, gone.URL, http.StatusFound)
		}, 1},
		{"not served yet", http.StatusTemporaryRedirect, status(429), 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var posts atomic.Int64
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/pay" {
					posts.Add(1)
					http.Redirect(w, r, "/receipt", test.status)
					return
				}
				test.then(w, r)
			})
			req := request(t, http.MethodPost, s.URL+"/pay", strings.NewReader("10"))
			require.Error(t, retryhttp.Do(plainClient(t), atOnce(3), req, nothing))
			assert.Equal(t, test.posts, posts.Load())
		})
	}
}

// A transport that was interrupted while it had a connection may go on to write.
func TestInterruptedByAnotherTimeout(t *testing.T) {
	t.Parallel()
	writes := 0
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		trace := httptrace.ContextClientTrace(req.Context())
		trace.GetConn("h")
		trace.GotConn(httptrace.GotConnInfo{})
		<-req.Context().Done()
		writes++
		return nil, req.Context().Err()
	})
	c := &http.Client{Transport: base, Timeout: 10 * time.Millisecond}
	err := retryhttp.Do(c, atOnce(3), request(t, http.MethodPost, "http://h", strings.NewReader("x")), nothing)
	require.ErrorIs(t, err, retry.ErrMaybeApplied)
	assert.Equal(t, 1, writes)
}

// A body that could hold a hint and does not come is not waited for.
func TestBodyHintsDoNotHang(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"retry_after": 7`)
		assert.NoError(t, http.NewResponseController(w).Flush())
		hang(w, r)
	}, status(200))
	c := client(t, nil, atOnce(2))
	c.Transport.(*retryhttp.Transport).BodyHints = true
	resp, err := c.Get(s.URL)
	require.NoError(t, err)
	assert.Equal(t, "status 200", text(t, resp))
}

// cooled returns a Transport whose host wants no requests for some time, and
// which counts those that are sent.
func cooled(t *testing.T, p *retry.Policy, seconds string) (transport *retryhttp.Transport, sent *int) {
	t.Helper()
	n := 0
	transport = &retryhttp.Transport{Policy: p, Cooldown: time.Hour, Base: roundTripper(func(*http.Request) (*http.Response, error) {
		n++
		if n == 1 {
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: headers("Retry-After", seconds), Body: http.NoBody}, nil
		}
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})}
	resp, err := get(t, transport, "http://h/")
	require.NoError(t, err)
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	return transport, &n
}

// A cooldown is waited for as a hint would be.
func TestCooldownByThePolicy(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		policy retry.Policy
		hint   string
		want   error
	}{
		{"within MaxElapsed", retry.Policy{MaxElapsed: time.Minute}, "30", nil},
		{"beyond MaxElapsed", retry.Policy{MaxElapsed: time.Second}, "30", retry.ErrElapsed},
		{"as long as the backoff", retry.Policy{Backoff: retry.Constant(2 * time.Minute)}, "90", nil},
		{"too long", retry.Policy{}, "90", retry.ErrRetryAfterTooLong},
		{"allowed", retry.Policy{MaxRetryAfter: 2 * time.Minute}, "90", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				test.policy.MaxAttempts = 1
				transport, sent := cooled(t, &test.policy, test.hint)
				test.policy.MaxAttempts = 2
				_, err := get(t, transport, "http://h/")
				require.ErrorIs(t, err, test.want)
				want := 2
				if test.want != nil {
					want = 1
				}
				assert.Equal(t, want, *sent)
			})
		})
	}
}

func TestNilURL(t *testing.T) {
	t.Parallel()
	base, _ := always(429)
	limited := roundTripper(func(req *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(req)
		resp.Header = headers("Retry-After", "3600")
		return resp, err
	})
	transport := &retryhttp.Transport{Base: limited, Cooldown: time.Hour, AttemptHeader: "X-Attempt"}
	_, err := transport.RoundTrip(&http.Request{})
	require.NoError(t, err)
	_, err = transport.RoundTrip(&http.Request{})
	require.ErrorIs(t, err, retry.ErrRetryAfterTooLong)
	assert.Zero(t, retryhttp.ClassifyResponse(nil, time.Now()))
}

// After a redirect, it is the other host that is to blame.
func TestDoBlamesTheHostThatAnswered(t *testing.T) {
	t.Parallel()
	other := serve(t, status(429, "Retry-After", "1000"))
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/there" {
			http.Redirect(w, r, other.URL, http.StatusFound)
		}
	})
	c := client(t, nil, atOnce(1))
	c.Transport.(*retryhttp.Transport).Cooldown = time.Hour
	err := retryhttp.Do(c, nil, request(t, http.MethodGet, s.URL+"/there", nil), nothing)
	require.ErrorContains(t, err, "GET "+other.URL+": 429")
	require.NoError(t, retryhttp.Do(c, nil, request(t, http.MethodGet, s.URL+"/here", nil), nothing))
	err = retryhttp.Do(c, nil, request(t, http.MethodGet, other.URL, nil), nothing)
	require.ErrorContains(t, err, "not sent")
	assert.EqualValues(t, 1, other.requests.Load())
}

// The body of a final answer is worth waiting for.
func TestDoSlowErrorBody(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		assert.NoError(t, http.NewResponseController(w).Flush())
		time.Sleep(80 * time.Millisecond) // longer than a drain
		_, _ = io.WriteString(w, "no field x")
	})
	err := retryhttp.Do(plainClient(t), atOnce(3), request(t, http.MethodGet, s.URL, nil), nothing)
	var e *retryhttp.StatusError
	require.ErrorAs(t, err, &e)
	assert.Equal(t, "no field x", string(e.Body))
}

// Where there is no fresh connection to be had, the 421 is the answer.
func TestMisdirectedElsewhere(t *testing.T) {
	t.Parallel()
	base := &http.Transport{}
	stub, requests := always(421)
	base.RegisterProtocol("mem", stub)
	resp, err := get(t, &retryhttp.Transport{Base: base, Policy: atOnce(3)}, "mem://h/")
	require.NoError(t, err)
	assert.Equal(t, http.StatusMisdirectedRequest, resp.StatusCode)
	assert.Equal(t, 1, *requests)
}

// Each retry of a 421 that the caller or the server insists on has a connection of
// its own.
func TestMisdirectedAndInsisted(t *testing.T) {
	t.Parallel()
	s := serve(t, status(421, "X-Should-Retry", "true"))
	c := client(t, nil, atOnce(3))
	c.Transport.(*retryhttp.Transport).TrustShouldRetry = true
	resp, err := c.Get(s.URL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.EqualValues(t, 3, s.requests.Load())
	assert.EqualValues(t, 3, s.conns.Load())
}

func TestSecretsOfTheCallersOwnErrors(t *testing.T) {
	t.Parallel()
	s := serve(t, status(200))
	err := retryhttp.Do(plainClient(t), atOnce(3), request(t, http.MethodGet, s.URL+"/?token=s3cret", nil), func(resp *http.Response) error {
		return errors.New("cannot decode " + resp.Request.URL.String())
	})
	require.EqualError(t, err, "cannot decode "+s.URL+"/?token=***")

	req := request(t, http.MethodPut, serve(t, status(503)).URL, strings.NewReader("x"))
	req.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("open http://u:s3cret@h/") }
	_, err = (&retryhttp.Transport{Policy: atOnce(3)}).RoundTrip(req)
	require.ErrorContains(t, err, "open http://h/")
	assert.NotContains(t, err.Error(), "s3cret")
}

// A panic leaves no timer behind.
func TestPanicEndsTheAttempt(t *testing.T) {
	t.Parallel()
	var attempt *http.Request
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		attempt = req
		panic("boom")
	})
	p := atOnce(1)
	p.AttemptTimeout = time.Hour
	assert.PanicsWithValue(t, "boom", func() {
		_, _ = (&retryhttp.Transport{Base: base, Policy: p}).RoundTrip(request(t, http.MethodGet, "http://h", nil))
	})
	assert.Error(t, attempt.Context().Err())
}

// An invitation to come back at once is one too.
func TestZeroHint(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503, "Retry-After", "0"), status(200))
	resp, err := client(t, nil, atOnce(2)).Post(s.URL, "text/plain", strings.NewReader("x"))
	require.NoError(t, err)
	assert.Equal(t, "status 200", text(t, resp))
}
