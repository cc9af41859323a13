package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func TestDefaultPolicy(t *testing.T) {
	t.Parallel()
	p := retryhttp.DefaultPolicy()
	assert.Equal(t, "3 attempts, 200ms ×2 ≤10s, full jitter: waits 0–200ms, 0–400ms", p.String())
	assert.NoError(t, p.Validate())
	p.MaxAttempts = 1
	assert.Zero(t, retryhttp.DefaultPolicy().MaxAttempts, "every call returns a new policy")
}

// TestZeroTransport: a nil *Transport is not a nil RoundTripper, so http.Client calls it.
func TestZeroTransport(t *testing.T) {
	t.Parallel()
	for _, transport := range []*retryhttp.Transport{nil, {}} {
		s := serve(t, status(503), status(200), status(503), status(200))
		client := &http.Client{Transport: transport}
		resp := testkit.Must(client.Get(s.URL))(t)
		assert.Equal(t, "status 200", text(t, resp))
		require.NoError(t, retryhttp.Do(client, nil, request(t, http.MethodGet, s.URL, nil), nothing))
		assert.EqualValues(t, 4, s.requests.Load())
		client.CloseIdleConnections()
	}
}

// A connection that is refused has transmitted nothing, so even a POST goes again.
func TestRefusedThenUp(t *testing.T) {
	t.Parallel()
	addr := provoke.ClosedPort(t)
	p := atOnce(3)
	var events retrytest.Recorder
	p.Observer = retry.Observers(events.Observer(), &retry.Observer{Event: func(_ context.Context, e retry.Event) {
		if e.Kind != retry.Retrying {
			return
		}
		listener, err := net.Listen("tcp", addr)
		if assert.NoError(t, err) {
			s := &http.Server{Handler: status(200), ReadHeaderTimeout: time.Minute}
			t.Cleanup(func() { _ = s.Close() })
			go func() { _ = s.Serve(listener) }()
		}
	}})
	resp := testkit.Must(client(t, nil, p).Post("http://"+addr, "text/plain", strings.NewReader("hello")))(t)
	assert.Equal(t, "status 200", text(t, resp))
	require.Len(t, events.Events(), 2)
	assert.Equal(t, "conn_refused", events.Events()[0].Verdict.Category)
	assert.True(t, events.Events()[0].Verdict.NotApplied)
}

// A Base may break its promise, and so may a protocol that is registered with an http.Transport.
func TestBaseWithoutResponse(t *testing.T) {
	t.Parallel()
	calls := 0
	nothing := roundTripper(func(*http.Request) (*http.Response, error) {
		calls++
		return nil, nil //nolint:nilnil // this is the point
	})
	base := &http.Transport{}
	base.RegisterProtocol("mem", nothing)
	for _, base := range []http.RoundTripper{nothing, base} {
		_, err := client(t, base, atOnce(2)).Get("mem://x")
		require.ErrorContains(t, err, "neither a response nor an error")
	}
	assert.Equal(t, 2, calls)
}

// If the Base is a Transport that gave up, there is no retry, whether it returned an
// error or a response.
func TestNestedTransports(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{"status": status(503), "reset": reset} {
		for _, timeout := range []time.Duration{0, time.Minute} {
			t.Run(fmt.Sprintf("%s, %v", name, timeout), func(t *testing.T) {
				t.Parallel()
				s := serve(t, handler)
				p := within(timeout, 3)
				inner := client(t, nil, p).Transport
				resp, err := client(t, inner, p).Get(s.URL)
				if name == "status" {
					require.NoError(t, err)
					assert.Equal(t, "status 503", text(t, resp))
				} else {
					require.ErrorIs(t, err, retry.StopAttempts)
				}
				assert.EqualValues(t, 3, s.requests.Load())
			})
		}
	}
}

func TestClassifierAndObserver(t *testing.T) {
	t.Parallel()
	s := serve(t, status(404), status(500), status(404), status(501))
	var events retrytest.Recorder
	p := atOnce(9)
	p.Observer = events.Observer()
	p.Classifier = func(err error) retry.Verdict {
		var status *retryhttp.StatusError
		if errors.As(err, &status) && status.StatusCode == http.StatusNotFound {
			return retry.Verdict{Class: retry.Retryable, Category: "not_yet"}
		}
		return retry.Verdict{}
	}
	resp := testkit.Must(client(t, nil, p).Get(s.URL + "/a%2Fb?token=secret"))(t)
	assert.Equal(t, "status 501", text(t, resp))
	assert.Equal(t, []string{
		"1: GET " + s.URL + "/a%2Fb: 404 Not Found: retry in 0s",
		"2: GET " + s.URL + "/a%2Fb: 500 Internal Server Error: retry in 0s",
		"3: GET " + s.URL + "/a%2Fb: 404 Not Found: retry in 0s",
		"4: gave up (final): GET " + s.URL + "/a%2Fb: 501 Not Implemented",
	}, events.Timeline())
}

func TestCloseIdleConnections(t *testing.T) {
	t.Parallel()
	base := &closer{}
	client(t, base, nil).CloseIdleConnections()
	assert.True(t, base.closed)
	client(t, roundTripper(nil), nil).CloseIdleConnections() // has none
}

type closer struct {
	http.RoundTripper
	closed bool
}

func (c *closer) CloseIdleConnections() { c.closed = true }

// TestPolicyWithoutBackoff checks which settings a Policy gets from DefaultPolicy.
func TestPolicyWithoutBackoff(t *testing.T) {
	t.Parallel()
	testkit.TakesDefaults(t, func(t *testing.T, p *retry.Policy) {
		t.Helper()
		base, _ := always(503)
		testkit.Must(get(t, &retryhttp.Transport{Base: base, Policy: p}, "http://h/"))(t)
	}, func(t *testing.T, p *retry.Policy) {
		t.Helper()
		base, _ := always(503)
		require.Error(t, retryhttp.Do(&http.Client{Transport: base}, p, request(t, http.MethodGet, "http://h/", nil), nothing))
	})
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
	testkit.Must(transport.RoundTrip(&http.Request{}))(t)
	_, err := transport.RoundTrip(&http.Request{})
	require.ErrorIs(t, err, retry.StopRetryAfter)
	assert.Zero(t, retryhttp.ClassifyResponse(nil, time.Now()))
}

// An invitation to come back at once is one too.
func TestZeroHint(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503, "Retry-After", "0"), status(200))
	resp := testkit.Must(client(t, nil, atOnce(2)).Post(s.URL, "text/plain", strings.NewReader("x")))(t)
	assert.Equal(t, "status 200", text(t, resp))
}

// A loop around a client whose Transport retries: three times three requests. Without the
// Observer, the Transport is seen only if its attempts end with an error.
func TestTransportInsideOfAPolicy(t *testing.T) {
	t.Parallel()
	quick := retry.Policy{Backoff: retry.Constant(0)}
	for name, test := range map[string]struct {
		inside  bool
		handler http.HandlerFunc
		want    []int
	}{
		"a response, with the Observer": {true, status(503), []int{3, 3}},
		"a response":                    {false, status(503), nil},
		"an error":                      {false, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, []int{3, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				test.handler(w, r)
			})
			var nesting retrytest.Nesting
			inner, outer := quick, quick
			outer.Observer, outer.Classifier = nesting.Observer(), retry.On(retry.Retryable, retry.StopAttempts)
			if test.inside {
				inner.Observer = nesting.Observer()
			}
			client := &http.Client{Transport: &retryhttp.Transport{Policy: &inner, Budget: retryhttp.NoBudget}}
			require.Error(t, outer.Execute(t.Context(), func(ctx context.Context) error {
				req := testkit.Must(http.NewRequestWithContext(ctx, http.MethodGet, s.URL, http.NoBody))(t)
				resp, err := client.Do(req)
				if err != nil {
					return err
				}
				return errors.New(text(t, resp))
			}))
			assert.EqualValues(t, 9, requests.Load())
			assert.Equal(t, test.want, nesting.Attempts())
		})
	}
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
			p := within(time.Minute, 3)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			resp := testkit.Must(client(t, base, p).Do(request(t, http.MethodGet, s.URL, nil).WithContext(ctx)))(t)
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
			resp := testkit.Must(transport.RoundTrip(request(t, test.method, s.URL, test.body)))(t)
			require.NoError(t, resp.Body.Close())
			why := retryhttp.Why(resp)
			if test.want == "" {
				require.NoError(t, why)
				return
			}
			status := fmt.Sprintf("%s %s: %s", test.method, s.URL, resp.Status)
			require.EqualError(t, why, test.want+status)
			failure := testkit.As[*retryhttp.StatusError](t, why)
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
	testkit.Must(get(t, transport, "http://a/"))(t)
	resp, err := get(t, transport, "http://a/x")
	require.NoError(t, err)
	why := retryhttp.Why(resp)
	require.EqualError(t, why, "failed after 2 attempts (local retry budget exhausted): GET http://a/x: 503 Service Unavailable")
	gaveUp := testkit.As[*retry.Error](t, why)
	assert.Equal(t, retry.StopBudget, gaveUp.Stop)
	budget, ok := retryhttp.BudgetOf(resp).(*retry.Budget)
	require.True(t, ok)
	assert.Equal(t, 3, budget.Reserve)
	assert.Zero(t, budget.Balance(time.Now()))

	own := &retry.Budget{Reserve: retry.NoReserve}
	transport.Policy.Budget = own
	resp = testkit.Must(get(t, transport, "http://a/x"))(t)
	assert.Same(t, own, retryhttp.BudgetOf(resp))

	base, _ = always(404)
	resp, err = get(t, &retryhttp.Transport{Base: base}, "http://a/")
	require.NoError(t, err)
	assert.Nil(t, retryhttp.BudgetOf(resp))
	assert.Nil(t, retryhttp.BudgetOf(nil))
}
