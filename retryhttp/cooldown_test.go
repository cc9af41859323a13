package retryhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// A 429 holds back the other requests to that host, and nobody else. After it they go, as many
// as come back.
func TestCooldown(t *testing.T) {
	t.Parallel()
	clock := &retrytest.Clock{}
	began, limited := clock.Now(), true
	var sent []string
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		sent = append(sent, fmt.Sprint(req.URL.Host, " ", clock.Now().Sub(began)))
		if req.URL.Host == "a" && limited {
			limited = false
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: headers("Retry-After", "20"), Body: http.NoBody}, nil
		}
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})

	transport := &retryhttp.Transport{
		Base: base, Cooldown: time.Minute, Policy: &retry.Policy{MaxAttempts: 1, Clock: clock},
	}
	var statuses []int
	for _, host := range []string{"a", "b", "a", "A:80", "a", "b"} {
		resp, err := get(t, transport, "http://"+host+"/")
		require.NoError(t, err)
		statuses = append(statuses, resp.StatusCode)
	}
	assert.Equal(t, []int{429, 200, 200, 200, 200, 200}, statuses)
	assert.Equal(t, []string{"a 0s", "b 0s", "a 20s", "A:80 20s", "a 20s", "b 20s"}, sent)
}

// Each tenant has a Quota: the limit of one holds no other, whatever the Cooldown.
func TestQuotaFor(t *testing.T) {
	t.Parallel()
	clock := &retrytest.Clock{}
	began, limited := clock.Now(), true
	var sent []string
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		tenant := req.URL.Query().Get("tenant")
		sent = append(sent, fmt.Sprint(tenant, " ", clock.Now().Sub(began)))
		if tenant == "a" && limited {
			limited = false
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: headers("Retry-After", "20"), Body: http.NoBody}, nil
		}
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})
	var quotas retryquota.Keys[string]
	transport := &retryhttp.Transport{
		Base: base, Cooldown: time.Minute, Policy: &retry.Policy{MaxAttempts: 1, Clock: clock},
		QuotaFor: func(req *http.Request) retry.Pacer {
			if tenant := req.URL.Query().Get("tenant"); tenant != "" {
				return quotas.Of(tenant)
			}
			return nil
		},
	}
	for _, tenant := range []string{"a", "b", "", "a", "b"} {
		_, err := get(t, transport, "http://api/?tenant="+tenant)
		require.NoError(t, err)
	}
	assert.Equal(t, []string{"a 0s", "b 0s", " 0s", "a 20s", "b 20s"}, sent)
	assert.Equal(t, 2, quotas.Len())
}

// A Quota of the Policy, which other clients may share, is not replaced.
func TestCooldownBesideAQuota(t *testing.T) {
	t.Parallel()
	quota := &retryquota.Quota{}
	policy := &retry.Policy{MaxAttempts: 1, Clock: &retrytest.Clock{}, Quota: quota}
	transport := &retryhttp.Transport{
		Policy: policy, Cooldown: time.Hour, Base: provoke.Transport(t, &http.Transport{}),
	}
	_, err := get(t, transport, serve(t, status(429, "Retry-After", "20")).URL)
	require.NoError(t, err)
	_, _, wait := quota.Take(policy, 1)
	assert.Equal(t, 20*time.Second, wait.Round(time.Second))
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
	require.ErrorIs(t, err, retry.StopRetryAfter)
	require.EqualError(t, err, "not started: server asks to wait 2m0s")
	assert.True(t, retry.Classify(err).NotApplied)
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

// After a redirect, the cooldown is for the other host.
func TestDoBlamesTheHostThatAnswered(t *testing.T) {
	t.Parallel()
	other := serve(t, status(429, "Retry-After", "1000"))
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/there" {
			http.Redirect(w, r, other.URL, http.StatusFound)
		}
	})
	clock := &retrytest.Clock{}
	policy := *atOnce(1)
	policy.Clock = clock
	c := client(t, nil, &policy)
	c.Transport.(*retryhttp.Transport).Cooldown = time.Hour
	err := retryhttp.Do(c, nil, request(t, http.MethodGet, s.URL+"/there", nil), nothing)
	require.ErrorContains(t, err, "GET "+other.URL+": 429")
	require.NoError(t, retryhttp.Do(c, nil, request(t, http.MethodGet, s.URL+"/here", nil), nothing))
	err = retryhttp.Do(c, nil, request(t, http.MethodGet, other.URL, nil), nothing)
	require.ErrorIs(t, err, retry.StopRetryAfter)
	assert.EqualValues(t, 1, other.requests.Load())
	assert.Empty(t, clock.Sleeps(), "the first host has its turn back")
}

// A context that ends while the host cools down ends the call, which has made no attempt.
func TestCooldownContext(t *testing.T) {
	t.Parallel()
	for name, cancelAt := range map[string]time.Duration{"before": 0, "meanwhile": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &retrytest.Clock{}
			transport, sent := cooled(t, &retry.Policy{MaxAttempts: 1, Clock: clock}, "10")
			ctx, cancel := context.WithCancelCause(t.Context())
			before := clock.Now()
			clock.At(cancelAt, func() { cancel(assert.AnError) })
			_, err := transport.RoundTrip(request(t, http.MethodGet, "http://h/", nil).WithContext(ctx))
			var e *retry.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, retry.StopCanceled, e.Stop)
			assert.Equal(t, assert.AnError, e.Cause)
			assert.Zero(t, e.Attempts)
			assert.Equal(t, cancelAt, clock.Now().Sub(before))
			assert.Equal(t, 1, *sent)
		})
	}
}

// A rate limit costs nothing, but not without end, and not against the policy.
func TestCooldownIsFree(t *testing.T) {
	t.Parallel()
	limited := func(attempts int) map[string]retry.Override {
		return map[string]retry.Override{"rate_limited": {MaxAttempts: attempts}}
	}
	none := &retry.Budget{Reserve: retry.NoReserve}
	tests := []struct {
		name     string
		policy   retry.Policy
		answer   http.HandlerFunc
		attempts int
	}{
		{"a server that never takes it", retry.Policy{}, status(429, "Retry-After", "1"), 103},
		{"at once", retry.Policy{}, status(429, "Retry-After-Ms", "1"), 103},
		{"FreeRateLimits", retry.Policy{FreeRateLimits: 5}, status(429, "Retry-After", "1"), 8},
		{"MaxAttempts", retry.Policy{MaxAttempts: 2}, status(429, "Retry-After", "1"), 102},
		{"one attempt", retry.Policy{MaxAttempts: 1}, status(429, "Retry-After", "1"), 1},
		{"an Override of one attempt", retry.Policy{Overrides: limited(1)}, status(429, "Retry-After", "1"), 1},
		{"an Override", retry.Policy{MaxAttempts: 1, Overrides: limited(2)}, status(429, "Retry-After", "1"), 102},
		{"Timeout", retry.Policy{Timeout: 10 * time.Second, Jitter: retry.NoJitter}, status(429, "Retry-After", "1"), 0},
		{"a Budget of the policy", retry.Policy{Budget: none}, status(429, "Retry-After", "1"), 103},
		{"no hint", retry.Policy{}, status(429), 103},
		{"not a rate limit", retry.Policy{}, status(503, "Retry-After", "1"), 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := test.policy
			p.Clock = &retrytest.Clock{}
			transport := &retryhttp.Transport{
				Cooldown: time.Minute, Policy: &p, Base: provoke.Transport(t, &http.Transport{}),
				Budget: func(*http.Request) retry.Throttle { return none },
			}
			resp, err := get(t, transport, serve(t, test.answer).URL)
			if test.attempts == 0 { // it ends in the line, where there is no response any more
				require.ErrorIs(t, err, retry.StopTimeout)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.attempts, retryhttp.Attempts(resp))
			assert.True(t, retryhttp.GaveUp(resp))
		})
	}
}

// The Budget of the Transport still limits the retries of other failures of the same call.
func TestCooldownLeavesTheBudgetToOtherFailures(t *testing.T) {
	t.Parallel()
	s := serve(t, status(429, "Retry-After", "1"), status(500), status(200))
	transport := &retryhttp.Transport{
		Cooldown: time.Minute, Policy: &retry.Policy{Clock: &retrytest.Clock{}},
		Base:   provoke.Transport(t, &http.Transport{}),
		Budget: func(*http.Request) retry.Throttle { return &retry.Budget{Reserve: retry.NoReserve} },
	}
	resp, err := get(t, transport, s.URL)
	require.NoError(t, err)
	assert.Equal(t, 500, resp.StatusCode)
	assert.Equal(t, 2, retryhttp.Attempts(resp))
}
