package retryhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

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

	// With so many hosts, the first ones are forgotten.
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

// cooled returns a Transport whose host wants no requests for some time, and
// which counts those that are sent.
func cooled(t *testing.T, p *retry.Policy, seconds string) (transport *retryhttp.Transport, sent *int) {
	t.Helper()
	n := 0
	transport = &retryhttp.Transport{Policy: p, Cooldown: time.Hour, Base: roundTripper(func(*http.Request) (*http.Response, error) {
		n++
		if n == 1 {
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: headers("Retry-After", seconds), Body: http.NoBody}, nil
		}
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})}
	resp, err := get(t, transport, "http://h/")
	require.NoError(t, err)
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	return transport, &n
}

// A request waits for a cooldown as for a hint.
func TestCooldownByThePolicy(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		policy retry.Policy
		hint   string
		want   error
	}{
		{"within MaxElapsed", retry.Policy{MaxElapsed: time.Minute}, "30", nil},
		{"beyond MaxElapsed", retry.Policy{MaxElapsed: time.Second}, "30", retry.ErrElapsed},
		{"as long as the backoff", retry.Policy{Backoff: retry.Constant(2 * time.Minute)}, "90", nil},
		{"too long", retry.Policy{}, "90", retry.ErrRetryAfterTooLong},
		{"allowed", retry.Policy{MaxRetryAfter: 2 * time.Minute}, "90", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				test.policy.MaxAttempts = 1
				transport, sent := cooled(t, &test.policy, test.hint)
				test.policy.MaxAttempts = 2
				_, err := get(t, transport, "http://h/")
				require.ErrorIs(t, err, test.want)
				want := 2
				if test.want != nil {
					want = 1
				}
				assert.Equal(t, want, *sent)
			})
		})
	}
}

// The requests that a rate limit holds back wait as long as it lasts, not longer.
func TestChaosCooldown(t *testing.T) {
	t.Parallel()
	s := serve(t, status(429, "Retry-After-Ms", "20"), status(200))
	clock := &retrytest.Clock{}
	p := atOnce(1)
	p.Clock = clock
	c := client(t, nil, p)
	c.Transport.(*retryhttp.Transport).Cooldown = time.Minute
	for _, want := range []int{429, 200} {
		resp, err := c.Do(request(t, http.MethodGet, s.URL, nil))
		require.NoError(t, err)
		assert.Equal(t, want, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
	}
	waited := time.Duration(0)
	for _, d := range clock.Sleeps() {
		waited += d
	}
	assert.GreaterOrEqual(t, waited, 20*time.Millisecond)
	assert.LessOrEqual(t, waited, 30*time.Millisecond)
}

// After a redirect, the cooldown is for the other host.
func TestDoBlamesTheHostThatAnswered(t *testing.T) {
	t.Parallel()
	other := serve(t, status(429, "Retry-After", "1000"))
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/there" {
			http.Redirect(w, r, other.URL, http.StatusFound)
		}
	})
	c := client(t, nil, atOnce(1))
	c.Transport.(*retryhttp.Transport).Cooldown = time.Hour
	err := retryhttp.Do(c, nil, request(t, http.MethodGet, s.URL+"/there", nil), nothing)
	require.ErrorContains(t, err, "GET "+other.URL+": 429")
	require.NoError(t, retryhttp.Do(c, nil, request(t, http.MethodGet, s.URL+"/here", nil), nothing))
	err = retryhttp.Do(c, nil, request(t, http.MethodGet, other.URL, nil), nothing)
	require.ErrorContains(t, err, "not sent")
	assert.EqualValues(t, 1, other.requests.Load())
}
