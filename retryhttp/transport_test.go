package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
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
		resp, err := client.Get(s.URL)
		require.NoError(t, err)
		assert.Equal(t, "status 200", text(t, resp))
		require.NoError(t, retryhttp.Do(client, nil, request(t, http.MethodGet, s.URL, nil), nothing))
		assert.EqualValues(t, 4, s.requests.Load())
		client.CloseIdleConnections()
	}
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	answering := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			assert.Equal(t, 2, r.ProtoMajor)
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			assert.Equal(t, "hello", string(body))
			w.WriteHeader(code)
		}
	}
	s, base := serveTLS(t, true, answering(503), answering(503), answering(200))
	req := request(t, http.MethodPut, s.URL, strings.NewReader("hello"))
	resp, err := client(t, base, atOnce(3)).Do(req)
	require.NoError(t, err)
	assert.Equal(t, 200, resp.StatusCode)
	assert.NoError(t, resp.Body.Close())
}

// A connection that is refused has transmitted nothing, so even a POST goes again.
func TestRefusedThenUp(t *testing.T) {
	t.Parallel()
	addr := provoke.ClosedPort(t)
	p := atOnce(3)
	var events retrytest.Recorder
	p.Observer = retry.Observers(&events, retry.ObserverFunc(func(_ context.Context, e retry.Event) {
		if e.Kind != retry.Retrying {
			return
		}
		listener, err := net.Listen("tcp", addr)
		if assert.NoError(t, err) {
			s := &http.Server{Handler: status(200), ReadHeaderTimeout: time.Minute}
			t.Cleanup(func() { _ = s.Close() })
			go func() { _ = s.Serve(listener) }()
		}
	}))
	resp, err := client(t, nil, p).Post("http://"+addr, "text/plain", strings.NewReader("hello"))
	require.NoError(t, err)
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
				p := atOnce(3)
				p.AttemptTimeout = timeout
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
	p.Observer = &events
	p.Classifier = func(err error) retry.Verdict {
		var status *retryhttp.StatusError
		if errors.As(err, &status) && status.StatusCode == http.StatusNotFound {
			return retry.Verdict{Class: retry.Retryable, Category: "not_yet"}
		}
		return retry.Verdict{}
	}
	resp, err := client(t, nil, p).Get(s.URL + "/a%2Fb?token=secret")
	require.NoError(t, err)
	assert.Equal(t, "status 501", text(t, resp))
	assert.Equal(t, []string{
		"1: GET " + s.URL + "/a%2Fb: 404 Not Found: retry in 0s",
		"2: GET " + s.URL + "/a%2Fb: 500 Internal Server Error: retry in 0s",
		"3: GET " + s.URL + "/a%2Fb: 404 Not Found: retry in 0s",
		"4: gave up (final): GET " + s.URL + "/a%2Fb: 501 Not Implemented",
	}, events.Timeline())
}

func TestSharedTransport(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1)%2 == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.Copy(w, r.Body)
	})
	p := atOnce(100)
	c := client(t, nil, p)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			body := fmt.Sprint("request ", i)
			resp, err := c.Do(request(t, http.MethodPut, s.URL, strings.NewReader(body)))
			if assert.NoError(t, err) {
				assert.Equal(t, body, text(t, resp))
			}
		})
	}
	wg.Wait()
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
	const ms = time.Millisecond
	tests := []struct {
		name string
		p    retry.Policy
		want []time.Duration
	}{
		{"nothing is set", retry.Policy{}, []time.Duration{200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 6400 * ms, 10_000 * ms}},
		{"MaxDelay", retry.Policy{MaxDelay: 300 * ms}, []time.Duration{200 * ms, 300 * ms, 300 * ms}},
		{"a Backoff", retry.Policy{Backoff: retry.Linear{Initial: 20_000 * ms}}, []time.Duration{20_000 * ms, 30_000 * ms}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var recorder retrytest.Recorder
			tt.p.MaxAttempts, tt.p.Jitter = len(tt.want)+1, retry.NoJitter
			tt.p.Clock, tt.p.Observer = &retrytest.Clock{}, &recorder
			before := tt.p
			base, _ := always(503)
			transport := &retryhttp.Transport{Base: base, Policy: &tt.p, Budget: retryhttp.NoBudget}
			for range 2 {
				_, err := get(t, transport, "http://h/")
				require.NoError(t, err)
			}
			require.Error(t, retryhttp.Do(&http.Client{Transport: base}, &tt.p, request(t, http.MethodGet, "http://h/", nil), nothing))
			recorder.ExpectWaits(t, slices.Concat(tt.want, tt.want, tt.want)...)
			assert.Equal(t, before, tt.p)
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
	require.ErrorIs(t, err, retry.StopRetryAfter)
	assert.Zero(t, retryhttp.ClassifyResponse(nil, time.Now()))
}

// An invitation to come back at once is one too.
func TestZeroHint(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503, "Retry-After", "0"), status(200))
	resp, err := client(t, nil, atOnce(2)).Post(s.URL, "text/plain", strings.NewReader("x"))
	require.NoError(t, err)
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
			outer.Observer, outer.Classifier = &nesting, retry.ThroughGiveUp
			if test.inside {
				inner.Observer = &nesting
			}
			client := &http.Client{Transport: &retryhttp.Transport{Policy: &inner, Budget: retryhttp.NoBudget}}
			require.Error(t, outer.Execute(t.Context(), func(ctx context.Context) error {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, http.NoBody)
				require.NoError(t, err)
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
