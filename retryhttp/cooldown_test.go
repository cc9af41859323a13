package retryhttp_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

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
	require.ErrorIs(t, err, retry.StopRetryAfter)
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
		{"beyond MaxElapsed", retry.Policy{MaxElapsed: time.Second}, "30", retry.StopElapsed},
		{"as long as the backoff", retry.Policy{Backoff: retry.Constant(2 * time.Minute)}, "90", nil},
		{"too long", retry.Policy{}, "90", retry.StopRetryAfter},
		{"allowed", retry.Policy{MaxRetryAfter: 2 * time.Minute}, "90", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				once, twice := test.policy, test.policy
				once.MaxAttempts, twice.MaxAttempts = 1, 2
				transport, sent := cooled(t, &once, test.hint)
				transport.Policy = &twice
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

// word is a Rand that always has the same word.
type word uint64

func (w word) Uint64() uint64 { return uint64(w) }

// How long the first attempt waits depends on the limits of the policy, and not on what it
// says about failures.
func TestCooldownWaits(t *testing.T) {
	t.Parallel()
	const s = time.Second
	tests := []struct {
		name   string
		policy retry.Policy
		room   time.Duration // until the deadline; 0 means none
		lo, hi time.Duration // both 0: it is not sent
	}{
		{"the hint", retry.Policy{}, 0, 10 * s, 11 * s},
		{"one attempt", retry.Policy{MaxAttempts: 1}, 0, 10 * s, 11 * s},
		{"not idempotent", retry.Policy{NonIdempotent: true}, 0, 10 * s, 11 * s},
		{"an Override", retry.Policy{Overrides: map[string]retry.Override{
			"rate_limited": {MaxAttempts: 1, Jitter: retry.NoJitter},
		}}, 0, 10 * s, 11 * s},
		{"the jitter of the policy", retry.Policy{Jitter: retry.PlusMinus(9 * s)}, 0, 10 * s, 11 * s},
		{"no jitter", retry.Policy{Jitter: retry.NoJitter}, 0, 10 * s, 10 * s},
		{"MaxDelay", retry.Policy{MaxDelay: s}, 0, 10 * s, 11 * s},

		{"MaxRetryAfter", retry.Policy{MaxRetryAfter: 10 * s}, 0, 10 * s, 11 * s},
		{"beyond MaxRetryAfter", retry.Policy{MaxRetryAfter: 10*s - 1}, 0, 0, 0},
		{"MaxElapsed", retry.Policy{MaxElapsed: 10*s + 1}, 0, 10 * s, 10*s + 1},
		{"beyond MaxElapsed", retry.Policy{MaxElapsed: 10*s - 1}, 0, 0, 0},
		{"Timeout", retry.Policy{Timeout: 10*s + 3}, 0, 10 * s, 10*s + 2},
		{"not until the Timeout", retry.Policy{Timeout: 10 * s}, 0, 0, 0},
		{"the deadline", retry.Policy{}, 10*s + 3, 10 * s, 10*s + 2},
		{"not until the deadline", retry.Policy{}, 10 * s, 0, 0},
	}
	for _, test := range tests {
		for rand, want := range map[word]time.Duration{0: test.lo, math.MaxUint64: test.hi} {
			t.Run(fmt.Sprint(test.name, ", ", want), func(t *testing.T) {
				t.Parallel()
				clock, p := &retrytest.Clock{}, test.policy
				transport, sent := cooled(t, &retry.Policy{MaxAttempts: 1, Clock: clock}, "10")
				p.Clock, p.Rand = clock, rand
				transport.Policy = &p
				ctx := t.Context()
				if test.room > 0 {
					var cancel context.CancelFunc
					ctx, cancel = clock.WithTimeout(ctx, test.room)
					defer cancel()
				}
				before := clock.Now()
				resp, err := transport.RoundTrip(request(t, http.MethodGet, "http://h/", nil).WithContext(ctx))
				if want == 0 {
					require.ErrorContains(t, err, "not sent")
					assert.Equal(t, 1, *sent)
				} else {
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					assert.Equal(t, 2, *sent)
				}
				assert.Equal(t, want, clock.Now().Sub(before))
			})
		}
	}
}

// attempts is an Observer of attempts.
type attempts struct{ log []string }

func (*attempts) Observe(context.Context, retry.Event) {}

func (a *attempts) Attempt(_ context.Context, n int) (context.Context, func(error)) {
	a.log = append(a.log, fmt.Sprint("begin ", n))
	return nil, func(err error) { a.log = append(a.log, fmt.Sprintf("end %d: %v", n, err)) }
}

// The timeout of an attempt does not run while the host cools down. An Observer sees that a
// second attempt is begun anew; a first one is not begun before.
func TestCooldownOfAttempts(t *testing.T) {
	t.Parallel()
	var seen attempts
	clock := &retrytest.Clock{}
	sent := 0
	transport := &retryhttp.Transport{Cooldown: time.Minute}
	transport.Policy = &retry.Policy{
		AttemptTimeout: 5 * time.Second, Backoff: retry.Constant(time.Second), Jitter: retry.NoJitter,
		Clock: clock, Observer: &seen,
	}
	transport.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.URL.Path == "/limited" {
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: headers("Retry-After", "20"), Body: http.NoBody}, nil
		}
		deadline, ok := req.Context().Deadline()
		assert.True(t, ok)
		assert.Equal(t, 5*time.Second, deadline.Sub(clock.Now()))
		if sent++; sent > 1 {
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		}
		limitHost(t, transport, clock)
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
	})
	limitHost(t, transport, clock)
	seen.log = nil
	resp, err := get(t, transport, "http://h/")
	require.NoError(t, err)
	assert.Equal(t, 2, retryhttp.Attempts(resp))
	assert.Equal(t, []time.Duration{20 * time.Second, time.Second, 19 * time.Second}, clock.Sleeps())
	log := seen.log
	require.Len(t, log, 8)
	assert.Equal(t, "begin 1", log[0])
	assert.Equal(t, []string{
		"begin 2", "end 2: retry: worker lost",
		"begin 2", "end 2: <nil>",
	}, log[len(log)-4:])
}

// limitHost lets the host of transport ask for 20 seconds. The request does not wait for
// them.
func limitHost(t *testing.T, transport *retryhttp.Transport, clock *retrytest.Clock) {
	t.Helper()
	ctx, cancel := clock.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	resp, err := transport.RoundTrip(request(t, http.MethodGet, "http://h/limited", nil).WithContext(ctx))
	if assert.NoError(t, err) {
		assert.NoError(t, resp.Body.Close())
	}
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
			clock.At(cancelAt, func() { cancel(errBench) })
			_, err := transport.RoundTrip(request(t, http.MethodGet, "http://h/", nil).WithContext(ctx))
			var e *retry.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, retry.StopCanceled, e.Stop)
			assert.Equal(t, errBench, e.Cause)
			assert.Zero(t, e.Attempts)
			assert.Equal(t, cancelAt, clock.Now().Sub(before))
			assert.Equal(t, 1, *sent)
		})
	}
}

// A rate limit after which the host cools down costs nothing, but not without end, and not
// against the policy.
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
		{"Timeout", retry.Policy{Timeout: 10 * time.Second, Jitter: retry.NoJitter}, status(429, "Retry-After", "1"), 10},
		{"a Budget of the policy", retry.Policy{Budget: none}, status(429, "Retry-After", "1"), 1},
		{"no hint", retry.Policy{}, status(429), 1},
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
