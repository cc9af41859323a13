package retryhttp_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// The transport reads neither a long body nor the body of the response that the
// caller gets.
func TestWhatIsDrained(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		attempts int
		length   int64
		want     int64
	}{
		{"discarded", 2, 4096, 4096},
		{"discarded, of unknown length", 2, -1, 4096},
		{"too long", 2, 4097, 0},
		{"the last", 1, 4096, 0},
	} {
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
			resp := testkit.Must(transport.RoundTrip(request(t, http.MethodGet, "http://127.0.0.1", nil)))(t)
			assert.Equal(t, test.want, read)
			assert.EqualValues(t, test.attempts-1, first.closed.Load())
			assert.NoError(t, resp.Body.Close())
		})
	}
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
	for _, length := range []int64{-1, 4096} {
		synctest.Test(t, func(t *testing.T) {
			start, sent := time.Now(), 0
			base := roundTripper(func(*http.Request) (*http.Response, error) {
				sent++
				ctx, cancel := context.WithCancel(context.Background())
				return &http.Response{StatusCode: http.StatusServiceUnavailable, ContentLength: length, Body: drip{ctx.Done(), cancel}}, nil
			})
			resp := testkit.Must((&retryhttp.Transport{Base: base, Policy: atOnce(3)}).RoundTrip(request(t, http.MethodGet, "http://127.0.0.1", nil)))(t)
			assert.LessOrEqual(t, time.Since(start), 200*time.Millisecond)
			assert.NoError(t, resp.Body.Close())
			assert.Equal(t, 3, sent)
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
	resp := testkit.Must(client(t, nil, atOnce(2)).Do(req))(t)
	conn, ok := resp.Body.(io.ReadWriteCloser)
	require.True(t, ok)
	testkit.Must(io.WriteString(conn, "hello"))(t)
	assert.Equal(t, "hello", text(t, resp))
}

// The response of a test's own RoundTripper seldom has a ContentLength.
func TestBodyHintWithoutLength(t *testing.T) {
	t.Parallel()
	clock := &retrytest.Clock{}
	c := client(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusTooManyRequests, Header: headers("Content-Type", "application/json"),
			Body: io.NopCloser(strings.NewReader(`{"retry_after": 7}`)), Request: r,
		}, nil
	}), &retry.Policy{MaxAttempts: 2, Clock: clock})
	c.Transport.(*retryhttp.Transport).BodyHints = true
	resp := testkit.Must(c.Get("http://127.0.0.1"))(t)
	assert.JSONEq(t, `{"retry_after": 7}`, text(t, resp))
	require.Len(t, clock.Sleeps(), 1)
	assert.GreaterOrEqual(t, clock.Sleeps()[0], 7*time.Second)
}

// A body that cannot have a hint is neither read nor lost.
func TestBodyHintsElsewhere(t *testing.T) {
	t.Parallel()
	const hint = `{"retry_after": 7}`
	long := `{"x": "` + strings.Repeat("x", 1<<17) + `", "retry_after": 7}`
	for _, test := range []struct {
		name, header, value, body string
	}{
		{"a header counts before", "Retry-After", "1", hint},
		{"too long", "Content-Type", "application/json", long},
		{"broken", "Content-Type", "application/problem+json", `{"retry_after": 7`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(test.header, test.value)
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = io.WriteString(w, test.body)
			})
			clock := &retrytest.Clock{}
			c := client(t, nil, &retry.Policy{MaxAttempts: 2, Clock: clock})
			c.Transport.(*retryhttp.Transport).BodyHints = true
			resp := testkit.Must(c.Get(s.URL))(t)
			assert.Equal(t, test.body, text(t, resp))
			require.Len(t, clock.Sleeps(), 1)
			assert.Less(t, clock.Sleeps()[0], 7*time.Second)
		})
	}
}

func TestParseBodyHint(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		body string
		want time.Duration
		ok   bool
	}{
		{``, 0, false},
		{`null`, 0, false},
		{`[]`, 0, false},
		{`{}`, 0, false},
		{`{"retry_after": 64.57}`, 64570 * time.Millisecond, true},
		{`{"retry_after": 0}`, 0, true},
		{`{"retry_after": "5"}`, 0, false},
		{`{"retry_after": -5}`, 0, false},
		{`{"retry_after": 1e9}`, 0, false},
		{`{"retry_after": 99999999999999999999}`, 1<<63 - 1, true},
		{`{"error": {"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.07s"}]}}`, 34070 * time.Millisecond, true},
		{`{"error": {"details": [
			{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2s"},
			{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "retryDelay": "99s"},
			{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3s"}]}}`, 3 * time.Second, true},
		{`{"error": {"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "-2s"}]}}`, 0, false},
		{`{"error": {"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2"}]}}`, 0, false},
		{`{"error": "no"}`, 0, false},
		{`{"kind": "Status", "details": {"retryAfterSeconds": 12}}`, 12 * time.Second, true},
		{`{"kind": "Status", "details": {"retryAfterSeconds": 0}}`, 0, false},
		{`{"retry_after": 5} {"retry_after": 6}`, 0, false},
		{`{"retry_after": 5} x`, 0, false},
		{` {"retry_after": 5} ` + "\n", 5 * time.Second, true},
		{`{"Retry_After": 5}`, 0, false},
		{`{"retry_after_ms": 1500}`, 1500 * time.Millisecond, true},
		{`{"parameters": {"retry_after": 35}, "error": {"retry_after": 1}}`, 35 * time.Second, true},
		{`{"error": {"details": {"retryDelay": "2s"}}, "details": [1], "parameters": "no"}`, 0, false},
		{`{"error": {"message": "slow down", "retry_after": 1}, "details": {"retryAfterSeconds": 12}}`, 12 * time.Second, true},
	} {
		got, ok := retryhttp.ParseBodyHint([]byte(test.body))
		assert.Equal(t, test.want, got, test.body)
		assert.Equal(t, test.ok, ok, test.body)
	}
}

// The transport does not wait for a body that may have a hint but does not
// come.
func TestBodyHintsDoNotHang(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"retry_after": 7`)
		assert.NoError(t, http.NewResponseController(w).Flush())
		hang(w, r)
	}, status(200))
	c := client(t, nil, atOnce(2))
	c.Transport.(*retryhttp.Transport).BodyHints = true
	resp := testkit.Must(c.Get(s.URL))(t)
	assert.Equal(t, "status 200", text(t, resp))
}
