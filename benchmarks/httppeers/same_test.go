package httppeers_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/benchmarks/httppeers"
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
				t.Run("Layer"+w.name, func(t *testing.T) {
					t.Parallel()
					base, url := w.layer()
					sameWork(t, p, w, base, url)
				})
				t.Run("Custom"+w.name, func(t *testing.T) {
					t.Parallel()
					base, url := w.custom()
					sameWork(t, p, w, base, url)
				})
				t.Run("Loopback"+w.name, func(t *testing.T) {
					t.Parallel()
					base, url := w.loopback(t)
					sameWork(t, p, w, base, url)
				})
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
		resp, err := call()
		require.NoError(t, err)
		data, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
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
			resp, err := w.prepare(t, p, r, url)()
			require.NoError(t, err)
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
			call, err := p.Prepare(ctx, r, http.MethodGet, url, nil)
			require.NoError(t, err)
			_, err = call()
			assert.ErrorIs(t, err, context.Canceled)
			assert.Len(t, r.seen, 1)
		})
	}
}

// Benchmarks see allocations of the harness too: it makes one for an answer.
func TestStubIsCheap(t *testing.T) { //nolint:paralleltest // allocations are counted for the whole process
	base, url := get.layer()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		trip(t, func() (*http.Response, error) { return base.RoundTrip(req) })
	}), 1.0)
}
