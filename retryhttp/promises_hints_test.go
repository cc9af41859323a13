package retryhttp_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

var hugeHints = []string{
	"9223372036", "9223372037", "18446744073", "18446744074", "9223372036854775807", "18446744073709551617",
	"1" + strings.Repeat("0", 400), "99999999999.5",
}

// A hint that does not fit is long, not short: no hot loop.
func TestB03_HintOverflow(t *testing.T) {
	t.Parallel()
	for _, value := range hugeHints {
		for _, name := range []string{"Retry-After", "Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
			if name != "Retry-After" && len(value) < 19 {
				continue // fits
			}
			waits, _ := waitsAfter(t, atOnce(6), 429, name, value)
			assert.Empty(t, waits, "%s: %s", name, value)
			// Not even if any wait is allowed: it is as long as possible.
			p := &retry.Policy{Backoff: retry.Constant(0), MaxRetryAfter: math.MaxInt64}
			v := retryhttp.ClassifyResponse(&http.Response{StatusCode: http.StatusTooManyRequests, Header: headers(name, value)}, noon)
			d := p.Decide(retry.State{}, v, noon)
			assert.GreaterOrEqual(t, v.After, 100*365*24*time.Hour, "%s: %s", name, value)
			assert.True(t, d.Retry)
			assert.GreaterOrEqual(t, d.Delay, v.After, "%s: %s", name, value)
			assert.False(t, d.At.Before(noon))
		}
	}
	last := time.Duration(-1)
	for n := int64(1); n < 1<<62; n *= 2 {
		d, ok := retryhttp.ParseHint(429, headers("Retry-After", fmt.Sprint(n)), time.Unix(0, 0))
		require.True(t, ok)
		require.GreaterOrEqual(t, d, last, "%d", n)
		last = d
	}
}

func capsOf(t *testing.T, header string) {
	t.Helper()
	waits, resp := waitsAfter(t, retryhttp.DefaultPolicy(), 429, "Retry-After", header)
	assert.Empty(t, waits, "neither waited for nor cut short")
	assert.Equal(t, 1, retryhttp.Attempts(resp))
	assert.Equal(t, header, resp.Header.Get("Retry-After"), "for the caller to see")
}

func TestB04_HintHasACap(t *testing.T) {
	t.Parallel()
	capsOf(t, "86400")
	p := retryhttp.DefaultPolicy()
	p.MaxRetryAfter = 48 * time.Hour
	waits, _ := waitsAfter(t, p, 429, "Retry-After", "86400")
	require.Len(t, waits, 2, "the caller decides")
	assert.GreaterOrEqual(t, waits[0], 24*time.Hour)
}

func TestB34_HintHasACap(t *testing.T) {
	t.Parallel()
	capsOf(t, "21601")                         // more than the six hours of urllib3
	capsOf(t, "Fri, 20 Nov 2026 13:00:00 GMT") // as a date too
	waits, _ := waitsAfter(t, retryhttp.DefaultPolicy(), 503, "Retry-After", "60")
	assert.Len(t, waits, 2)
}

// Docker Hub sends a Unix time.
func TestB35_UnixTimeInRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Unix(1746136938-20, 0)
	d, ok := retryhttp.ParseHint(429, headers("retry-after", "1746136938"), now)
	assert.True(t, ok)
	assert.Equal(t, 20*time.Second, d)
	d, ok = retryhttp.ParseHint(429, headers("retry-after", "1746136938"), now.Add(time.Hour))
	assert.True(t, ok)
	assert.Zero(t, d, "it has passed")
}

// Dates count, numbers with a sign do not, and there are no special values.
func TestB13_DatesAndSigns(t *testing.T) {
	t.Parallel()
	plain := func() *retry.Policy {
		return &retry.Policy{Backoff: retry.Constant(7 * time.Second), Jitter: retry.NoJitter}
	}
	waits, _ := waitsAfter(t, plain(), 503,
		"Retry-After", "Fri, 20 Nov 2026 09:00:30 GMT", "Date", "Fri, 20 Nov 2026 09:00:00 GMT")
	require.Len(t, waits, 2)
	assert.GreaterOrEqual(t, waits[0], 30*time.Second)
	assert.LessOrEqual(t, waits[0], 33*time.Second)
	for _, value := range []string{"-1", "+5", "-0", "0x10", "", "soon"} {
		waits, _ = waitsAfter(t, plain(), 429, "Retry-After", value)
		assert.Equal(t, []time.Duration{7 * time.Second, 7 * time.Second}, waits, "%q", value)
	}
}

func TestB15_Milliseconds(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		waits, _ := waitsAfter(t, atOnce(2), 429, name, "1500", "Retry-After", "30")
		require.Len(t, waits, 1)
		assert.GreaterOrEqual(t, waits[0], 1500*time.Millisecond)
		assert.LessOrEqual(t, waits[0], 1650*time.Millisecond)
	}
}

// drip is the body of a server that never comes to the end.
type drip struct {
	once   sync.Once
	closed chan struct{}
}

func (d *drip) Read(p []byte) (int, error) {
	select {
	case <-d.closed:
		return 0, http.ErrBodyReadAfterClose
	case <-time.After(10 * time.Millisecond):
		p[0] = ' '
		return 1, nil
	}
}

func (d *drip) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

// The transport does not wait for the rest of discarded responses.
func TestB15_SlowBodiesAreNotDrained(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var bodies []*drip
		base := roundTripper(func(*http.Request) (*http.Response, error) {
			body := &drip{closed: make(chan struct{})}
			bodies = append(bodies, body)
			return &http.Response{StatusCode: http.StatusServiceUnavailable, ContentLength: -1, Body: body}, nil
		})
		begun := time.Now()
		resp, err := (&retryhttp.Transport{Base: base, Policy: atOnce(3)}).RoundTrip(request(t, http.MethodGet, "http://127.0.0.1", nil))
		require.NoError(t, err)
		assert.LessOrEqual(t, time.Since(begun), 200*time.Millisecond)
		require.Len(t, bodies, 3)
		<-bodies[0].closed
		<-bodies[1].closed
		require.NoError(t, resp.Body.Close())
	})
}

func TestB08_HintInTheBody(t *testing.T) {
	t.Parallel()
	const body = `{"message": "slow down", "retry_after": 4.57}`
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, body)
	})
	clock := &retrytest.Clock{}
	p := atOnce(2)
	p.Clock = clock
	transport := &retryhttp.Transport{
		Base: counting(t, &http.Transport{}), Policy: p, Budget: retryhttp.NoBudget, BodyHints: true,
	}
	resp, err := transport.RoundTrip(request(t, http.MethodGet, s.URL, nil))
	require.NoError(t, err)
	require.Len(t, clock.Sleeps(), 1)
	assert.GreaterOrEqual(t, clock.Sleeps()[0], 4570*time.Millisecond)
	assert.Equal(t, body, text(t, resp), "the caller gets all of it")
}

// Number formats of other languages are no numbers here.
func TestB21_NumbersThatAreNone(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"1e300", "NaN", "Inf", "-Inf", "Infinity", "1e9", "0x7fffffff", "1_000", "１２"} {
		p := &retry.Policy{MaxAttempts: 6, Backoff: retry.Constant(7 * time.Second), Jitter: retry.NoJitter}
		waits, _ := waitsAfter(t, p, 429, "Retry-After", value)
		require.Len(t, waits, 5, value)
		for _, wait := range waits {
			assert.Equal(t, 7*time.Second, wait, "%s: the ordinary wait", value)
		}
	}
}

func TestB26_MillisecondsOverflow(t *testing.T) {
	t.Parallel()
	last := time.Duration(-1)
	for _, value := range []string{
		"0", "1", "9223372036854", "9223372036855", "18446744073710", "9223372036854775807", "9223372036854775808",
	} {
		d, ok := retryhttp.ParseHint(429, headers("Retry-After-Ms", value), noon)
		require.True(t, ok)
		assert.GreaterOrEqual(t, d, last, value)
		last = d
	}
	assert.Equal(t, time.Duration(math.MaxInt64), last)
}

func TestB27_FractionsAndInterruption(t *testing.T) {
	t.Parallel()
	d, ok := retryhttp.ParseHint(429, headers("Retry-After", "64.57"), noon)
	assert.True(t, ok)
	assert.Equal(t, 64570*time.Millisecond, d)
	d, ok = retryhttp.ParseBodyHint([]byte(`{"retry_after": 64.57}`))
	assert.True(t, ok)
	assert.Equal(t, 64570*time.Millisecond, d)

	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		begun := time.Now()
		transport := &retryhttp.Transport{Base: answering(429, "Retry-After", "30")}
		_, err := transport.RoundTrip(request(t, http.MethodGet, "http://127.0.0.1", nil).WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, 5*time.Second, time.Since(begun))
	})
}

func TestB28_GarbageAndThePast(t *testing.T) {
	t.Parallel()
	_, ok := retryhttp.ParseHint(429, headers("Retry-After", "garbage"), noon)
	assert.False(t, ok, "not 0, which would be a hint")
	past := []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", fmt.Sprint(noon.Add(-time.Hour).Unix())}
	d, ok := retryhttp.ParseHint(403, headers(past...), noon)
	assert.True(t, ok)
	assert.Zero(t, d)
	p := &retry.Policy{Backoff: retry.Constant(7 * time.Second), Jitter: retry.NoJitter}
	waits, _ := waitsAfter(t, p, 403, past...)
	assert.Equal(t, []time.Duration{7 * time.Second, 7 * time.Second}, waits, "retried, and no hot loop")
}

func TestB29_GarbageKeepsTheClass(t *testing.T) {
	t.Parallel()
	v := retryhttp.ClassifyResponse(&http.Response{StatusCode: http.StatusTooManyRequests, Header: headers("Retry-After", "soon")}, noon)
	assert.Equal(t, retry.RateLimited, v.Class)
	assert.Zero(t, v.After)
	assert.True(t, v.NotApplied)
	assert.Equal(t, 3, attemptsOfThree(t, answering(429, "Retry-After", "soon"), http.MethodPost, "http://127.0.0.1"))
}
