package retryhttp_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// quota is a server that takes so many requests in each second.
type quota struct {
	latency time.Duration // of a request, half of it before the decision
	exact   bool          // only the headers x-ratelimit-*

	mu          sync.Mutex
	second      time.Time
	used, taken int
}

const perSecond = 5

func (q *quota) RoundTrip(*http.Request) (*http.Response, error) {
	time.Sleep(q.latency / 2)
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}
	if left := q.take(); left > 0 {
		if !q.exact {
			resp.Header.Set("Retry-After", strconv.Itoa(int(math.Ceil(left.Seconds()))))
		}
		resp.Header.Set("X-Ratelimit-Limit-Requests", strconv.Itoa(perSecond))
		resp.Header.Set("X-Ratelimit-Remaining-Requests", "0")
		resp.Header.Set("X-Ratelimit-Reset-Requests", left.String())
		resp.StatusCode = http.StatusTooManyRequests
	}
	time.Sleep(q.latency / 2)
	return resp, nil
}

// take returns how long the quota is used up, or 0 if it takes the request.
func (q *quota) take() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	if second := now.Truncate(time.Second); second.After(q.second) {
		q.second, q.used = second, 0
	}
	if q.used == perSecond {
		return q.second.Add(time.Second).Sub(now)
	}
	q.used++
	q.taken++
	return 0
}

// contend sends three POSTs from each of ten goroutines. It returns how many got through,
// and how long that took.
func contend(t *testing.T, q *quota, transport *retryhttp.Transport) (through int, took time.Duration) {
	t.Helper()
	began := time.Now()
	transport.Base = q
	client := &http.Client{Transport: transport}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for range 3 {
				resp, err := client.Post("http://quota.example", "text/plain", strings.NewReader("hello"))
				if assert.NoError(t, err) {
					assert.NoError(t, resp.Body.Close())
				}
			}
		})
	}
	wg.Wait()
	return q.taken, time.Since(began)
}

// With a Cooldown, all goroutines get through the quota that they share, however far away
// the server is. Without one, the budget of the host ends most calls.
func TestQuota(t *testing.T) {
	t.Parallel()
	for name, exact := range map[string]bool{"Retry-After": false, "x-ratelimit": true} {
		for _, latency := range []time.Duration{0, 50 * time.Millisecond, 500 * time.Millisecond} {
			t.Run(fmt.Sprint(name, ", ", latency), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					through, took := contend(t, &quota{exact: exact, latency: latency}, &retryhttp.Transport{Cooldown: time.Minute})
					assert.Equal(t, 30, through)
					assert.GreaterOrEqual(t, took, 5*time.Second, "six seconds' quotas")
					assert.Less(t, took, 11*time.Second, "9.99 in 17,000 runs")

					through, _ = contend(t, &quota{exact: exact, latency: latency}, &retryhttp.Transport{})
					assert.Less(t, through, 27)
				})
			})
		}
	}
}

// Calls with a Quota in their policy share what each hears: also that a success has used up
// the quota, before anybody is refused.
func TestQuotaOfThePolicy(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string][]string{
		"refusals":  nil,
		"successes": {"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "30"},
		"ietf":      {"RateLimit", `"default";r=0;t=30`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var served, refused atomic.Int64
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if served.Add(1) > 1 {
					refused.Add(1)
					status(http.StatusTooManyRequests, "Retry-After", "30")(w, r)
					return
				}
				status(http.StatusOK, headers...)(w, r)
			})
			clock := new(retrytest.Clock)
			policy := *retryhttp.DefaultPolicy()
			policy.Quota, policy.Clock = &retryquota.Quota{}, clock
			client := &http.Client{Transport: &retryhttp.Transport{Policy: &policy}}
			for range 3 {
				ctx, cancel := clock.WithTimeout(t.Context(), 10*time.Second)
				req := testkit.Must(http.NewRequestWithContext(ctx, http.MethodGet, s.URL, http.NoBody))(t)
				resp, err := client.Do(req)
				if err == nil {
					_ = resp.Body.Close()
				}
				cancel()
			}
			want := int64(0)
			if headers == nil {
				want = 1
			}
			assert.Equal(t, want, refused.Load())
		})
	}
}

// limits answers the first request of "a" with a 429 that holds for 20 s. It notes who sent each
// request, and when.
type limits struct {
	clock *retrytest.Clock
	who   func(*http.Request) string
	sent  []string
	first bool
}

func (l *limits) RoundTrip(req *http.Request) (*http.Response, error) {
	who := l.who(req)
	l.sent = append(l.sent, fmt.Sprint(who, " ", l.clock.Now().Sub(new(retrytest.Clock).Now())))
	if who == "a" && !l.first {
		l.first = true
		return &http.Response{StatusCode: http.StatusTooManyRequests, Header: headers("Retry-After", "20"), Body: http.NoBody}, nil
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// A 429 holds back the other requests to that host, and nobody else. After it they go, as many
// as come back.
func TestCooldown(t *testing.T) {
	t.Parallel()
	clock := &retrytest.Clock{}
	base := &limits{clock: clock, who: func(req *http.Request) string { return req.URL.Host }}
	transport := &retryhttp.Transport{
		Base: base, Cooldown: time.Minute, Policy: &retry.Policy{MaxAttempts: 1, Clock: clock},
	}
	var statuses []int
	for _, host := range []string{"a", "b", "a", "A:80", "a", "b"} {
		resp := testkit.Must(get(t, transport, "http://"+host+"/"))(t)
		statuses = append(statuses, resp.StatusCode)
	}
	assert.Equal(t, []int{429, 200, 200, 200, 200, 200}, statuses)
	assert.Equal(t, []string{"a 0s", "b 0s", "a 20s", "A:80 20s", "a 20s", "b 20s"}, base.sent)
}

// Each tenant has a Quota: the limit of one holds no other, whatever the Cooldown.
func TestQuotaFor(t *testing.T) {
	t.Parallel()
	clock := &retrytest.Clock{}
	base := &limits{clock: clock, who: func(req *http.Request) string { return req.URL.Query().Get("tenant") }}
	var quotas retryquota.Keys[string]
	transport := &retryhttp.Transport{
		Base: base, Cooldown: time.Minute, Policy: &retry.Policy{MaxAttempts: 1, Clock: clock},
		QuotaFor: func(req *http.Request) retry.Pacer {
			if tenant := base.who(req); tenant != "" {
				return quotas.Of(tenant)
			}
			return nil
		},
	}
	for _, tenant := range []string{"a", "b", "", "a", "b"} {
		testkit.Must(get(t, transport, "http://api/?tenant="+tenant))(t)
	}
	assert.Equal(t, []string{"a 0s", "b 0s", " 0s", "a 20s", "b 20s"}, base.sent)
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
	testkit.Must(get(t, transport, serve(t, status(429, "Retry-After", "20")).URL))(t)
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
	testkit.Must(get(t, transport, "http://a/"))(t)
	require.Equal(t, 1, requests)

	body := &onceBody{Reader: strings.NewReader("hello")}
	_, err := transport.RoundTrip(request(t, http.MethodPost, "http://a/?token=secret", body))
	require.ErrorIs(t, err, retry.StopRetryAfter)
	require.EqualError(t, err, "not started: server asks to wait 2m0s")
	assert.True(t, retry.Classify(err).NotApplied)
	e := testkit.As[*retry.Error](t, err)
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
	testkit.Must(get(t, transport, "http://a/"))(t)
	assert.Equal(t, 2, requests)
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
			base := &limits{clock: clock, who: func(*http.Request) string { return "a" }}
			transport := &retryhttp.Transport{Policy: &retry.Policy{MaxAttempts: 1, Clock: clock}, Cooldown: time.Hour, Base: base}
			resp := testkit.Must(get(t, transport, "http://h/"))(t)
			require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
			ctx, cancel := context.WithCancelCause(t.Context())
			before := clock.Now()
			clock.At(cancelAt, func() { cancel(assert.AnError) })
			_, err := transport.RoundTrip(request(t, http.MethodGet, "http://h/", nil).WithContext(ctx))
			e := testkit.As[*retry.Error](t, err)
			assert.Equal(t, retry.StopCanceled, e.Stop)
			assert.Equal(t, assert.AnError, e.Cause)
			assert.Zero(t, e.Attempts)
			assert.Equal(t, cancelAt, clock.Now().Sub(before))
			assert.Len(t, base.sent, 1)
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
	for _, test := range []struct {
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
	} {
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
	resp := testkit.Must(get(t, transport, s.URL))(t)
	assert.Equal(t, 500, resp.StatusCode)
	assert.Equal(t, 2, retryhttp.Attempts(resp))
}
