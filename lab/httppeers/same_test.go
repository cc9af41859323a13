package httppeers_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/lab/httppeers"
)

// sent is what a server sees of an attempt.
type sent struct {
	method, url string
	length      int64
	body        string
}

// recorder notes what goes through it. It may end a context after the first
// answer.
type recorder struct {
	base http.RoundTripper
	seen []sent
	end  func()
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	s := sent{method: req.Method, url: req.URL.String(), length: req.ContentLength}
	if req.Body != nil {
		data, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		_ = req.Body.Close()
		s.body = string(data)
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(data))
	}
	r.seen = append(r.seen, s)
	resp, err := r.base.RoundTrip(req)
	if r.end != nil {
		r.end()
	}
	return resp, err
}

var workloads = []workload{get, post, get503, post503}

// Every contestant sends the same requests in the same order, with their bodies,
// in every call, and has the same response in the end. What is left open is what
// it declares.
func TestSameWork(t *testing.T) {
	t.Parallel()
	for _, p := range httppeers.Peers() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			for _, w := range workloads {
				for name, open := range map[string]func() (http.RoundTripper, string){
					"Layer": w.layer, "Custom": w.custom, "Loopback": func() (http.RoundTripper, string) { return w.loopback(t) },
				} {
					t.Run(name+w.name, func(t *testing.T) {
						t.Parallel()
						base, url := open()
						sameWork(t, p, w, base, url)
					})
				}
			}
		})
	}
}

func sameWork(t *testing.T, p httppeers.Peer, w workload, base http.RoundTripper, url string) {
	t.Helper()
	bodies := &janitor{base: base}
	t.Cleanup(bodies.clean)
	r := &recorder{base: bodies}
	call := w.prepare(t, p, r, url)
	attempt := sent{w.method, url, int64(len(w.body)), string(w.body)}
	for calls := 1; calls <= 3; calls++ {
		r.seen = nil
		resp := testkit.Must(call())(t)
		data := testkit.Must(io.ReadAll(resp.Body))(t)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		assert.Equal(t, success, string(data))
		if assert.Len(t, r.seen, len(w.script)) {
			for _, s := range r.seen {
				assert.True(t, attempt == s, "not the whole request") // 64 KiB are not to be printed
			}
		}
		leaks := 0
		if len(w.script) > 1 {
			leaks = p.Leaks
		}
		assert.Equal(t, leaks*calls, bodies.left(), "bodies left open")
	}
}

// The limit is the same, and so is what comes back when it is reached.
func TestSameLimit(t *testing.T) {
	t.Parallel()
	for _, p := range httppeers.Peers() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			w := workload{method: http.MethodPost, body: payload, script: []int{http.StatusServiceUnavailable}}
			base, url := w.layer()
			r := &recorder{base: base}
			resp := testkit.Must(w.prepare(t, p, r, url)())(t)
			assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
			assert.Len(t, r.seen, 3)
			require.NoError(t, resp.Body.Close())
		})
	}
}

// A call whose context ends during an attempt makes no other.
func TestContextIsAsked(t *testing.T) {
	t.Parallel()
	for _, p := range httppeers.Peers() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			base, url := get503.layer()
			ctx, cancel := context.WithCancel(t.Context())
			r := &recorder{base: base, end: cancel}
			call := testkit.Must(p.Prepare(ctx, r, http.MethodGet, url, nil))(t)
			_, err := call()
			assert.ErrorIs(t, err, context.Canceled)
			assert.Len(t, r.seen, 1)
		})
	}
}

// Benchmarks see allocations of the harness too: it makes one for an answer.
func TestStubIsCheap(t *testing.T) { //nolint:paralleltest // allocations are counted for the whole process
	base, url := get.layer()
	req := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		trip(t, func() (*http.Response, error) { return base.RoundTrip(req) })
	}), 1.0)
}

// workload is a request, and the statuses that its attempts get.
type workload struct {
	name   string
	method string
	body   []byte
	script []int
}

var (
	payload = bytes.Repeat([]byte("0123456789abcdef"), 4<<10) // 64 KiB

	atOnce = []int{http.StatusOK}
	third  = []int{http.StatusServiceUnavailable, http.StatusServiceUnavailable, http.StatusOK}

	get     = workload{"Get", http.MethodGet, nil, atOnce}
	post    = workload{"Post", http.MethodPost, payload, atOnce}
	get503  = workload{"Get503", http.MethodGet, nil, third}
	post503 = workload{"Post503", http.MethodPost, payload, third}
)

// The bodies of the answers.
const success, failure = "hello", "unavailable"

func answer(status int) string {
	if status == http.StatusOK {
		return success
	}
	return failure
}

// prepare returns the calls of a contestant.
func (w workload) prepare(tb testing.TB, p httppeers.Peer, base http.RoundTripper, url string) httppeers.Call {
	tb.Helper()
	call, err := p.Prepare(tb.Context(), base, w.method, url, w.body)
	if err != nil {
		tb.Fatal(err)
	}
	return call
}

// custom returns a RoundTripper that is no http.Transport and answers by the script at
// once: it stands for otelhttp, oauth2 and the like.
func (w workload) custom() (base http.RoundTripper, url string) {
	return &stub{script: w.script, buf: make([]byte, 32<<10)}, "http://host/"
}

// layer returns an http.Transport that answers by the script at once, and the
// address to use. It knows the scheme of a stub, because there are layers that take
// a short cut if they know what is beneath them.
func (w workload) layer() (base http.RoundTripper, url string) {
	transport := &http.Transport{}
	transport.RegisterProtocol("stub", &stub{script: w.script, buf: make([]byte, 32<<10)})
	return transport, "stub://host/"
}

// loopback is layer with a server.
func (w workload) loopback(tb testing.TB) (base *http.Transport, url string) {
	tb.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		status := w.script[int(n.Add(1)-1)%len(w.script)]
		rw.WriteHeader(status)
		_, _ = io.WriteString(rw, answer(status))
	}))
	base = &http.Transport{}
	tb.Cleanup(func() {
		base.CloseIdleConnections()
		s.CloseClientConnections()
		s.Close()
	})
	return base, s.URL
}

// stub reads the body of a request, and answers with little cost of its own.
type stub struct {
	script []int
	n      int
	buf    []byte
}

func (s *stub) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		for {
			if _, err := req.Body.Read(s.buf); err != nil {
				break
			}
		}
		_ = req.Body.Close()
	}
	status := s.script[s.n%len(s.script)]
	s.n++
	r := &struct {
		http.Response
		body
	}{}
	r.Reset(answer(status))
	r.Response = http.Response{
		StatusCode: status, Header: header, Body: &r.body, ContentLength: int64(r.Len()), Request: req,
	}
	return &r.Response, nil
}

// header is what net/http's servers send, whatever the handler does.
var header = http.Header{
	"Content-Type": {"text/plain; charset=utf-8"},
	"Date":         {"Tue, 15 Nov 1994 08:12:31 GMT"},
}

type body struct{ strings.Reader }

func (*body) Close() error { return nil }

// janitor closes what a contestant leaves open, so that a benchmark does not run
// out of connections.
type janitor struct {
	base http.RoundTripper

	mu   sync.Mutex
	open map[*tracked]bool
}

func (j *janitor) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := j.base.RoundTrip(req)
	if err == nil {
		t := &tracked{resp.Body, j}
		resp.Body = t
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.open == nil {
			j.open = map[*tracked]bool{}
		}
		j.open[t] = true
	}
	return resp, err
}

// left returns how many bodies are open.
func (j *janitor) left() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.open)
}

// clean closes them.
func (j *janitor) clean() {
	j.mu.Lock()
	open := j.open
	j.open = nil
	j.mu.Unlock()
	for t := range open {
		_ = t.Close()
	}
}

type tracked struct {
	io.ReadCloser
	of *janitor
}

func (t *tracked) Close() error {
	t.of.mu.Lock()
	delete(t.of.open, t)
	t.of.mu.Unlock()
	return t.ReadCloser.Close()
}
