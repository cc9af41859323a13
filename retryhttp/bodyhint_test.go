package retryhttp_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func TestBodyHints(t *testing.T) {
	t.Parallel()
	const discord = `{"message": "slow down", "retry_after": 7.5}`
	answer := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, discord)
	}
	for _, on := range []bool{true, false} {
		s := serve(t, answer)
		clock := &retrytest.Clock{}
		c := client(t, nil, &retry.Policy{MaxAttempts: 2, Clock: clock, MaxDelay: time.Second})
		c.Transport.(*retryhttp.Transport).BodyHints = on
		resp, err := c.Get(s.URL)
		require.NoError(t, err)
		assert.Equal(t, discord, text(t, resp), "it stays readable")
		require.Len(t, clock.Sleeps(), 1)
		if on {
			assert.GreaterOrEqual(t, clock.Sleeps()[0], 7500*time.Millisecond)
		} else {
			assert.LessOrEqual(t, clock.Sleeps()[0], time.Second)
		}
		assert.EqualValues(t, 1, s.conns.Load())
	}
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
	resp, err := c.Get("http://127.0.0.1")
	require.NoError(t, err)
	assert.JSONEq(t, `{"retry_after": 7}`, text(t, resp))
	require.Len(t, clock.Sleeps(), 1)
	assert.GreaterOrEqual(t, clock.Sleeps()[0], 7*time.Second)
}

// A body that cannot have a hint is neither read nor lost.
func TestBodyHintsElsewhere(t *testing.T) {
	t.Parallel()
	const hint = `{"retry_after": 7}`
	long := `{"x": "` + strings.Repeat("x", 1<<17) + `", "retry_after": 7}`
	tests := []struct {
		name, header, value, body string
	}{
		{"a header counts before", "Retry-After", "1", hint},
		{"too long", "Content-Type", "application/json", long},
		{"broken", "Content-Type", "application/problem+json", `{"retry_after": 7`},
	}
	for _, test := range tests {
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
			resp, err := c.Get(s.URL)
			require.NoError(t, err)
			assert.Equal(t, test.body, text(t, resp))
			require.Len(t, clock.Sleeps(), 1)
			assert.Less(t, clock.Sleeps()[0], 7*time.Second)
		})
	}
}

func TestParseBodyHint(t *testing.T) {
	t.Parallel()
	tests := []struct {
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
	}
	for _, test := range tests {
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
	resp, err := c.Get(s.URL)
	require.NoError(t, err)
	assert.Equal(t, "status 200", text(t, resp))
}
