package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// T-32: the bodies of responses that nobody sees are drained and closed.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503))
	resp, err := client(t, nil, atOnce(10)).Get(s.URL)
	require.NoError(t, err)
	assert.Equal(t, 503, resp.StatusCode)
	assert.Equal(t, "status 503", text(t, resp), "the last response is unread")
	assert.EqualValues(t, 10, s.requests.Load())
	assert.EqualValues(t, 1, s.conns.Load())
}

// T-35: the body is sent again, and the caller's request stays as it was.
func TestBodyIsReplayed(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var bodies []string
	record := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			mu.Lock()
			bodies = append(bodies, fmt.Sprint(string(body), " ", r.ContentLength, r.Header["X-Once"]))
			mu.Unlock()
			next(w, r)
		}
	}
	s := serve(t, record(status(429)), record(reset), record(status(503)), record(status(200)))
	req := request(t, http.MethodPut, s.URL, strings.NewReader("hello"), "X-Once", "1")
	body := req.Body
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	greedy := roundTripper(func(req *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(req)
		req.Header.Add("X-Once", "2") // as only a bad transport would
		return resp, err
	})
	transport := &retryhttp.Transport{Base: greedy, Policy: atOnce(4)}
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	assert.Equal(t, "status 200", text(t, resp))
	const want = "hello 5 [1]"
	assert.Equal(t, []string{want, want, want, want}, bodies)
	assert.Equal(t, body, req.Body)
	assert.NoError(t, resp.Request.Context().Err(), "it outlives the attempt")
	assert.Equal(t, 4, retryhttp.Attempts(resp))
}

// onceBody counts how often it is closed.
type onceBody struct {
	io.Reader
	closed atomic.Int64
}

func (b *onceBody) Close() error {
	b.closed.Add(1)
	return nil
}

// A RoundTripper must not change the request that it gets. One that does changes the
// caller's, as it would without a Transport, and spoils no retry.
func TestRequestIsRestored(t *testing.T) {
	t.Parallel()
	spoilers := map[string]func(*http.Request){
		"nothing":        func(*http.Request) {},
		"a field":        func(req *http.Request) { req.Header.Set("A", "9") },
		"a value":        func(req *http.Request) { req.Header["A"][0] = "9" },
		"another value":  func(req *http.Request) { req.Header.Add("A", "9") },
		"a field more":   func(req *http.Request) { req.Header.Set("Z", "9") },
		"a field less":   func(req *http.Request) { req.Header.Del("A") },
		"an empty field": func(req *http.Request) { req.Header["Nil"] = []string{} },
		"no header":      func(req *http.Request) { req.Header = nil },
		"the URL":        func(req *http.Request) { req.URL.Path = "/9" },
		"another URL":    func(req *http.Request) { req.URL = &url.URL{Scheme: "http", Host: "9"} },
		"no URL":         func(req *http.Request) { req.URL = nil },
		"the host":       func(req *http.Request) { req.Host = "9" },
		"the method":     func(req *http.Request) { req.Method = http.MethodDelete },
		"the length":     func(req *http.Request) { req.ContentLength = 9 },
	}
	for name, spoil := range spoilers {
		for _, method := range []string{http.MethodGet, http.MethodPut} {
			t.Run(name+", "+method, func(t *testing.T) {
				t.Parallel()
				var seen []string
				base := roundTripper(func(req *http.Request) (*http.Response, error) {
					body, err := io.ReadAll(req.Body)
					assert.NoError(t, err)
					seen = append(seen, fmt.Sprintf("%s %v %s %v %d %s", req.Method, req.URL, req.Host, req.Header, req.ContentLength, body))
					spoil(req)
					return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
				})
				req := request(t, method, "http://a/b?c", strings.NewReader("hello"), "A", "1", "A", "2", "B", "3")
				req.Header["Nil"] = nil
				if method == http.MethodGet {
					req.Body, req.GetBody, req.ContentLength = http.NoBody, nil, 0
				}
				transport := &retryhttp.Transport{Base: base, Policy: atOnce(4), Budget: retryhttp.NoBudget}
				resp, err := transport.RoundTrip(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Len(t, seen, 4)
				for _, attempt := range seen {
					assert.Equal(t, seen[0], attempt)
				}
			})
		}
	}
}

func TestBodyThatCannotBeReplayed(t *testing.T) {
	t.Parallel()
	s := serve(t, status(429))
	body := &onceBody{Reader: strings.NewReader("hello")}
	p := atOnce(5)
	p.FreeRateLimits = 5
	p.Overrides = map[string]retry.Override{"rate_limited": {MaxAttempts: 5}}
	resp, err := client(t, nil, p).Do(request(t, http.MethodPut, s.URL, body))
	require.NoError(t, err)
	assert.Equal(t, "status 429", text(t, resp))
	assert.EqualValues(t, 1, s.requests.Load())
	assert.NotZero(t, body.closed.Load())
}

func TestGetBodyFails(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503))
	errGone := errors.New("file is gone")
	req := request(t, http.MethodPut, s.URL, strings.NewReader("hello"))
	req.GetBody = func() (io.ReadCloser, error) { return nil, errGone }
	_, err := client(t, nil, atOnce(3)).Do(req)
	require.ErrorIs(t, err, errGone)
	assert.ErrorContains(t, err, "cannot send the body again: file is gone; after: PUT "+s.URL+": 503 Service Unavailable")
	var status *retryhttp.StatusError
	require.ErrorAs(t, err, &status, "with the failure before it")
	assert.Equal(t, 503, status.StatusCode)
	assert.EqualValues(t, 1, s.requests.Load())
}

// Trailers get their values while the body is read.
func TestRequestTrailer(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, r.Trailer.Get("Sum"))
	})
	req := request(t, http.MethodPut, s.URL, nil)
	req.Trailer = http.Header{"Sum": nil}
	req.Body = io.NopCloser(io.MultiReader(strings.NewReader("hello"), readerFunc(func() {
		req.Trailer.Set("Sum", "42")
	})))
	resp, err := client(t, nil, atOnce(1)).Do(req)
	require.NoError(t, err)
	assert.Equal(t, "42", text(t, resp))
}

type readerFunc func()

func (f readerFunc) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

// An attempt that is over may still read more than can be kept, when the next one
// is decided on already. That must not go on in the middle of the body.
func TestBufferOverflowsLate(t *testing.T) {
	t.Parallel()
	chunks := make(chan string)
	body := &onceBody{Reader: chanReader(chunks)}
	var wg sync.WaitGroup
	attempts := 0
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		attempts++
		if attempts == 1 {
			wg.Go(func() { _, _ = io.ReadFull(req.Body, make([]byte, 8)) })
			chunks <- "1234" // the reader has asked for it
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
		}
		wg.Go(func() { chunks <- "5678" })
		read, err := io.ReadAll(req.Body)
		assert.Empty(t, read)
		assert.NoError(t, req.Body.Close())
		return nil, err
	})
	transport := &retryhttp.Transport{Base: base, Policy: atOnce(3), BufferBody: 6}
	_, err := transport.RoundTrip(request(t, http.MethodPut, "http://h", body))
	require.ErrorContains(t, err, "cannot send the body again")
	assert.Equal(t, 2, attempts)
	wg.Wait()
	assert.EqualValues(t, 1, body.closed.Load())
}

// chanReader reads what is sent.
type chanReader chan string

func (c chanReader) Read(p []byte) (int, error) { return copy(p, <-c), nil }

// T-36: the context of the attempt lives until the body is closed.
func TestBodyIsReadableUnderAttemptTimeout(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1<<20)
	s := serve(t, status(503), func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, large) })
	p := atOnce(3)
	p.AttemptTimeout = time.Hour
	var attempts []context.Context
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	resp, err := client(t, roundTripper(func(req *http.Request) (*http.Response, error) {
		attempts = append(attempts, req.Context())
		return base.RoundTrip(req)
	}), p).Get(s.URL)
	require.NoError(t, err)
	require.Len(t, attempts, 2)
	assert.Error(t, attempts[0].Err(), "discarded")
	assert.NoError(t, attempts[1].Err())
	assert.Equal(t, large, text(t, resp))
	assert.Error(t, attempts[1].Err())
	assert.Equal(t, time.Hour, p.AttemptTimeout, "the policy stays as it is")
}

// A server that answers and then says no more does not hold up the retry.
func TestSlowBodyIsNotDrained(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "please ")
		assert.NoError(t, http.NewResponseController(w).Flush())
		hang(w, r)
	}, status(200))
	resp, err := client(t, nil, atOnce(2)).Get(s.URL)
	require.NoError(t, err)
	assert.Equal(t, "status 200", text(t, resp))
}

// The transport does not read what it cannot use: neither a long body nor one of
// the response that the caller gets.
func TestWhatIsDrained(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		attempts int
		length   int64
		want     int64
	}{
		{"discarded", 2, 4096, 4096},
		{"discarded, of unknown length", 2, -1, 4096},
		{"too long", 2, 4097, 0},
		{"the last", 1, 4096, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var read int64
			first := &onceBody{Reader: countingReader{&read}}
			responses := []*http.Response{
				{StatusCode: 503, ContentLength: test.length, Body: first},
				{StatusCode: 200, Body: http.NoBody},
			}
			base := roundTripper(func(*http.Request) (*http.Response, error) {
				resp := responses[0]
				responses = responses[1:]
				return resp, nil
			})
			transport := &retryhttp.Transport{Base: base, Policy: atOnce(test.attempts)}
			resp, err := transport.RoundTrip(request(t, http.MethodGet, "http://127.0.0.1", nil))
			require.NoError(t, err)
			assert.Equal(t, test.want, read)
			assert.EqualValues(t, test.attempts-1, first.closed.Load())
			assert.NoError(t, resp.Body.Close())
		})
	}
}

type countingReader struct{ n *int64 }

func (r countingReader) Read(p []byte) (int, error) {
	*r.n += int64(len(p))
	return len(p), nil
}

func TestSwitchingProtocols(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "echo")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if assert.NoError(t, err) {
			_, _ = io.CopyN(conn, buffered, 5) // which may hold the first byte
			_ = conn.Close()
		}
	})
	req := request(t, http.MethodGet, s.URL, nil, "Connection", "Upgrade", "Upgrade", "echo")
	resp, err := client(t, nil, atOnce(2)).Do(req)
	require.NoError(t, err)
	conn, ok := resp.Body.(io.ReadWriteCloser)
	require.True(t, ok)
	_, err = io.WriteString(conn, "hello")
	require.NoError(t, err)
	assert.Equal(t, "hello", text(t, resp))
}
