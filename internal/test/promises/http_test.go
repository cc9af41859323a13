package promises_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// base is a transport without a network. It counts its attempts.
type base struct {
	answer func(*http.Request) (*http.Response, error)
	calls  int
}

func (b *base) RoundTrip(req *http.Request) (*http.Response, error) {
	b.calls++
	return b.answer(req)
}

// answers is a base that answers with a status and headers.
func answers(code int, keysAndValues ...string) *base {
	return &base{answer: func(req *http.Request) (*http.Response, error) {
		h := http.Header{}
		for i := 0; i < len(keysAndValues); i += 2 {
			h.Set(keysAndValues[i], keysAndValues[i+1])
		}
		return &http.Response{StatusCode: code, Header: h, Body: http.NoBody, Request: req}, nil
	}}
}

// breaks is a base that fails.
func breaks(err error) *base {
	return &base{answer: func(*http.Request) (*http.Response, error) { return nil, err }}
}

// send sends a request under a policy, and returns the waits.
func send(t *testing.T, b http.RoundTripper, p retry.Policy, method, body string) ([]time.Duration, *http.Response, error) {
	t.Helper()
	clock := retrytest.NewClock(epoch)
	p.Clock, p.Jitter = clock, retry.NoJitter
	req, err := http.NewRequestWithContext(t.Context(), method, "http://user:s3cret@127.0.0.1/?t=t0ken", strings.NewReader(body))
	require.NoError(t, err)
	resp, err := (&retryhttp.Transport{Base: b, Policy: &p, Budget: retryhttp.NoBudget}).RoundTrip(req)
	if err == nil {
		assert.NoError(t, resp.Body.Close())
	}
	return clock.Sleeps(), resp, err
}

// serve is a server whose answers are those of the handlers, one after the other; the last stays.
func serve(t *testing.T, handlers ...http.HandlerFunc) *httptest.Server {
	t.Helper()
	next := make(chan http.HandlerFunc, len(handlers))
	for _, h := range handlers {
		next <- h
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h := handlers[len(handlers)-1]
		if len(next) > 0 {
			h = <-next
		}
		h(w, req)
	}))
	t.Cleanup(s.Close)
	return s
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// A POST is not sent again when it may have been received, unless it has a key.
func TestPostIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodGet} {
		attempts := map[bool]int{true: 3, false: 1}[method == http.MethodGet]
		for _, b := range []*base{answers(500), answers(503), breaks(syscall.ECONNRESET), breaks(io.ErrUnexpectedEOF)} {
			_, _, _ = send(t, b, retry.Policy{}, method, "")
			assert.Equal(t, attempts, b.calls, method)
		}
	}
	b := answers(503)
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1", nil)
	req.Header.Set("Idempotency-Key", "k")
	resp, err := (&retryhttp.Transport{Base: b, Policy: exact(0)}).RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, 3, b.calls)
}

// The last response is returned, with its body, and MaxAttempts counts it.
func TestTheLastResponseIsKept(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503), func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "maintenance")
	})
	resp, err := (&http.Client{Transport: &retryhttp.Transport{Policy: exact(0)}}).Get(s.URL)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	assert.NoError(t, err)
	assert.NoError(t, resp.Body.Close())
	assert.Equal(t, "maintenance", string(text))
	assert.Equal(t, 3, retryhttp.Attempts(resp))
}

// Nothing that is told of a request has the secrets of its URL.
func TestSecretsAreNotTold(t *testing.T) {
	t.Parallel()
	for _, b := range []*base{answers(503), breaks(syscall.ECONNRESET), breaks(&url.Error{Op: "Get", URL: "http://user:s3cret@127.0.0.1/?t=t0ken", Err: io.EOF})} {
		var told strings.Builder
		p := retry.Policy{Observer: retry.ObserverFunc(func(_ context.Context, e retry.Event) { fmt.Fprintf(&told, "%v %+v\n", e.Err, e.Err) })}
		_, _, err := send(t, b, p, http.MethodGet, "")
		fmt.Fprintf(&told, "%v %+v\n", err, err)
		assert.NotContains(t, told.String(), "s3cret")
		assert.NotContains(t, told.String(), "t0ken")
		assert.Equal(t, 3, b.calls)
	}
}

// A hint is a number of seconds or of milliseconds, a date, or a Unix time, and waited for.
func TestHintsAreRead(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{
		"Retry-After: 30": 30 * time.Second, "Retry-After: 0.25": 250 * time.Millisecond, "Retry-After-Ms: 1500": 1500 * time.Millisecond,
		"X-Ms-Retry-After-Ms: 1500": 1500 * time.Millisecond, "Retry-After: Tue, 14 Nov 2023 22:13:40 GMT": 20 * time.Second,
		"Retry-After: 1700000020": 20 * time.Second, "Retry-After: Tuesday, 14-Nov-23 22:13:40 GMT": 20 * time.Second,
	} {
		name, value, _ := strings.Cut(header, ": ")
		waits, _, err := send(t, answers(429, name, value), retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}, http.MethodGet, "")
		assert.NoError(t, err)
		assert.Equal(t, []time.Duration{want}, waits, header)
	}
}

// What is no hint is none, and the class stays.
func TestGarbageIsNoHint(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"-1", "+5", "-0", "0x10", "", "soon", "NaN", "Inf", "Tue, 14 Nov 2023 22:13:00 GMT"} {
		waits, _, err := send(t, answers(429, "Retry-After", value), *exact(7 * time.Second), http.MethodGet, "")
		assert.NoError(t, err)
		assert.Equal(t, []time.Duration{7 * time.Second, 7 * time.Second}, waits, "%q", value)
	}
}

// A hint that does not fit, or that is too long, is neither waited for nor cut short.
func TestLongHintsOfServersEndTheCall(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"86400", "9223372037", "18446744073709551617", "1" + strings.Repeat("0", 400), "Wed, 15 Nov 2023 22:13:40 GMT"} {
		b := answers(429, "Retry-After", value)
		waits, resp, err := send(t, b, *retryhttp.DefaultPolicy(), http.MethodGet, "")
		require.NoError(t, err)
		assert.Empty(t, waits, value)
		assert.Equal(t, 1, b.calls)
		assert.Equal(t, value, resp.Header.Get("Retry-After"), "for the caller to see")
	}
}

// A certificate that is not trusted is not worth another handshake, also where a client has wrapped
// the error.
func TestCertificatesAreFinal(t *testing.T) {
	t.Parallel()
	s, trusting := provoke.ServeTLS(t, nil, status(http.StatusOK))
	for name, config := range provoke.Distrusting(trusting) {
		network := provoke.Transport(t, &http.Transport{TLSClientConfig: config})
		b := &base{answer: network.RoundTrip}
		_, err := (&http.Client{Transport: &retryhttp.Transport{Base: b, Policy: exact(0)}}).Get(s.URL)
		require.Error(t, err, name)
		assert.Equal(t, 1, b.calls, "%s: %v", name, err)
		assert.Equal(t, retry.Final, retryhttp.Classify(fmt.Errorf("outer: %w", err)).Class)
	}
}

// What cannot help is not done: statuses, and requests that are wrong.
func TestWhatCannotHelp(t *testing.T) {
	t.Parallel()
	for _, code := range []int{0, 99, 400, 401, 402, 404, 405, 407, 410, 414, 415, 422, 426, 431, 501, 505, 511, 525, 600, 999} {
		b := answers(code, "Retry-After", "1")
		_, _, _ = send(t, b, retry.Policy{}, http.MethodGet, "")
		assert.Equal(t, 1, b.calls, "%d", code)
	}
	s := serve(t, status(http.StatusOK))
	for name, change := range map[string]func(*http.Request){
		"no host": func(r *http.Request) { r.URL.Host = "" }, "scheme": func(r *http.Request) { r.URL.Scheme = "gopher" },
		"method": func(r *http.Request) { r.Method = "GE T" }, "header": func(r *http.Request) { r.Header["a b"] = []string{"c"} },
		"no TLS": func(r *http.Request) { r.URL.Scheme = "https" },
	} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
		change(req)
		b := &base{answer: http.DefaultTransport.RoundTrip}
		_, err := (&retryhttp.Transport{Base: b, Policy: exact(0)}).RoundTrip(req)
		assert.Error(t, err, name)
		assert.Equal(t, 1, b.calls, "%s: %v", name, err)
	}
}

// What was not processed is sent again, a POST too.
func TestWhatCanHelp(t *testing.T) {
	t.Parallel()
	for _, b := range []*base{answers(408), answers(425), answers(429), breaks(retry.MarkRetryable(io.EOF))} {
		_, _, _ = send(t, b, retry.Policy{}, http.MethodPost, "x")
		assert.Equal(t, 3, b.calls)
	}
}

// Every attempt sends the whole body.
func TestBodiesAreWhole(t *testing.T) {
	t.Parallel()
	want := strings.Repeat("0123456789", 10_000)
	for _, body := range []io.Reader{strings.NewReader(want), struct{ io.Reader }{strings.NewReader(want)}, struct{ io.ReadSeeker }{strings.NewReader(want)}} {
		b := answers(503)
		answer := b.answer
		b.answer = func(req *http.Request) (*http.Response, error) {
			got, err := io.ReadAll(req.Body)
			assert.NoError(t, err)
			assert.True(t, string(got) == want, "%d bytes", len(got))
			return answer(req)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://127.0.0.1", body)
		require.NoError(t, err)
		resp, err := (&retryhttp.Transport{Base: b, Policy: exact(0), BufferBody: 1 << 20}).RoundTrip(req)
		require.NoError(t, err)
		assert.NoError(t, resp.Body.Close())
		assert.Equal(t, 3, b.calls)
	}
}

// The context of an attempt ends with the body, and not with the call.
func TestBodyIsReadableAfterwards(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503), func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) })
	p := exact(0)
	p.AttemptTimeout = time.Hour
	resp, err := (&http.Client{Transport: &retryhttp.Transport{Policy: p}}).Get(s.URL)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	assert.NoError(t, err)
	assert.NoError(t, resp.Body.Close())
	assert.Len(t, body, 1<<20)
}

// A discarded response gives its connection back.
func TestDiscardedBodiesAreDrained(t *testing.T) {
	t.Parallel()
	peers := map[string]bool{}
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		peers[req.RemoteAddr] = true
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "busy")
	})
	p := exact(0)
	p.MaxAttempts = 10
	resp, err := (&http.Client{Transport: &retryhttp.Transport{Base: provoke.Transport(t, &http.Transport{}), Policy: p, Budget: retryhttp.NoBudget}}).Get(s.URL)
	require.NoError(t, err)
	assert.NoError(t, resp.Body.Close())
	assert.Len(t, peers, 1)
}

// drip is a body that never comes to its end.
type drip struct {
	closed <-chan struct{}
	end    func()
}

func (d drip) Read(p []byte) (int, error) {
	select {
	case <-d.closed:
		return 0, http.ErrBodyReadAfterClose
	case <-time.After(10 * time.Millisecond):
		p[0] = ' '
		return 1, nil
	}
}

func (d drip) Close() error {
	d.end()
	return nil
}

// The rest of a discarded response is not waited for.
func TestSlowBodiesAreNotDrained(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, start := answers(503), time.Now()
		b.answer = func(*http.Request) (*http.Response, error) {
			ctx, cancel := context.WithCancel(context.Background())
			return &http.Response{StatusCode: http.StatusServiceUnavailable, ContentLength: -1, Body: drip{ctx.Done(), cancel}}, nil
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1", nil)
		resp, err := (&retryhttp.Transport{Base: b, Policy: exact(0)}).RoundTrip(req)
		require.NoError(t, err)
		assert.LessOrEqual(t, time.Since(start), 200*time.Millisecond)
		assert.NoError(t, resp.Body.Close())
		assert.Equal(t, 3, b.calls)
	})
}

// The timeout of an attempt does not end the call; the deadline of the caller does.
func TestWhoseTimeout(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[time.Duration]int{time.Second: 2, time.Minute: 1} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), 1500*time.Millisecond, errors.New("too slow for me"))
			defer cancel()
			b := &base{answer: func(req *http.Request) (*http.Response, error) {
				<-req.Context().Done()
				return nil, context.Cause(req.Context())
			}}
			p := exact(0)
			p.AttemptTimeout = timeout
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1", nil)
			_, err := (&retryhttp.Transport{Base: b, Policy: p}).RoundTrip(req)
			assert.Equal(t, want, b.calls)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorContains(t, err, "too slow for me")
		})
	}
}

// A body that breaks off is a failure of Do, and the request is sent again if it may be.
func TestBodiesThatBreakOff(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]string{http.MethodGet: "whole", http.MethodPost: "ha"} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			_, _ = io.WriteString(w, "ha")
		}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "whole") })
		req, err := http.NewRequestWithContext(t.Context(), method, s.URL, nil)
		require.NoError(t, err)
		got := ""
		err = retryhttp.Do(nil, exact(0), req, func(resp *http.Response) error {
			text, err := io.ReadAll(resp.Body)
			got = string(text)
			return err
		})
		assert.Equal(t, want, got)
		assert.Equal(t, method == http.MethodPost, errors.Is(err, retry.StopMaybeApplied), "%v", err)
	}
}
