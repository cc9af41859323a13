package retryhttp_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func TestB05_PostIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, code := range []int{500, 502, 503, 504} {
		s := serve(t, status(code))
		base := counting(t, &http.Transport{})
		assert.Equal(t, 1, attemptsOfThree(t, base, http.MethodPost, s.URL), "%d", code)
		assert.Equal(t, 1, attemptsOfThree(t, base, http.MethodPatch, s.URL), "%d", code)
		err := retryhttp.Do(&http.Client{Transport: base}, atOnce(3), request(t, http.MethodPost, s.URL, nil),
			nothing)
		require.ErrorIs(t, err, retry.StopMaybeApplied)
		assert.EqualValues(t, 3, s.requests.Load())
	}
	var mu sync.Mutex
	keys := map[string]int{}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		keys[r.Header.Get("Idempotency-Key")]++
		mu.Unlock()
		w.WriteHeader(http.StatusInternalServerError)
	})
	assert.Equal(t, 3, attemptsOfThree(t, counting(t, &http.Transport{}), http.MethodPost, s.URL, "Idempotency-Key", "k1"))
	assert.Equal(t, map[string]int{"k1": 3}, keys)
}

func TestB06_TheLastResponseIsKept(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503, "X-Why", "maintenance"))
	resp, err := client(t, nil, atOnce(3)).Get(s.URL)
	require.NoError(t, err)
	assert.Equal(t, 503, resp.StatusCode)
	assert.Equal(t, "maintenance", resp.Header.Get("X-Why"))
	assert.Equal(t, "status 503", text(t, resp))

	err = retryhttp.Do(nil, atOnce(3), request(t, http.MethodGet, s.URL, nil), nothing)
	var failed *retryhttp.StatusError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, 503, failed.StatusCode)
	assert.Equal(t, "status 503", string(failed.Body))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := &retry.Policy{Backoff: retry.Constant(time.Hour)}
	p.Observer = retry.ObserverFunc(func(context.Context, retry.Event) { cancel() })
	_, err = client(t, nil, p).Do(request(t, http.MethodGet, s.URL, nil).WithContext(ctx))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorAs(t, err, &failed, "also when the context ends")
	assert.Equal(t, 503, failed.StatusCode)
}

// The idle connections also belong to other requests.
func TestB07_OtherConnectionsStay(t *testing.T) {
	t.Parallel()
	good := serve(t, status(200))
	base := provoke.Transport(t, &http.Transport{})
	c := client(t, base, atOnce(3))
	for _, bad := range []http.HandlerFunc{status(503), reset, status(421), status(404)} {
		resp, err := c.Get(good.URL)
		require.NoError(t, err)
		assert.Equal(t, "status 200", text(t, resp))
		resp, err = c.Get(serve(t, bad).URL)
		if err == nil {
			_ = text(t, resp)
		}
	}
	assert.EqualValues(t, 1, good.conns.Load())
}

// distrustingTransports is a server, and transports for which its certificate does not
// hold.
func distrustingTransports(t *testing.T) (url string, transports map[string]*http.Transport) {
	t.Helper()
	s, trusting := provoke.ServeTLS(t, nil, status(200))
	transports = map[string]*http.Transport{}
	for name, config := range provoke.Distrusting(trusting) {
		transports[name] = &http.Transport{TLSClientConfig: config}
	}
	return s.URL, transports
}

func TestB09_Certificates(t *testing.T) {
	t.Parallel()
	url, transports := distrustingTransports(t)
	for name, base := range transports {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			counted := counting(t, base)
			_, err := (&retryhttp.Transport{Base: counted, Policy: atOnce(3)}).RoundTrip(request(t, method, url, nil))
			require.Error(t, err, name)
			assert.EqualValues(t, 1, counted.attempts.Load(), "%s: %v", name, err)
		}
	}
}

// Nor are they retried where a client has wrapped the error.
func TestB10_CertificatesWrapped(t *testing.T) {
	t.Parallel()
	url, transports := distrustingTransports(t)
	for name, transport := range transports {
		base := counting(t, transport)
		err := retryhttp.Do(&http.Client{Transport: base}, atOnce(3), request(t, http.MethodGet, url, nil),
			nothing)
		var invalid *tls.CertificateVerificationError
		require.ErrorAs(t, err, &invalid, name)
		assert.EqualValues(t, 1, base.attempts.Load(), name)
		assert.Equal(t, retry.Final, retryhttp.Classify(fmt.Errorf("outer: %w", fmt.Errorf("inner: %w", err))).Class)
	}
}

func TestB11_WhatCannotHelp(t *testing.T) {
	t.Parallel()
	s := serve(t, status(200))
	garbage := provoke.Serve(t, provoke.Say("SSH-2.0-OpenSSH_9.6\r\n\r\n"))
	demanding, trusting := provoke.ServeTLS(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert}, status(200))
	proxy, err := url.Parse(serve(t, status(407)).URL)
	require.NoError(t, err)
	noName := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "x.invalid", IsNotFound: true}}
	}}
	tests := []struct {
		name   string
		base   *http.Transport
		url    string
		change func(*http.Request)
	}{
		{"no host", &http.Transport{}, s.URL, func(r *http.Request) { r.URL.Host = "" }},
		{"no URL", &http.Transport{}, s.URL, func(r *http.Request) { r.URL = nil }},
		{"unsupported scheme", &http.Transport{}, s.URL, func(r *http.Request) { r.URL.Scheme = "gopher" }},
		{"invalid method", &http.Transport{}, s.URL, func(r *http.Request) { r.Method = "GE T" }},
		{"invalid header name", &http.Transport{}, s.URL, func(r *http.Request) { r.Header["a b"] = []string{"c"} }},
		{"invalid header value", &http.Transport{}, s.URL, func(r *http.Request) { r.Header["A"] = []string{"b\n"} }},
		{"malformed response", &http.Transport{}, garbage.URL(), nil},
		{"no TLS", &http.Transport{}, "https://" + garbage.Addr, nil},
		{"scheme mismatch", &http.Transport{}, strings.Replace(s.URL, "http:", "https:", 1), nil},
		{"remote alert", &http.Transport{TLSClientConfig: trusting}, demanding.URL, nil},
		{"proxy 407", &http.Transport{Proxy: http.ProxyURL(proxy)}, "https://example.invalid", nil},
		{"name does not exist", noName, "http://x.invalid", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			base := counting(t, test.base)
			req := request(t, http.MethodGet, test.url, nil)
			if test.change != nil {
				test.change(req)
			}
			transport := &retryhttp.Transport{Base: base, Policy: atOnce(3), Budget: retryhttp.NoBudget}
			_, err := transport.RoundTrip(req)
			require.Error(t, err)
			var gaveUp *retry.Error
			assert.NotErrorAs(t, err, &gaveUp, "Final errors are returned as they are")
			assert.EqualValues(t, 1, base.attempts.Load(), "%v", err)
		})
	}
}

func TestB11_StatusesThatCannotHelp(t *testing.T) {
	t.Parallel()
	for _, code := range []int{
		0, 1, 99, 400, 401, 402, 404, 405, 406, 407, 410, 411, 412, 414, 415, 416, 417, 422, 424, 426, 428, 431, 451, 499,
		501, 505, 506, 507, 508, 510, 511, 525, 526, 600, 700, 999,
	} {
		assert.Equal(t, 1, attemptsOfThree(t, answering(code, "Retry-After", "1"), http.MethodGet, "http://127.0.0.1"), "%d", code)
	}
}

func TestB12_WhatCanHelp(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPatch} {
		for _, code := range []int{408, 425} {
			assert.Equal(t, 3, attemptsOfThree(t, answering(code), method, "http://127.0.0.1"), "%s %d", method, code)
		}
		// 421: once more, over another connection.
		s := serve(t, status(421), status(200))
		resp, err := client(t, nil, atOnce(3)).Do(request(t, method, s.URL, nil))
		require.NoError(t, err)
		assert.Equal(t, "status 200", text(t, resp))
		assert.EqualValues(t, 2, s.conns.Load(), method)
		s = serve(t, status(421))
		assert.Equal(t, 421, func() int {
			resp, err := client(t, nil, atOnce(9)).Do(request(t, method, s.URL, nil))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			return resp.StatusCode
		}())
		assert.EqualValues(t, 2, s.requests.Load(), method)
	}
}

func TestB14_BodiesAreWhole(t *testing.T) {
	t.Parallel()
	want := strings.Repeat("0123456789", 10_000)
	bodies := map[string]func(*http.Request){
		"GetBody": func(*http.Request) {},
		"seeker": func(r *http.Request) {
			seeker := strings.NewReader("skipped" + want)
			_, _ = seeker.Seek(7, io.SeekStart)
			r.GetBody, r.Body = nil, struct {
				io.ReadSeeker
				io.Closer
			}{seeker, io.NopCloser(nil)}
		},
		"buffered": func(r *http.Request) { r.GetBody = nil },
	}
	for name, prepare := range bodies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := func(next http.HandlerFunc) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					assert.NoError(t, err)
					assert.True(t, string(body) == want, "%d bytes", len(body))
					next(w, r)
				}
			}
			s := serve(t, check(status(503)), check(reset), check(status(200)))
			transport := &retryhttp.Transport{Base: counting(t, &http.Transport{}), Policy: atOnce(3), BufferBody: 1 << 20}
			req := request(t, http.MethodPut, s.URL, strings.NewReader(want))
			prepare(req)
			getBody, asked := req.GetBody, 0
			if getBody != nil {
				req.GetBody = func() (io.ReadCloser, error) { asked++; return getBody() }
			}
			resp, err := transport.RoundTrip(req)
			require.NoError(t, err)
			assert.Equal(t, "status 200", text(t, resp))
			if getBody != nil {
				assert.Equal(t, 2, asked, "for every attempt but the first, and not kept in memory")
			}
		})
	}
}

// The context of the attempt ends with the body, not with the call.
func TestB14_BodyIsReadableAfterwards(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1<<20)
	s := serve(t, status(503), func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, large) })
	p := atOnce(2)
	p.AttemptTimeout = time.Hour
	resp, err := client(t, nil, p).Get(s.URL)
	require.NoError(t, err)
	assert.Len(t, text(t, resp), len(large))
}

// DNS: only "there is no such name" is final.
func TestB16_Names(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err      net.DNSError
		attempts int
	}{
		{net.DNSError{IsNotFound: true}, 1},
		{net.DNSError{IsTimeout: true}, 3},
		{net.DNSError{IsTemporary: true}, 3},
		{net.DNSError{IsTimeout: true, IsTemporary: true}, 3},
	}
	for _, test := range tests {
		for _, method := range []string{http.MethodGet, http.MethodPost} { // nothing was sent
			base := undialed(&net.OpError{Op: "dial", Net: "tcp", Err: &test.err})
			assert.Equal(t, test.attempts, attemptsOfThree(t, base, method, "http://127.0.0.1"), "%s %+v", method, test.err)
		}
	}
	for _, err := range []error{net.ErrClosed, syscall.ECONNREFUSED} {
		base := failing(&net.OpError{Op: "read", Net: "tcp", Err: err})
		assert.Equal(t, 3, attemptsOfThree(t, base, http.MethodGet, "http://127.0.0.1"), "%v", err)
	}
}

func TestB17_Errnos(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		syscall.EPIPE, syscall.ECONNRESET, &net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)},
		io.ErrUnexpectedEOF, &url.Error{Op: "Get", URL: "x", Err: io.EOF}, &net.OpError{Op: "read", Err: io.EOF},
	} {
		assert.Equal(t, 3, attemptsOfThree(t, failing(err), http.MethodGet, "http://127.0.0.1"), "%v", err)
		assert.Equal(t, 1, attemptsOfThree(t, failing(err), http.MethodPost, "http://127.0.0.1"), "%v", err)
	}
	for _, errno := range []syscall.Errno{syscall.EACCES, syscall.EPERM} {
		err := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)}
		assert.Equal(t, 1, attemptsOfThree(t, failing(err), http.MethodGet, "http://127.0.0.1"), "%v", err)
	}
	assert.Equal(t, 1, attemptsOfThree(t, failing(x509.UnknownAuthorityError{}), http.MethodGet, "http://127.0.0.1"))
}

// Errors without a type in net/http are found beneath other errors too.
func TestB23_DeepDown(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		post int
	}{
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ENETUNREACH)}, 3},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, 3},
		{errors.New("http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug=\"\""), 1},
		{errors.New("http2: client connection lost"), 1},
		{errors.New("http2: Transport: cannot retry err [stream error] after Request.Body was written; define Request.GetBody to avoid this error"), 3},
	} {
		for _, err := range []error{
			test.err, &url.Error{Op: "Get", URL: "http://x", Err: test.err}, fmt.Errorf("a: %w", fmt.Errorf("b: %w", test.err)),
			errors.Join(errors.New("closing"), test.err),
		} {
			assert.Equal(t, 3, attemptsOfThree(t, failing(err), http.MethodGet, "http://127.0.0.1"), "%v", err)
		}
		post := failing(test.err)
		if _, ok := test.err.(*net.OpError); ok {
			assert.Equal(t, 1, attemptsOfThree(t, post, http.MethodPost, "http://127.0.0.1"), "nobody saw that it was not sent: %v", test.err)
			post = undialed(test.err)
		}
		assert.Equal(t, test.post, attemptsOfThree(t, post, http.MethodPost, "http://127.0.0.1"), "%v", test.err)
	}
}

func TestB24_HintsInErrors(t *testing.T) {
	t.Parallel()
	errCause := errors.New("cause")
	for _, test := range []struct {
		hint  time.Duration
		waits int
	}{{math.MaxInt64, 0}, {-1, 2}, {math.MinInt64, 2}} {
		clock := &retrytest.Clock{}
		p := &retry.Policy{Backoff: retry.Constant(7 * time.Second), Jitter: retry.NoJitter, Clock: clock}
		transport := &retryhttp.Transport{Base: failing(retry.MarkRateLimited(errCause, test.hint)), Policy: p}
		_, err := transport.RoundTrip(request(t, http.MethodGet, "http://127.0.0.1", nil))
		require.ErrorIs(t, err, errCause)
		require.Len(t, clock.Sleeps(), test.waits, "%d", test.hint)
		for _, wait := range clock.Sleeps() {
			assert.Equal(t, 7*time.Second, wait)
		}
	}
}

// MaxAttempts counts attempts: 3 are one request and two retries.
func TestB25_AttemptsAreAttempts(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 4; n++ {
		base := answering(503)
		resp, err := (&retryhttp.Transport{Base: base, Policy: atOnce(n)}).RoundTrip(
			request(t, http.MethodGet, "http://127.0.0.1", nil))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.EqualValues(t, n, base.attempts.Load())
		assert.Equal(t, n, retryhttp.Attempts(resp))
	}
	base := failing(context.DeadlineExceeded) // not the caller's
	assert.Equal(t, 3, attemptsOfThree(t, base, http.MethodGet, "http://127.0.0.1"))
}

// An error may call itself recoverable because the connection is.
type recoverableError struct{}

func (recoverableError) Error() string { return "NOT_FOUND" }

func (recoverableError) Recoverable() bool { return true }

func TestB32_RecoverableIsNotRetryable(t *testing.T) {
	t.Parallel()
	assert.Zero(t, retryhttp.Classify(recoverableError{}))
	assert.Equal(t, 1, attemptsOfThree(t, failing(recoverableError{}), http.MethodPost, "http://127.0.0.1"))
}

func TestB36_BackoffsWithoutEnd(t *testing.T) {
	t.Parallel()
	p := retryhttp.DefaultPolicy()
	p.MaxAttempts, p.Jitter = retry.Unlimited, retry.NoJitter
	for _, n := range []int{30, 37, 40, 63, 64, 1000, 1 << 30} {
		assert.Equal(t, 10*time.Second, p.Delay(retry.State{Failures: n}), "%d", n)
	}
}
