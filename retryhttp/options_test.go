package retryhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

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

// A host that fails gets the reserve of its own budget, and no more.
func TestBudgetPerHost(t *testing.T) {
	t.Parallel()
	base, requests := always(503)
	transport := &retryhttp.Transport{Base: base, Policy: atOnce(3)}
	sent := func(url string) int {
		before := *requests
		resp, err := get(t, transport, url)
		require.NoError(t, err)
		assert.Equal(t, 503, resp.StatusCode)
		return *requests - before
	}
	assert.Equal(t, 3, sent("http://a/"))
	assert.Equal(t, 2, sent("http://a/x"))
	assert.Equal(t, 1, sent("http://a/"))
	assert.Equal(t, 3, sent("http://b/"))
	assert.Equal(t, 3, sent("http://a:81/"))
	assert.Equal(t, 3, sent("https://a/"), "another scheme, another server")
	assert.Equal(t, 1, sent("http://a/"))

	// So many hosts that the first ones are forgotten.
	for i := range 1024 {
		_ = sent(fmt.Sprint("http://many-", i))
	}
	assert.Equal(t, 3, sent("http://a/"), "forgotten")
	assert.Equal(t, 2, sent("http://many-1023/"), "remembered")
}

// A host that is in use is not forgotten.
func TestBudgetOfAHostInUse(t *testing.T) {
	t.Parallel()
	base, requests := always(503)
	transport := &retryhttp.Transport{Base: base, Policy: atOnce(4)}
	_, err := get(t, transport, "http://a/")
	require.NoError(t, err)
	require.Equal(t, 4, *requests)
	for i := range 5000 {
		if i%500 == 0 {
			before := *requests
			_, err := get(t, transport, "http://a/")
			require.NoError(t, err)
			require.Equal(t, 1, *requests-before, i)
		}
		_, err := get(t, transport, fmt.Sprint("http://many-", i))
		require.NoError(t, err)
	}
}

// A success pays for retries, also one without any; so does a refusal that proves
// that the server is well. A failure does not.
func TestBudgetIsRefilled(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status int
		pays   bool
	}{{200, true}, {404, true}, {501, false}, {507, false}} {
		status := 503
		requests := 0
		base := &http.Transport{} // the fast path
		base.RegisterProtocol("stub", roundTripper(func(req *http.Request) (*http.Response, error) {
			requests++
			return &http.Response{StatusCode: status, Body: http.NoBody, Request: req}, nil
		}))
		transport := &retryhttp.Transport{Base: base, Policy: atOnce(9)}
		_, err := get(t, transport, "stub://a/")
		require.NoError(t, err)
		assert.Equal(t, 9, requests, "the reserve is enough for one request")
		status = test.status
		for range 20 {
			_, err := get(t, transport, "stub://a/")
			require.NoError(t, err)
		}
		assert.Equal(t, 29, requests)
		status = 503
		_, err = get(t, transport, "stub://a/")
		require.NoError(t, err)
		want := 30
		if test.pays {
			want += 2 // 20 × 0.1
		}
		assert.Equal(t, want, requests, "%d", test.status)
	}
}

// A request may use up its attempts while the host is new, as far as they are few.
func TestReserve(t *testing.T) {
	t.Parallel()
	for attempts, want := range map[int]int{0: 3, 1: 1, 2: 2, 5: 5, 11: 11, 12: 11, retry.Unlimited: 11} {
		base, requests := always(503)
		p := atOnce(attempts)
		_, err := get(t, &retryhttp.Transport{Base: base, Policy: p}, "http://a/")
		require.NoError(t, err)
		assert.Equal(t, want, *requests, "%d attempts", attempts)
	}
}

func TestBudgetChoice(t *testing.T) {
	t.Parallel()
	base, requests := always(503)
	send := func(transport *retryhttp.Transport) int {
		*requests = 0
		for range 2 {
			_, err := get(t, transport, "http://a/")
			require.NoError(t, err)
		}
		return *requests
	}
	assert.Equal(t, 10, send(&retryhttp.Transport{Base: base, Policy: atOnce(5), Budget: retryhttp.NoBudget}))
	small := &retry.Budget{Reserve: 1}
	assert.Equal(t, 3, send(&retryhttp.Transport{
		Base: base, Policy: atOnce(5), Budget: func(*http.Request) retry.Throttle { return small },
	}))
	p := atOnce(5)
	p.Budget = &retry.Budget{Reserve: 2}
	assert.Equal(t, 4, send(&retryhttp.Transport{
		Base: base, Policy: p, Budget: func(*http.Request) retry.Throttle { return small },
	}))
}

// A 429 with a hint holds back the other requests to that host.
func TestCooldown(t *testing.T) {
	t.Parallel()
	limited := true
	var hosts []string
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		hosts = append(hosts, req.URL.Host)
		if req.URL.Host == "a" && limited {
			limited = false
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: headers("Retry-After", "20"), Body: http.NoBody}, nil
		}
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})
	clock := &retrytest.Clock{}
	transport := &retryhttp.Transport{
		Base: base, Cooldown: time.Minute, Policy: &retry.Policy{MaxAttempts: 1, Clock: clock},
	}
	resp, err := get(t, transport, "http://a/")
	require.NoError(t, err)
	assert.Equal(t, 429, resp.StatusCode)
	assert.Empty(t, clock.Sleeps())

	_, err = get(t, transport, "http://b/")
	require.NoError(t, err)
	assert.Empty(t, clock.Sleeps(), "another host")

	resp, err = get(t, transport, "http://a/")
	require.NoError(t, err)
	assert.Equal(t, 200, resp.StatusCode)
	assert.Equal(t, 1, retryhttp.Attempts(resp))
	require.Len(t, clock.Sleeps(), 1)
	assert.GreaterOrEqual(t, clock.Sleeps()[0], 20*time.Second)
	assert.LessOrEqual(t, clock.Sleeps()[0], 22*time.Second)
	_, err = get(t, transport, "http://a/")
	require.NoError(t, err)
	assert.Len(t, clock.Sleeps(), 1, "it has passed")
	assert.Equal(t, []string{"a", "b", "a", "a"}, hosts)
}

// A request that cannot wait so long is not sent.
func TestCooldownTooLong(t *testing.T) {
	t.Parallel()
	requests := 0
	base := roundTripper(func(*http.Request) (*http.Response, error) {
		requests++
		return &http.Response{StatusCode: http.StatusTooManyRequests, Header: headers("Retry-After", "3600"), Body: http.NoBody}, nil
	})
	clock := &retrytest.Clock{}
	transport := &retryhttp.Transport{Base: base, Cooldown: 2 * time.Minute, Policy: &retry.Policy{Clock: clock}}
	_, err := get(t, transport, "http://a/")
	require.NoError(t, err)
	require.Equal(t, 1, requests)

	body := &onceBody{Reader: strings.NewReader("hello")}
	_, err = transport.RoundTrip(request(t, http.MethodPost, "http://a/?token=secret", body))
	require.ErrorIs(t, err, retry.ErrRetryAfterTooLong)
	require.EqualError(t, err, "failed after 1 attempt (server asks to wait 2m0s): retryhttp: http://a/ is rate limited: not sent")
	var e *retry.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, 2*time.Minute, e.RetryAfter, "the cooldown, not the hint")
	assert.Equal(t, 1, requests)
	assert.EqualValues(t, 1, body.closed.Load())

	// Nor one that has a deadline.
	clock.Advance(90 * time.Second)
	ctx, cancel := clock.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	_, err = transport.RoundTrip(request(t, http.MethodGet, "http://a/", nil).WithContext(ctx))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, 1, requests)
	assert.Empty(t, clock.Sleeps())

	clock.Advance(31 * time.Second)
	_, err = get(t, transport, "http://a/")
	require.NoError(t, err)
	assert.Equal(t, 2, requests)
}

func TestIdempotencyKeyOption(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	keys := map[string][]string{}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		keys[r.Method+r.URL.Path] = append(keys[r.Method+r.URL.Path], r.Header.Get("Idempotency-Key"))
		w.WriteHeader(http.StatusInternalServerError)
	})
	c := client(t, nil, atOnce(3))
	transport := c.Transport.(*retryhttp.Transport)
	transport.IdempotencyKey = retryhttp.RandomKey
	send := func(method, path string, header ...string) {
		req := request(t, method, s.URL+path, strings.NewReader("hello"), header...)
		before := len(req.Header)
		resp, err := c.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Len(t, req.Header, before, "the caller's request stays as it is")
	}
	send("POST", "/1")
	send("POST", "/2")
	send("POST", "/own", "Idempotency-Key", "mine")
	send("PUT", "/")
	for _, path := range []string{"POST/1", "POST/2"} {
		require.Len(t, keys[path], 3)
		assert.GreaterOrEqual(t, len(keys[path][0]), 26)
		assert.Equal(t, keys[path][0], keys[path][1])
		assert.Equal(t, keys[path][0], keys[path][2])
	}
	assert.NotEqual(t, keys["POST/1"][0], keys["POST/2"][0])
	assert.Equal(t, []string{"mine", "mine", "mine"}, keys["POST/own"])
	assert.Equal(t, []string{"", "", ""}, keys["PUT/"])

	transport.IdempotencyKey = func(*http.Request) string { return "" }
	send("POST", "/none")
	assert.Equal(t, []string{""}, keys["POST/none"])
}

func TestAttemptHeader(t *testing.T) {
	t.Parallel()
	var numbers []string
	record := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			numbers = append(numbers, r.Header.Get("X-Attempt"))
			next(w, r)
		}
	}
	s := serve(t, record(status(503)), record(status(429)), record(status(200)))
	c := client(t, nil, atOnce(3))
	c.Transport.(*retryhttp.Transport).AttemptHeader = "X-Attempt"
	resp, err := c.Get(s.URL)
	require.NoError(t, err)
	assert.Equal(t, "status 200", text(t, resp))
	assert.Equal(t, []string{"1", "2", "3"}, numbers)
	assert.Equal(t, 3, retryhttp.Attempts(resp))
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	assert.Zero(t, retryhttp.Attempts(nil))
	assert.Equal(t, 1, retryhttp.Attempts(&http.Response{}))
	s := serve(t, status(200), status(503))
	c := client(t, nil, atOnce(4))
	c.Timeout = time.Minute // wraps the body
	resp, err := c.Get(s.URL)
	require.NoError(t, err)
	assert.Equal(t, "status 200", text(t, resp))
	assert.Equal(t, 1, retryhttp.Attempts(resp))
	resp, err = c.Get(s.URL)
	require.NoError(t, err)
	assert.Equal(t, "status 503", text(t, resp))
	assert.Equal(t, 4, retryhttp.Attempts(resp))
	assert.Equal(t, s.URL, resp.Request.URL.String())
}

// Who follows a link makes the next request with the context of the last one. What
// Attempts says of a response is not about the response to that.
func TestAttemptsAreNotInherited(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503), status(200))
	c := client(t, nil, atOnce(3))
	resp, err := c.Get(s.URL)
	require.NoError(t, err)
	assert.Equal(t, "status 200", text(t, resp))
	assert.Equal(t, 2, retryhttp.Attempts(resp))
	next := request(t, http.MethodGet, s.URL, nil).WithContext(resp.Request.Context())
	resp, err = c.Do(next)
	require.NoError(t, err)
	assert.Equal(t, "status 200", text(t, resp))
	assert.Equal(t, 1, retryhttp.Attempts(resp))
}

func TestTrustShouldRetry(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"X-Should-Retry", "Stripe-Should-Retry"} {
		s := serve(t, status(400, name, "true"), status(409, name, "true"), status(404))
		c := client(t, nil, atOnce(5))
		c.Transport.(*retryhttp.Transport).TrustShouldRetry = true
		resp, err := c.Post(s.URL, "text/plain", strings.NewReader("hello"))
		require.NoError(t, err)
		assert.Equal(t, "status 404", text(t, resp))
	}
}

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

// What cannot be a hint is neither read nor lost.
func TestBodyHintsElsewhere(t *testing.T) {
	t.Parallel()
	const hint = `{"retry_after": 7}`
	long := `{"x": "` + strings.Repeat("x", 1<<17) + `", "retry_after": 7}`
	tests := []struct {
		name, header, value, body string
	}{
		{"no JSON", "Content-Type", "text/html", hint},
		{"no type", "Content-Type", "", hint},
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
		{`{"error": {"message": "slow down", "retry_after": 1}, "details": {"retryAfterSeconds": 12}}`, 12 * time.Second, true},
	}
	for _, test := range tests {
		got, ok := retryhttp.ParseBodyHint([]byte(test.body))
		assert.Equal(t, test.want, got, test.body)
		assert.Equal(t, test.ok, ok, test.body)
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	assert.NoError(t, retryhttp.Redact(nil))
	plain := fmt.Errorf("x: %w", io.EOF)
	assert.Same(t, plain, retryhttp.Redact(plain))

	err := retryhttp.Redact(&url.Error{Op: "Get", URL: "http://user:pass@h/p?token=t0ken", Err: context.DeadlineExceeded})
	require.EqualError(t, err, `Get "http://h/p?token=***": context deadline exceeded`)
	var e *url.Error
	require.ErrorAs(t, err, &e)
	assert.True(t, e.Timeout())
	require.ErrorIs(t, err, context.DeadlineExceeded)

	wrapped := fmt.Errorf("fetch: %w", &url.Error{Op: "Get", URL: "http://user:pass@h/p?token=t0ken", Err: io.EOF})
	err = retryhttp.Redact(wrapped)
	require.EqualError(t, err, `fetch: Get "http://h/p?token=***": EOF`)
	assert.ErrorIs(t, err, io.EOF)
}
