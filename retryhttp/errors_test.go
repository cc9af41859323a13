package retryhttp_test

import (
	"context"
	"go/build"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
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
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// failure is a request that fails in a certain way: in the end, or in its first
// attempt.
type failure struct {
	name string

	// set makes the server that fails; change makes the request that meets it.
	set    func(t *testing.T) (*http.Transport, string)
	change func(*http.Request) *http.Request
	setup  func(t *testing.T) scene // instead of both

	raw     string             // the method of the request whose error is judged; "" means GET
	once    bool               // a body has no GetBody
	byDo    bool               // only a Client, or a reader of the body, sees it
	timeout time.Duration      // AttemptTimeout
	client  func(*http.Client) // changes the client
	want    retry.Verdict      // of Classify
	text    string             // in the error
	get     int                // attempts
	post    int                // attempts with a body that can be had again
}

// scene is where a request fails.
type scene struct {
	base   *http.Transport
	url    string
	change func(*http.Request) *http.Request
}

func (tr *failure) scene(t *testing.T) scene {
	t.Helper()
	if tr.setup != nil {
		return tr.setup(t)
	}
	base, url := tr.set(t)
	return scene{base, url, tr.change}
}

func (tr *failure) request(t *testing.T, s scene, method string) *http.Request {
	t.Helper()
	var body io.Reader
	if method != http.MethodGet {
		body = strings.NewReader("hello")
		if tr.once {
			body = struct{ io.Reader }{body}
		}
	}
	req := request(t, method, s.url, body)
	if s.change != nil {
		req = s.change(req)
	}
	return req
}

// err is the error without this package.
func (tr *failure) err(t *testing.T) error {
	t.Helper()
	s := tr.scene(t)
	method := tr.raw
	if method == "" {
		method = http.MethodGet
	}
	req := tr.request(t, s, method)
	if tr.timeout > 0 {
		ctx, cancel := context.WithTimeout(req.Context(), tr.timeout)
		t.Cleanup(cancel)
		req = req.WithContext(ctx)
	}
	c := &http.Client{Transport: s.base}
	if tr.client != nil {
		tr.client(c)
	}
	return provoke.Do(c, req)
}

// attempts is how many a Transport makes. seen tells whether there is an
// Observer, because the Transport takes a shorter path without one.
//
// How often net/http dials for HTTP/2 is left to chance, so dials is then 0.
func (tr *failure) attempts(t *testing.T, method string, seen bool) (attempts int, dials int64) {
	t.Helper()
	s := tr.scene(t)
	var dialed atomic.Int64
	dial := s.base.DialContext
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	s.base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialed.Add(1)
		return dial(ctx, network, addr)
	}
	var events retrytest.Recorder
	p := within(tr.timeout, 2)
	if seen {
		p.Observer = events.Observer()
	}
	c := client(t, s.base, p)
	c.Transport.(*retryhttp.Transport).BufferBody = 1 << 10
	if tr.client != nil {
		tr.client(c)
	}
	req := tr.request(t, s, method)
	if tr.byDo {
		_ = retryhttp.Do(c, nil, req, func(resp *http.Response) error {
			_, err := io.Copy(io.Discard, resp.Body)
			return err
		})
	} else if resp, err := c.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	for _, e := range events.Events() {
		attempts = e.Attempt
	}
	if s.base.Protocols != nil {
		return attempts, 0
	}
	return attempts, dialed.Load()
}

func (tr *failure) test(t *testing.T, provoked *texts) {
	t.Helper()
	t.Parallel()
	t.Run("Classify", func(t *testing.T) {
		t.Parallel()
		err := tr.err(t)
		require.Error(t, err)
		provoked.add(err)
		assert.Equal(t, tr.want, retryhttp.Classify(err), "%v", err)
		if v := retry.Classify(err); v != (retry.Verdict{}) { // the root package leaves some to this one
			assert.Equal(t, tr.want, v, "%v", err)
		}
		assert.ErrorContains(t, err, tr.text)
	})
	t.Run("GET", func(t *testing.T) {
		t.Parallel()
		attempts, dials := tr.attempts(t, http.MethodGet, true)
		assert.Equal(t, tr.get, attempts)
		if tr.timeout == 0 {
			_, plain := tr.attempts(t, http.MethodGet, false)
			// net/http gives up a connection if it hears only after 50 ms that the request was written.
			for n := 0; n < 5 && plain != dials; n++ {
				_, dials = tr.attempts(t, http.MethodGet, true)
				_, plain = tr.attempts(t, http.MethodGet, false)
			}
			assert.Equal(t, dials, plain, "connections when nobody observes")
		}
	})
	t.Run("POST", func(t *testing.T) {
		t.Parallel()
		attempts, _ := tr.attempts(t, http.MethodPost, true)
		assert.Equal(t, tr.post, attempts)
	})
}

// texts collects the texts of errors that were provoked.
type texts struct {
	mu  sync.Mutex
	all []string
}

func (s *texts) add(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	s.all = append(s.all, err.Error())
	s.mu.Unlock()
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		s.add(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, leg := range e.Unwrap() {
			s.add(leg)
		}
	}
}

// a2: errors of the real net/http, their verdicts and their attempts.
//
//nolint:paralleltest,tparallel // Those of the group are, in failure.test, and the texts come after them.
func TestTroubles(t *testing.T) {
	t.Parallel()
	var provoked texts
	t.Run("all", func(t *testing.T) {
		for _, group := range [][]failure{invalid, malformed, broken, slow, unreachable, untrusted, behindProxies, overHTTP2} {
			for _, tr := range group {
				t.Run(tr.name, func(t *testing.T) { tr.test(t, &provoked) })
			}
		}
		if hasClientConn() {
			t.Run("ClientConn", func(t *testing.T) { onClientConns(t, &provoked) })
		}
	})
	// A new version of Go must not change the words unnoticed.
	t.Run("texts", func(t *testing.T) {
		prefixes, suffixes := retryhttp.Texts()
		for i, prefix := range prefixes {
			found := prefix == "http2: client conn not usable" && !hasClientConn() ||
				strings.HasPrefix(suffixes[i], "; PROTOCOL_ERROR; received from peer] after") && hasGo("go1.27")
			for _, text := range provoked.all {
				found = found || strings.HasPrefix(text, prefix) && strings.HasSuffix(text, suffixes[i])
			}
			assert.True(t, found, "no error was provoked that begins with %q and ends with %q", prefix, suffixes[i])
		}
	})
}

// The expected verdicts. After again and limited, the request may have taken effect.
var final, again, anew, limited = testkit.Final, testkit.MayRetry, testkit.CanRetry, testkit.MayLimit

// hasGo reports whether the tests run with this version of Go or a newer one.
func hasGo(version string) bool { return slices.Contains(build.Default.ReleaseTags, version) }

// unsent is v for something that failed before anything was sent.
func unsent(v retry.Verdict) retry.Verdict {
	v.NotApplied = true
	return v
}

// to is a server that behaves like this on all connections.
func to(handlers ...func(net.Conn)) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		return provoke.Transport(t, &http.Transport{}), provoke.Serve(t, handlers...).URL()
	}
}

// toOK is a server that would answer.
var toOK = to(provoke.Respond("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))

// with uses a transport that f has changed.
func with(f func(*http.Transport), set func(*testing.T) (*http.Transport, string)) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		base, url := set(t)
		f(base)
		return base, url
	}
}

// secure is a server that the client takes for one with TLS.
func secure(set func(*testing.T) (*http.Transport, string)) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		base, url := set(t)
		return base, "https" + strings.TrimPrefix(url, "http")
	}
}

// nowhere is a URL without a server.
func nowhere(url string) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		return provoke.Transport(t, &http.Transport{}), url
	}
}

func changed(f func(*http.Request)) func(*http.Request) *http.Request {
	return func(req *http.Request) *http.Request {
		f(req)
		return req
	}
}

// onGotConn calls f when a connection was chosen for the request, and nothing
// written yet.
func onGotConn(req *http.Request, f func(httptrace.GotConnInfo)) *http.Request {
	return req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: f}))
}
