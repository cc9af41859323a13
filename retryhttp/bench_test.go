package retryhttp_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// The benchmarks compare net/http alone (by=hand) with a Transport with its defaults
// (by=retry). They have a stub in place of a network, so that they measure the RoundTripper
// alone. Those of lab/httppeers have other layers and servers too.

// benchStub answers at once with a prepared response.
type benchStub struct {
	resp *http.Response
	buf  []byte
}

func (s *benchStub) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		for {
			if _, err := req.Body.Read(s.buf); err != nil {
				break
			}
		}
		_ = req.Body.Close()
	}
	return s.resp, nil
}

// benchBase is a real http.Transport, as the short cut for GET wants it, that
// knows the scheme of the stub.
func benchBase() *http.Transport {
	base := &http.Transport{}
	base.RegisterProtocol("stub", &benchStub{
		&http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{}}, make([]byte, 32<<10),
	})
	return base
}

const benchBodySize = 64 << 10

// benchRequests makes the requests of a benchmark, which share as much as
// possible.
func benchRequests(tb testing.TB, method, url string) func() *http.Request {
	tb.Helper()
	data := []byte(strings.Repeat("x", benchBodySize))
	req := testkit.Must(http.NewRequestWithContext(context.Background(), method, url, nil))(tb)
	if method == http.MethodGet {
		return func() *http.Request { return req }
	}
	return func() *http.Request {
		again := *req
		again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(data)), benchBodySize
		again.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
		return &again
	}
}

func benchTrip(tb testing.TB, rt http.RoundTripper, req *http.Request) {
	tb.Helper()
	resp, err := rt.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		tb.Fatal(resp, err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

func benchLayers(b *testing.B, method string) {
	b.Helper()
	base, next := benchBase(), benchRequests(b, method, "stub://host/")
	for _, layer := range []struct {
		name string
		rt   http.RoundTripper
	}{
		{"by=hand", base},
		{"by=retry", &retryhttp.Transport{Base: base}},
	} {
		b.Run(layer.name, func(b *testing.B) {
			benchTrip(b, layer.rt, next()) // connects
			b.ReportAllocs()
			for b.Loop() {
				benchTrip(b, layer.rt, next())
			}
		})
	}
}

func BenchmarkLayerGet(b *testing.B)     { benchLayers(b, http.MethodGet) }
func BenchmarkLayerPost64K(b *testing.B) { benchLayers(b, http.MethodPost) }
func BenchmarkLayerPut64K(b *testing.B)  { benchLayers(b, http.MethodPut) }

// benchFlaky is a benchBase where two failures come before a success.
func benchFlaky() (base *http.Transport, url string) {
	base, n := benchBase(), 0
	answer := func(status int) *benchStub {
		return &benchStub{&http.Response{StatusCode: status, Body: http.NoBody, Header: http.Header{}}, make([]byte, 32<<10)}
	}
	failure, success := answer(http.StatusServiceUnavailable), answer(http.StatusOK)
	base.RegisterProtocol("flaky", roundTripper(func(req *http.Request) (*http.Response, error) {
		if n++; n%3 == 0 {
			return success.RoundTrip(req)
		}
		return failure.RoundTrip(req)
	}))
	return base, "flaky://host/"
}

// benchCost returns the cost of a request: allocations and allocated bytes.
func benchCost(fn func()) (count, size float64) {
	const runs = 200
	count = testing.AllocsPerRun(runs, fn)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		fn()
	}
	runtime.ReadMemStats(&after)
	return count, float64(after.TotalAlloc-before.TotalAlloc) / runs
}

// The bar: a GET that succeeds costs no allocation, and a body that can be had
// again is not copied.
//
//nolint:paralleltest // Allocations are counted for the whole process.
func TestAllocs(t *testing.T) {
	testkit.Measures(t)
	base := benchBase()
	for _, test := range []struct {
		method string
		added  float64 // allocations
		bytes  float64
	}{
		{http.MethodGet, 0, 0},
		{http.MethodPut, 0, 0},
		// A copy of the request and its headers, the trace that sees whether
		// anything was sent, and the call.
		{http.MethodPost, 14, 2 << 10},
	} {
		t.Run(test.method, func(t *testing.T) {
			next := benchRequests(t, test.method, "stub://host/")
			bare, bareSize := benchCost(func() { benchTrip(t, base, next()) })
			rt := &retryhttp.Transport{Base: base}
			ours, oursSize := benchCost(func() { benchTrip(t, rt, next()) })
			t.Logf("base %v (%.0f B), retry %v (%.0f B)", bare, bareSize, ours, oursSize)
			assert.LessOrEqual(t, ours-bare, test.added)
			assert.LessOrEqual(t, oursSize-bareSize, test.bytes+64) // the runtime's own
		})
	}
}

// A base that is not an http.Transport, as otelhttp's and oauth2's are not, costs no
// allocation either.
//
//nolint:paralleltest // Allocations are counted for the whole process.
func TestAllocsOfCustomBase(t *testing.T) {
	testkit.Measures(t)
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}
	rt := &retryhttp.Transport{Base: roundTripper(func(*http.Request) (*http.Response, error) { return answer, nil })}
	req := httptest.NewRequest(http.MethodGet, "http://example.com/", nil)
	req.Header.Set("Accept", "text/plain")
	assert.Zero(t, testing.AllocsPerRun(1000, func() { benchTrip(t, rt, req) }))
}

// The allocations of two retries: the call, an error and a timer for the body of
// each response, and the number of attempts for the last one. Those that have a
// body add a request and 2 for the body itself each, and net/http 2 for every
// attempt.
//
//nolint:paralleltest // Allocations are counted for the whole process.
func TestAllocsOfRetries(t *testing.T) {
	testkit.Measures(t)
	for _, test := range []struct {
		method string
		allocs float64
	}{
		{http.MethodGet, 8},
		{http.MethodPut, 8 + 2*3 + 3*2},
	} {
		t.Run(test.method, func(t *testing.T) {
			base, url := benchFlaky()
			next := benchRequests(t, test.method, url)
			rt := &retryhttp.Transport{Base: base, Policy: atOnce(3), Budget: retryhttp.NoBudget}
			requests, _ := benchCost(func() { next() })
			ours, size := benchCost(func() { benchTrip(t, rt, next()) })
			t.Logf("%v (%.0f B)", ours-requests, size)
			assert.LessOrEqual(t, ours-requests, test.allocs)
		})
	}
}

// The same over a connection, where net/http may look at the body that it gets:
// os.File and the like are sent by sendfile, bytes by a copy of its own.
//
//nolint:paralleltest // Allocations are counted for the whole process.
func TestAllocsOfBodyOverLoopback(t *testing.T) {
	testkit.Measures(t)
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "hello")
	})
	next := benchRequests(t, http.MethodPost, server.URL)
	cost := func(rt http.RoundTripper) float64 {
		_, size := benchCost(func() { benchTrip(t, rt, next()) })
		return size
	}
	bare, ours := cost(base), cost(&retryhttp.Transport{Base: base})
	t.Logf("base %.0f B, retry %.0f B", bare, ours)
	assert.Less(t, ours-bare, float64(4<<10))
}
