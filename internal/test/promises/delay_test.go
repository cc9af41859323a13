package promises_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

var jitters = []retry.Jitter{
	nil, retry.FullJitter, retry.EqualJitter, retry.Proportional(0.1), retry.Proportional(1), retry.PlusMinus(2 * time.Second),
	retry.PlusMinus(math.MaxInt64), retry.NoJitter,
}

// No wait is longer than MaxDelay: no jitter and no backoff goes beyond it.
func TestCapIsHard(t *testing.T) {
	t.Parallel()
	const limit = 10 * time.Second
	for _, jitter := range append([]retry.Jitter{greedy{}}, jitters...) {
		for _, backoff := range []retry.Backoff{retry.Exponential{Initial: time.Second}, greedy{}} {
			p := retry.Policy{Backoff: backoff, MaxDelay: limit, Jitter: jitter, Rand: seeded(1)}
			longest := time.Duration(0)
			for n := range 10_000 {
				longest = max(longest, p.Delay(retry.State{Failures: n%64 + 1}))
			}
			assert.LessOrEqual(t, longest, limit, "%v", p)
			assert.GreaterOrEqual(t, longest, limit*9/10, "%v", p)
		}
	}
}

var (
	edges = []time.Duration{math.MinInt64, -time.Hour, -1, 0, 1, time.Second, 24 * time.Hour, math.MaxInt64/2 + 1, math.MaxInt64}
	reals = []float64{math.NaN(), math.Inf(-1), math.Inf(1), -1, 0, math.SmallestNonzeroFloat64, 0.1, 1, 1.0000001, 2, 1e18, math.MaxFloat64}
)

// No setting gives a wait that is negative or too long.
func TestDelayTotal(t *testing.T) {
	t.Parallel()
	r := seeded(12)
	for range 50_000 {
		d, f, n := edges[r.IntN(len(edges))], reals[r.IntN(len(reals))], []int{math.MinInt, 0, 1, 2, 62, 63, 64, 1 << 30, math.MaxInt}[r.IntN(9)]
		backoffs := []retry.Backoff{
			nil,
			retry.Exponential{Initial: d, Multiplier: f},
			retry.Linear{Initial: d, Step: edges[r.IntN(len(edges))]},
			retry.Fibonacci{Initial: d},
			retry.Constant(d),
			retry.Schedule{1, d},
			greedy{},
		}
		jitters := []retry.Jitter{nil, retry.EqualJitter, retry.Proportional(f), retry.PlusMinus(d), greedy{}}
		p := retry.Policy{Backoff: backoffs[r.IntN(7)], Jitter: jitters[r.IntN(5)], MaxDelay: edges[r.IntN(len(edges))], Rand: word(r.Uint64())}
		limit := p.MaxDelay
		if limit <= 0 {
			limit = math.MaxInt64
		}
		for _, d := range []time.Duration{p.Delay(retry.State{Failures: n}), p.Next(retry.State{Failures: n}, testkit.ErrPeer, epoch).Delay} {
			require.True(t, 0 <= d && d <= limit, "%v: %#v at %d", d, p, n)
		}
	}
}

// A first wait above MaxDelay is an error of Validate, and never waited for.
func TestInitialAboveMax(t *testing.T) {
	t.Parallel()
	for path, b := range map[string]retry.Backoff{
		"backoff.exponential.initial": retry.Exponential{Initial: time.Minute}, "backoff.linear.initial": retry.Linear{Initial: time.Minute},
		"backoff.fibonacci.initial": retry.Fibonacci{Initial: time.Minute}, "backoff.constant": retry.Constant(time.Minute),
		"backoff.schedule[0]": retry.Schedule{time.Minute},
	} {
		p := retry.Policy{Backoff: b, MaxDelay: 5 * time.Second, Jitter: retry.NoJitter}
		assert.ErrorContains(t, p.Validate(), path)
		assert.Equal(t, 5*time.Second, p.Delay(retry.State{Failures: 1}))
		p.MaxDelay = 0
		assert.NoError(t, p.Validate())
		assert.Equal(t, time.Minute, p.Delay(retry.State{Failures: 1}), "what is written is not shortened")
	}
}

// The first wait is the initial one, and the waits are those of the documents.
func TestFirstDelayIsBase(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		backoff       retry.Backoff
		first, second time.Duration
	}{
		{retry.Exponential{Initial: time.Second, Multiplier: 1.5}, time.Second, 1500 * time.Millisecond},
		{retry.Linear{Initial: time.Second}, time.Second, 2 * time.Second},
		{retry.Fibonacci{Initial: time.Second}, time.Second, time.Second},
		{retry.Schedule{time.Second, time.Minute}, time.Second, time.Minute},
	} {
		p := &retry.Policy{Backoff: tt.backoff, Jitter: retry.NoJitter}
		c := play(t, p, always(testkit.ErrPeer))
		assert.Equal(t, tt.first+min(tt.second, 60*time.Second), c.took)
		assert.Equal(t, tt.first, p.Next(retry.State{}, testkit.ErrPeer, epoch).Delay)
		assert.Equal(t, tt.second, p.Next(retry.State{Failures: 1}, testkit.ErrPeer, epoch).Delay)
	}
}

// At the cap the clients are still spread.
func TestJitterSurvivesCap(t *testing.T) {
	t.Parallel()
	for _, jitter := range jitters[:len(jitters)-1] {
		p := retry.Policy{MaxDelay: 20 * time.Second, Jitter: jitter, Rand: seeded(1)}
		distinct := map[time.Duration]bool{}
		for range 1000 {
			distinct[p.Delay(retry.State{Failures: 50})] = true
		}
		assert.Greater(t, len(distinct), 990, "%v", jitter)
	}
}

// Bounds are what the waits reach, and never leave.
func TestBounds(t *testing.T) {
	t.Parallel()
	for _, jitter := range jitters {
		for n := 1; n < 60; n += 7 {
			p := retry.Policy{Backoff: retry.Exponential{Initial: 3 * time.Second}, Jitter: jitter}
			lo, hi := p.Bounds(n)
			for _, w := range []word{0, 1 << 63, math.MaxUint64} {
				p.Rand = w
				d := p.Delay(retry.State{Failures: n})
				assert.Equal(t, w == 0 || lo == hi, d == lo, "%v: %v", jitter, d)
				assert.Equal(t, w == math.MaxUint64 || lo == hi, d == hi, "%v: %v", jitter, d)
				assert.True(t, lo <= d && d <= hi, "%v: %v", jitter, d)
			}
		}
	}
}

// A wait is found in constant time: a thousand of these take less than a millisecond.
func TestAttemptHuge(t *testing.T) {
	t.Parallel()
	for _, b := range []retry.Backoff{nil, retry.Exponential{Multiplier: 1.1}, retry.Linear{Step: 1}, retry.Fibonacci{Initial: 1}, retry.Schedule{1, 2}} {
		p := retry.Policy{Backoff: b, MaxDelay: 30 * time.Second, Jitter: retry.NoJitter}
		start := time.Now()
		for n := range 1000 {
			d := p.Delay(retry.State{Failures: math.MaxInt - n})
			require.True(t, 0 < d && d <= 30*time.Second, "%v", b)
			require.Less(t, time.Since(start), 10*time.Second, "the time grows with the attempt: %v", b)
		}
	}
}

// A hint replaces one wait, and the backoff goes on.
func TestHintDoesNotResetBackoff(t *testing.T) {
	t.Parallel()
	for free, want := range []string{"1s 2s 20s 8s 16s", "1s 2s 20s 4s 8s"} {
		p := retry.Policy{MaxAttempts: 9, FreeRateLimits: free, Backoff: retry.Exponential{Initial: time.Second}, Jitter: retry.NoJitter}
		got, state := "", retry.State{}
		for i := range 5 {
			err := testkit.ErrPeer
			if i == 2 {
				err = retry.MarkRateLimited(err, 20*time.Second)
			}
			d := p.Next(state, err, epoch)
			got, state = got+" "+d.Delay.String(), d.State
		}
		assert.Equal(t, " "+want, got)
	}
}

// The backoffs are those of the documents, and so is their text.
func TestDocumentedSequences(t *testing.T) {
	t.Parallel()
	for want, b := range map[string]retry.Backoff{
		"2s ×2: 2 4 8 16 32": retry.Exponential{}, "1s ×1.5: 1 1.5 2.25 3.375 5.0625": retry.Exponential{Initial: time.Second, Multiplier: 1.5},
		"2s +2s: 2 4 6 8 10": retry.Linear{}, "1s +5s: 1 6 11 16 21": retry.Linear{Initial: time.Second, Step: 5 * time.Second},
		"fibonacci 2s: 2 2 4 6 10": retry.Fibonacci{}, "constant 5s: 5 5 5 5 5": retry.Constant(5 * time.Second),
		"schedule 1s, 5s: 1 5 5 5 5": retry.Schedule{time.Second, 5 * time.Second}, "constant 0s: 0 0 0 0 0": retry.Constant(0),
	} {
		got := fmt.Sprint(b, ":")
		for n := 1; n <= 5; n++ {
			got += fmt.Sprint(" ", b.Delay(n).Seconds())
		}
		assert.Equal(t, want, got)
	}
	assert.Equal(t, "3 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s", new(retry.Policy).String())
}

// With a Key, every process of every version draws the same waits, and those of two jobs differ.
func TestDeterministicJitter(t *testing.T) {
	t.Parallel()
	p := retry.Policy{Backoff: retry.Constant(time.Hour), Jitter: retry.FullJitter}
	for want, s := range map[time.Duration]retry.State{
		549504407980: {Failures: 1, Key: "a"}, 3252925708067: {Failures: 2, Key: "a"}, 339714389991: {Failures: 1, RateLimited: 1, Key: "a"},
		2145869543980: {Failures: 1, Key: "b"}, 1926179559396: {Failures: 7, RateLimited: 3, Key: "job-42"}, 1694327661609: {Failures: 1, Key: "日本"},
	} {
		assert.Equal(t, want, p.Delay(s), "%+v", s)
	}
	distinct := map[time.Duration]bool{}
	for i := range 1000 {
		distinct[p.Delay(retry.State{Failures: 1, Key: strconv.Itoa(i)})] = true
	}
	assert.Greater(t, len(distinct), 990)
}

// hinted are the verdicts of a hint, by a mark and by the method of an error.
func hinted(hint time.Duration) []retry.Verdict {
	return []retry.Verdict{
		retry.Classify(retry.MarkRateLimited(testkit.ErrPeer, hint)), retry.Classify(hintError(hint)), {Class: retry.RateLimited, After: hint},
	}
}

type hintError time.Duration

func (hintError) Error() string { return "slow down" }

func (e hintError) RetryAfter() time.Duration { return time.Duration(e) }

// A hint that is zero or past is none: neither at once, nor free, nor for ever.
func TestNoHintIsNoHint(t *testing.T) {
	t.Parallel()
	for _, hint := range []time.Duration{0, -1, math.MinInt64} {
		for _, v := range hinted(hint) {
			p := &retry.Policy{Jitter: retry.NoJitter, FreeRateLimits: 10}
			d := p.Decide(retry.State{Failures: 1}, v, epoch)
			assert.Equal(t, 4*time.Second, d.Delay, "%v", hint)
			assert.True(t, d.Counted)
			assert.Zero(t, d.Verdict.After)
		}
	}
}

// A hint above MaxRetryAfter ends the call, and is in its error.
func TestLongHintEndsTheCall(t *testing.T) {
	t.Parallel()
	for limit, p := range map[time.Duration]*retry.Policy{
		time.Minute: {}, time.Hour: {MaxRetryAfter: time.Hour}, time.Second: {MaxRetryAfter: time.Second}, 2 * time.Hour: {MaxDelay: 2 * time.Hour},
	} {
		p.FreeRateLimits, p.MaxAttempts = 1, 2
		c := play(t, p, always(retry.MarkRateLimited(testkit.ErrPeer, limit+1)))
		assert.Equal(t, retry.StopRetryAfter, c.Stop)
		assert.Equal(t, limit+1, c.RetryAfter)
		assert.Zero(t, c.took)
		assert.ErrorContains(t, c.err, (limit + 1).String())
		for _, v := range hinted(limit) {
			assert.True(t, p.Decide(retry.State{}, v, epoch).Retry, "%v", limit)
		}
	}
}

// A hint of centuries is long, and not negative.
func TestHintOverflow(t *testing.T) {
	t.Parallel()
	for _, hint := range []time.Duration{math.MaxInt64, math.MaxInt64 / 10 * 9, math.MaxInt64/11*10 + 11, 1 << 62} {
		for _, v := range hinted(hint) {
			assert.Equal(t, retry.StopRetryAfter, new(retry.Policy).Decide(retry.State{}, v, epoch).Stop)
			p := retry.Policy{MaxRetryAfter: math.MaxInt64, Rand: ^word(0)}
			d := p.Decide(retry.State{}, v, epoch)
			assert.True(t, d.Retry)
			assert.GreaterOrEqual(t, d.Delay, hint)
			assert.True(t, d.At.After(epoch))
		}
	}
	for _, limit := range []string{"9223372037", "-9223372037", "1e30", `"2562048h"`} {
		assert.ErrorContains(t, json.Unmarshal([]byte(`{"max_retry_after":`+limit+`}`), new(retry.Policy)), "max_retry_after", limit)
	}
}
