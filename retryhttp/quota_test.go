package retryhttp_test

import (
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
					assert.Less(t, took, 10*time.Second)

					through, _ = contend(t, &quota{exact: exact, latency: latency}, &retryhttp.Transport{})
					assert.Less(t, through, 27)
				})
			})
		}
	}
}

// Tenants that share a Transport with a Cooldown wait for each other. With a Transport for
// each they do not, and still share the connections.
func TestQuotasOfTenants(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "greedy" {
			status(http.StatusTooManyRequests, "Retry-After", "20")(w, r)
		}
	})
	for _, shared := range []bool{true, false} {
		clock := &retrytest.Clock{}
		base := provoke.Transport(t, &http.Transport{})
		greedy := &retryhttp.Transport{Base: base, Cooldown: time.Minute, Policy: &retry.Policy{MaxAttempts: 1, Clock: clock}}
		modest := greedy
		if !shared {
			modest = &retryhttp.Transport{Base: base, Cooldown: time.Minute, Policy: greedy.Policy}
		}
		resp, err := greedy.RoundTrip(request(t, http.MethodPost, s.URL, nil, "Authorization", "greedy"))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		resp, err = modest.RoundTrip(request(t, http.MethodPost, s.URL, nil, "Authorization", "modest"))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		assert.Equal(t, shared, len(clock.Sleeps()) > 0)
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
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, http.NoBody)
				require.NoError(t, err)
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
