package retryhttp_test

import (
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// server answers the nth request with the nth handler, and then always with the
// last.
type server struct {
	*httptest.Server
	requests, conns, open atomic.Int64 // conns are all that there were, open those that are left
}

func serve(t *testing.T, handlers ...http.HandlerFunc) *server {
	t.Helper()
	s := newServer(t, handlers...)
	s.Start()
	return s
}

// serveTLS serves with TLS, over HTTP/2 or HTTP/1. The transport trusts the server.
func serveTLS(t *testing.T, http2 bool, handlers ...http.HandlerFunc) (*server, *http.Transport) {
	t.Helper()
	s := newServer(t, handlers...)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = http2
	s.StartTLS()
	return s, s.Client().Transport.(*http.Transport)
}

// newServer returns a server that has not started.
func newServer(t *testing.T, handlers ...http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(s.requests.Add(1))
		handlers[min(n, len(handlers))-1](w, r)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.conns.Add(1)
			s.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			s.open.Add(-1)
		default:
		}
	}
	t.Cleanup(s.Close)
	return s
}

// status answers with headers given as key and value pairs.
func status(code int, keysAndValues ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), headers(keysAndValues...))
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, "status %d", code)
	}
}

// reset aborts the connection.
func reset(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// hang answers when the client has gone.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func client(t *testing.T, base http.RoundTripper, p *retry.Policy) *http.Client {
	t.Helper()
	if base == nil {
		own := provoke.Transport(t, &http.Transport{})
		base = own
	}
	return &http.Client{Transport: &retryhttp.Transport{Base: base, Policy: p, Budget: retryhttp.NoBudget}}
}

// atOnce is a policy that does not wait.
func atOnce(attempts int) *retry.Policy {
	return &retry.Policy{MaxAttempts: attempts, Backoff: retry.Constant(0)}
}

// within is such a policy whose attempts have a limit.
func within(limit time.Duration, attempts int) *retry.Policy {
	p := atOnce(attempts)
	p.AttemptTimeout = limit
	return p
}

func request(t *testing.T, method, url string, body io.Reader, keysAndValues ...string) *http.Request {
	t.Helper()
	req := testkit.Must(http.NewRequestWithContext(t.Context(), method, url, body))(t)
	req.Header = headers(keysAndValues...)
	return req
}

func text(t *testing.T, resp *http.Response) string {
	t.Helper()
	body := testkit.Must(io.ReadAll(resp.Body))(t)
	require.NoError(t, resp.Body.Close())
	return string(body)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func headers(keysAndValues ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(keysAndValues); i += 2 {
		h.Add(keysAndValues[i], keysAndValues[i+1])
	}
	return h
}

var noon = time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC)

func get(t *testing.T, transport *retryhttp.Transport, url string) (*http.Response, error) {
	t.Helper()
	resp, err := transport.RoundTrip(request(t, http.MethodGet, url, nil))
	if err == nil {
		_ = resp.Body.Close()
	}
	return resp, err
}

// always answers with one status, at any URL.
func always(status int) (transport http.RoundTripper, requests *int) {
	n := 0
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		n++
		return &http.Response{StatusCode: status, Body: http.NoBody, Request: req}, nil
	}), &n
}

func plainClient(t *testing.T) *http.Client {
	t.Helper()
	base := provoke.Transport(t, &http.Transport{})
	return &http.Client{Transport: base}
}

// nothing reads nothing of a response.
func nothing(*http.Response) error { return nil }

// onceBody counts how often it is closed.
type onceBody struct {
	io.Reader
	closed atomic.Int64
}

func (b *onceBody) Close() error {
	b.closed.Add(1)
	return nil
}

type readerFunc func()

func (f readerFunc) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

// eventually fails the test if f takes too long.
func eventually(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(5 * time.Second):
		assert.Fail(t, "did not come", what)
	}
}

func TestMain(m *testing.M) { testkit.NoLeaks(m) }
