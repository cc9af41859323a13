package promises_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// constantWord is a source of jitter that is always the same word.
type constantWord uint64

func (w constantWord) Uint64() uint64 { return uint64(w) }

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

// jitters are the built-in jitters, and the default.
var jitters = []struct {
	name   string
	jitter retry.Jitter
	random bool // draws from a range that is not a point
}{
	{"default", nil, true},
	{"full", retry.FullJitter, true},
	{"equal", retry.EqualJitter, true},
	{"none", retry.NoJitter, false},
	{"proportional 10%", retry.Proportional(0.1), true},
	{"proportional 100%", retry.Proportional(1), true},
	{"plus minus 2s", retry.PlusMinus(2 * time.Second), true},
	{"plus minus a century", retry.PlusMinus(math.MaxInt64), true},
}

// peerGreedy is a jitter that does not keep to its limit.
type peerGreedy struct{}

func (peerGreedy) Apply(delay, limit time.Duration, _ uint64) time.Duration {
	return 3*max(delay, limit) + 1
}

// peerBackoff is a backoff that returns the same delay whatever it is.
type peerBackoff time.Duration

func (b peerBackoff) Delay(int) time.Duration { return time.Duration(b) }

// T-01.
func TestCapIsHard(t *testing.T) {
	t.Parallel()
	const (
		limit   = 10 * time.Second
		samples = 1_000_000
	)
	for i, tt := range jitters {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := retry.Policy{
				Backoff:  retry.Exponential{Initial: time.Second},
				MaxDelay: limit,
				Jitter:   tt.jitter,
				Rand:     seeded(uint64(i)),
			}
			shortest, longest := time.Duration(math.MaxInt64), time.Duration(math.MinInt64)
			for n := range samples {
				d := p.Delay(retry.State{Failures: n%64 + 1}) // the first delay included
				shortest, longest = min(shortest, d), max(longest, d)
			}
			assert.LessOrEqual(t, longest, limit)
			assert.GreaterOrEqual(t, longest, limit*9/10, "the samples never came near the cap")
			assert.GreaterOrEqual(t, shortest, time.Duration(0))
		})
	}
	rogue := []struct {
		name string
		p    retry.Policy
	}{
		{"jitter above its limit", retry.Policy{Jitter: peerGreedy{}}},
		{"backoff above the cap", retry.Policy{Backoff: peerBackoff(time.Hour), Jitter: retry.NoJitter}},
		{"both", retry.Policy{Backoff: peerBackoff(time.Hour), Jitter: peerGreedy{}}},
		{"override", retry.Policy{Overrides: map[string]retry.Override{
			"unknown": {Backoff: peerBackoff(time.Hour), Jitter: peerGreedy{}},
		}}},
	}
	for _, tt := range rogue {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := tt.p
			p.MaxAttempts, p.MaxDelay = retry.Unlimited, limit
			for failures := range 70 {
				d := p.Next(retry.State{Failures: failures}, testkit.ErrPeer, time.Unix(0, 0))
				require.True(t, d.Retry)
				require.LessOrEqual(t, d.Delay, limit)
				require.GreaterOrEqual(t, d.Delay, time.Duration(0))
			}
		})
	}
}

// The edge values that delays are made of.
var (
	peerDurations = []time.Duration{
		math.MinInt64, math.MinInt64 + 1, -time.Hour, -1, 0, 1, 2, time.Microsecond, time.Second,
		30 * time.Second, 24 * time.Hour, math.MaxInt64 / 2, math.MaxInt64/2 + 1, math.MaxInt64 - 1, math.MaxInt64,
	}
	peerFloats = []float64{
		math.NaN(), math.Inf(-1), math.Inf(1), -math.MaxFloat64, -1, math.Copysign(0, -1), 0,
		math.SmallestNonzeroFloat64, 0.1, 0.999999, 1, 1.0000001, 1.5, 2, 3, 1e18, math.MaxFloat64,
	}
	peerCounts = []int{math.MinInt, -1, 0, 1, 2, 3, 34, 62, 63, 64, 65, 1 << 10, 1 << 30, math.MaxInt - 1, math.MaxInt}
)

// T-12.
func TestDelayTotal(t *testing.T) {
	t.Parallel()
	r := seeded(12)
	duration := func() time.Duration {
		if r.IntN(3) == 0 {
			return time.Duration(r.Uint64() >> r.IntN(64))
		}
		return peerDurations[r.IntN(len(peerDurations))]
	}
	float := func() float64 {
		if r.IntN(3) == 0 {
			return math.Float64frombits(r.Uint64())
		}
		return peerFloats[r.IntN(len(peerFloats))]
	}
	backoff := func() (b retry.Backoff, positive bool) {
		initial := duration()
		switch r.IntN(7) {
		case 0:
			return retry.Exponential{Initial: initial, Multiplier: float()}, true
		case 1:
			return retry.Linear{Initial: initial, Step: duration()}, true
		case 2:
			return retry.Fibonacci{Initial: initial}, true
		case 3:
			return retry.Constant(initial), initial != 0
		case 4:
			return retry.Schedule{1, initial}, initial != 0
		case 5:
			return peerBackoff(initial), initial > 0
		default:
			return nil, true
		}
	}
	jitters := []retry.Jitter{
		nil, retry.FullJitter, retry.EqualJitter, retry.NoJitter, retry.PlusMinus(0), peerGreedy{},
	}
	for range 100_000 {
		b, positive := backoff()
		p := retry.Policy{
			Backoff:     b,
			MaxDelay:    duration(),
			MaxAttempts: retry.Unlimited,
			Jitter:      jitters[r.IntN(len(jitters))],
			Rand:        constantWord(r.Uint64()),
		}
		switch r.IntN(4) {
		case 0:
			p.Jitter = retry.Proportional(float())
		case 1:
			p.Jitter = retry.PlusMinus(duration())
		}
		n := peerCounts[r.IntN(len(peerCounts))]
		if r.IntN(3) == 0 {
			n = int(r.Uint64() >> r.IntN(64))
		}
		limit := time.Duration(math.MaxInt64)
		if p.MaxDelay > 0 {
			limit = p.MaxDelay
		}
		what := func() string { return fmt.Sprintf("%#v at %d", p, n) }

		lo, hi := p.Bounds(n)
		d := p.Delay(retry.State{Failures: n})
		next := p.Next(retry.State{Failures: n}, testkit.ErrPeer, time.Unix(0, 0))
		for _, d := range []time.Duration{lo, hi, d, next.Delay} {
			if d < 0 || d > limit {
				require.Fail(t, "the delay is out of range", "%v: %s", d, what())
			}
		}
		if lo > hi {
			require.Fail(t, "the bounds are swapped", "%v > %v: %s", lo, hi, what())
		}
		if n >= 1 && (d < lo || d > hi) {
			require.Fail(t, "the delay is out of its bounds", "%v: %s", d, what())
		}
		if positive && p.Jitter == retry.NoJitter && (lo == 0 || hi == 0) {
			require.Fail(t, "no wait where there should be one", what())
		}
	}
}

// T-16.
func TestInitialAboveMax(t *testing.T) {
	t.Parallel()
	const limit = 5 * time.Second
	tests := []struct {
		name    string
		backoff retry.Backoff
		json    string
		path    string
	}{
		{"exponential", retry.Exponential{Initial: time.Minute}, `{"exponential":{"initial":"1m"}}`, "backoff.exponential.initial"},
		{"linear", retry.Linear{Initial: time.Minute}, `{"linear":{"initial":"1m"}}`, "backoff.linear.initial"},
		{"fibonacci", retry.Fibonacci{Initial: time.Minute}, `{"fibonacci":{"initial":"1m"}}`, "backoff.fibonacci.initial"},
		{"constant", retry.Constant(time.Minute), `{"constant":"1m"}`, "backoff.constant"},
		{"schedule", retry.Schedule{time.Second, time.Minute}, `{"schedule":["1s","1m"]}`, "backoff.schedule[1]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := retry.Policy{Backoff: tt.backoff, MaxDelay: limit, Jitter: retry.NoJitter, MaxAttempts: 10}
			assert.ErrorContains(t, p.Validate(), tt.path)
			for n := 1; n < 10; n++ {
				assert.LessOrEqual(t, p.Delay(retry.State{Failures: n}), limit)
			}
			assert.Equal(t, limit, p.Delay(retry.State{Failures: 2}))

			err := new(retry.Policy).UnmarshalJSON([]byte(`{"max_delay":"5s","backoff":` + tt.json + `}`))
			assert.ErrorContains(t, err, tt.path)
		})
	}

	t.Run("no cap of its own", func(t *testing.T) {
		t.Parallel()
		p := retry.Policy{Backoff: retry.Exponential{Initial: time.Minute}, Jitter: retry.NoJitter}
		require.NoError(t, p.Validate())
		assert.Equal(t, time.Minute, p.Delay(retry.State{Failures: 1}), "what was written down is not shortened")
	})
	t.Run("never slept", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := retry.Policy{MaxAttempts: 2, Backoff: retry.Exponential{Initial: time.Hour}, MaxDelay: time.Second, Jitter: retry.NoJitter}
			start := time.Now()
			require.Error(t, p.Execute(t.Context(), func(context.Context) error { return testkit.ErrPeer }))
			assert.Equal(t, time.Second, time.Since(start))
		})
	})
}

// T-23.
func TestFirstDelayIsBase(t *testing.T) {
	t.Parallel()
	const base = 100 * time.Millisecond
	tests := []struct {
		backoff       retry.Backoff
		first, second time.Duration
	}{
		{retry.Exponential{Initial: base}, base, 2 * base},
		{retry.Exponential{Initial: base, Multiplier: 2}, base, 2 * base},
		{retry.Exponential{Initial: base, Multiplier: 1.5}, base, 150 * time.Millisecond},
		{retry.Exponential{Initial: base, Multiplier: 3}, base, 3 * base},
		{retry.Exponential{Initial: base, Multiplier: 1}, base, base},
		{retry.Linear{Initial: base}, base, 2 * base},
		{retry.Linear{Initial: base, Step: time.Second}, base, base + time.Second},
		{retry.Fibonacci{Initial: base}, base, base},
		{retry.Constant(base), base, base},
		{retry.Schedule{base, time.Second}, base, time.Second},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.backoff), func(t *testing.T) {
			t.Parallel()
			p := retry.Policy{Backoff: tt.backoff, Jitter: retry.NoJitter}
			assert.Equal(t, tt.first, p.Delay(retry.State{Failures: 1}))
			assert.Equal(t, tt.second, p.Delay(retry.State{Failures: 2}))
			assert.Equal(t, tt.first, p.Next(retry.State{}, testkit.ErrPeer, time.Unix(0, 0)).Delay)
			assert.Equal(t, tt.second, p.Next(retry.State{Failures: 1}, testkit.ErrPeer, time.Unix(0, 0)).Delay)

			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var at []time.Duration
				err := p.Execute(t.Context(), func(context.Context) error {
					at = append(at, time.Since(start))
					return testkit.ErrPeer
				})
				require.Error(t, err)
				assert.Equal(t, []time.Duration{0, tt.first, tt.first + tt.second}, at)
			})
		})
	}
}

// T-25.
func TestJitterSurvivesCap(t *testing.T) {
	t.Parallel()
	const (
		limit   = 20 * time.Second
		samples = 1000
	)
	for _, tt := range jitters {
		if !tt.random {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			one := retry.Policy{MaxDelay: limit, Jitter: tt.jitter, Rand: seeded(1)}
			other := retry.Policy{MaxDelay: limit, Jitter: tt.jitter, Rand: seeded(2)}
			at50 := retry.State{Failures: 50}
			assert.NotEqual(t, one.Delay(at50), other.Delay(at50))

			distinct := map[time.Duration]bool{}
			shortest, longest := limit, time.Duration(0)
			for range samples {
				d := one.Delay(at50)
				distinct[d] = true
				shortest, longest = min(shortest, d), max(longest, d)
			}
			assert.GreaterOrEqual(t, len(distinct), samples*99/100)
			if tt.jitter == nil || tt.jitter == retry.FullJitter || tt.jitter == retry.EqualJitter {
				assert.GreaterOrEqual(t, longest-shortest, limit/4)
			}
		})
	}
}

// T-62.
func TestBounds(t *testing.T) {
	t.Parallel()
	const samples = 100_000
	for i, tt := range jitters {
		for _, n := range []int{1, 2, 50} {
			t.Run(tt.name+" before retry "+strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				p := retry.Policy{Backoff: retry.Exponential{Initial: 3 * time.Second}, Jitter: tt.jitter, Rand: seeded(uint64(i))}
				lo, hi := p.Bounds(n)
				shortest, longest := time.Duration(math.MaxInt64), time.Duration(0)
				for range samples {
					d := p.Delay(retry.State{Failures: n})
					shortest, longest = min(shortest, d), max(longest, d)
				}
				// The chance that none of the samples falls into the last
				// thousandth is below 10⁻⁴³.
				near := float64(hi-lo) / 1000
				assert.LessOrEqual(t, lo, shortest)
				assert.InDelta(t, lo, shortest, near)
				assert.GreaterOrEqual(t, hi, longest)
				assert.InDelta(t, hi, longest, near)
				assert.Equal(t, tt.random, lo < hi)

				p.Rand = constantWord(0)
				assert.Equal(t, lo, p.Delay(retry.State{Failures: n}), "the lower bound is reached")
				p.Rand = constantWord(math.MaxUint64)
				assert.Equal(t, hi, p.Delay(retry.State{Failures: n}), "the upper bound is reached")
			})
		}
	}
}

// T-65.
func TestAttemptHuge(t *testing.T) {
	t.Parallel()
	const limit = 30 * time.Second
	backoffs := []retry.Backoff{
		nil,
		retry.Exponential{Initial: time.Second, Multiplier: 2},
		retry.Exponential{Initial: time.Second, Multiplier: 1.1},
		retry.Linear{Initial: time.Second, Step: 1},
		retry.Fibonacci{Initial: 1},
		retry.Constant(time.Second),
		retry.Schedule{time.Second, 2 * time.Second},
	}
	for _, b := range backoffs {
		t.Run(fmt.Sprint(b), func(t *testing.T) {
			t.Parallel()
			p := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: b, MaxDelay: limit, Jitter: retry.NoJitter}
			start := time.Now()
			for _, n := range []int{1_000_000_000, math.MaxInt32, math.MaxInt - 1, math.MaxInt} {
				// In constant time a thousand of these take less than a
				// millisecond, and in linear time many minutes.
				for range 1000 {
					d := p.Delay(retry.State{Failures: n})
					require.LessOrEqual(t, d, limit)
					require.Positive(t, d)
					require.Less(t, time.Since(start), 10*time.Second, "the time grows with the attempt")
				}
			}
		})
	}
}

// T-19.
func TestHintDoesNotResetBackoff(t *testing.T) {
	t.Parallel()
	const (
		s      = time.Second
		hint   = 20 * s
		spread = hint / 10
	)
	tests := []struct {
		name string
		free int
		want []time.Duration // hint stands for the hinted wait
	}{
		{"a hint that costs an attempt", 0, []time.Duration{s, 2 * s, hint, 8 * s, 16 * s}},
		{"a hint that costs none", 1, []time.Duration{s, 2 * s, hint, 4 * s, 8 * s}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := retry.Policy{
				MaxAttempts:    6 + tt.free,
				FreeRateLimits: tt.free,
				Backoff:        retry.Exponential{Initial: time.Second},
				Jitter:         retry.NoJitter,
			}
			fail := func(attempt int) error {
				if tt.want[attempt-1] == hint {
					return retry.MarkRateLimited(testkit.ErrPeer, hint)
				}
				return testkit.ErrPeer
			}
			check := func(t *testing.T, i int, got time.Duration) {
				t.Helper()
				if tt.want[i] != hint {
					assert.Equal(t, tt.want[i], got)
					return
				}
				assert.GreaterOrEqual(t, got, hint)
				assert.LessOrEqual(t, got, hint+spread)
			}

			var state retry.State
			for i := range tt.want {
				d := p.Next(state, fail(i+1), time.Unix(0, 0))
				require.True(t, d.Retry)
				check(t, i, d.Delay)
				state = d.State
			}

			synctest.Test(t, func(t *testing.T) {
				var at []time.Time
				err := p.Execute(t.Context(), func(context.Context) error {
					at = append(at, time.Now())
					if len(at) > len(tt.want) {
						return nil
					}
					return fail(len(at))
				})
				require.NoError(t, err)
				for i := range tt.want {
					check(t, i, at[i+1].Sub(at[i]))
				}
			})
		})
	}
}

// T-31.
func TestDocumentedSequences(t *testing.T) {
	t.Parallel()
	const s, m, limit = time.Second, time.Minute, 30 * time.Second
	tests := []struct {
		backoff retry.Backoff
		text    string
		capped  bool // by the default of MaxDelay
		want    []time.Duration
	}{
		{retry.Exponential{}, "2s ×2", true, []time.Duration{2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 64 * s}},
		{retry.Exponential{Initial: s}, "1s ×2", true, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s}},
		{retry.Exponential{Initial: s, Multiplier: 1.5}, "1s ×1.5", true, []time.Duration{s, 1500 * time.Millisecond, 2250 * time.Millisecond, 3375 * time.Millisecond}},
		{retry.Exponential{Initial: s, Multiplier: 10}, "1s ×10", true, []time.Duration{s, 10 * s, 100 * s, 1000 * s}},
		{retry.Linear{}, "2s +2s", true, []time.Duration{2 * s, 4 * s, 6 * s, 8 * s, 10 * s}},
		{retry.Linear{Initial: s}, "1s +1s", true, []time.Duration{s, 2 * s, 3 * s, 4 * s}},
		{retry.Linear{Initial: s, Step: 5 * s}, "1s +5s", true, []time.Duration{s, 6 * s, 11 * s, 16 * s}},
		{retry.Fibonacci{}, "fibonacci 2s", true, []time.Duration{2 * s, 2 * s, 4 * s, 6 * s, 10 * s, 16 * s}},
		{retry.Fibonacci{Initial: s}, "fibonacci 1s", true, []time.Duration{s, s, 2 * s, 3 * s, 5 * s, 8 * s, 13 * s, 21 * s, 34 * s}},
		{retry.Constant(5 * s), "constant 5s", false, []time.Duration{5 * s, 5 * s, 5 * s}},
		{retry.Constant(0), "constant 0s", false, []time.Duration{0, 0, 0}},
		{retry.Schedule{s, 5 * s, 2 * m}, "schedule 1s, 5s, 2m0s", false, []time.Duration{s, 5 * s, 2 * m, 2 * m, 2 * m}},
		{retry.Schedule{}, "2s ×2", true, []time.Duration{2 * s, 4 * s, 8 * s, 16 * s, 32 * s}},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.text, fmt.Sprint(tt.backoff))
			p := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: tt.backoff, Jitter: retry.NoJitter}
			for i, want := range tt.want {
				assert.Equal(t, want, tt.backoff.Delay(i+1))
				if tt.capped {
					want = min(want, limit)
				}
				assert.Equal(t, want, p.Next(retry.State{Failures: i}, testkit.ErrPeer, time.Unix(0, 0)).Delay)
			}
		})
	}

	t.Run("the zero policy", func(t *testing.T) {
		t.Parallel()
		p := &retry.Policy{}
		assert.Equal(t, "3 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s", p.String())
		for i, want := range []time.Duration{2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s} {
			lo, hi := p.Bounds(i + 1)
			assert.Zero(t, lo)
			assert.Equal(t, want, hi)
		}
	})
}

// T-66.
func TestDeterministicJitter(t *testing.T) {
	t.Parallel()
	// Every process that shares a table must draw these very waits, today's
	// and those of versions to come.
	t.Run("golden", func(t *testing.T) {
		t.Parallel()
		golden := []struct {
			key                   string
			failures, rateLimited int
			want                  time.Duration
		}{
			{"a", 1, 0, 549504407980},
			{"a", 2, 0, 3252925708067},
			{"a", 1, 1, 339714389991},
			{"b", 1, 0, 2145869543980},
			{"job-42", 7, 3, 1926179559396},
			{"日本", 1, 0, 1694327661609},
		}
		p := retry.Policy{Backoff: retry.Constant(time.Hour), Jitter: retry.FullJitter}
		for _, tt := range golden {
			s := retry.State{Failures: tt.failures, RateLimited: tt.rateLimited, Key: tt.key}
			assert.Equal(t, tt.want, p.Delay(s), "%+v", s)
		}
	})

	t.Run("drawn from the key and the counters alone", func(t *testing.T) {
		t.Parallel()
		word := func(s retry.State) uint64 {
			h := fnv.New64a()
			_, _ = h.Write([]byte(s.Key))
			_ = binary.Write(h, binary.LittleEndian, []uint64{uint64(s.Failures), uint64(s.RateLimited)})
			w := h.Sum64()
			w = (w ^ w>>30) * 0xbf58476d1ce4e5b9
			w = (w ^ w>>27) * 0x94d049bb133111eb
			return w ^ w>>31
		}
		for i := range 1000 {
			s := retry.State{Failures: i%7 + 1, RateLimited: i % 3, Key: "job-" + strconv.Itoa(i)}
			p := retry.Policy{MaxAttempts: retry.Unlimited, Rand: seeded(uint64(i))}
			q := retry.Policy{MaxAttempts: retry.Unlimited, Rand: constantWord(word(s))}
			d := p.Delay(s)
			require.Equal(t, d, p.Delay(s))
			require.Equal(t, q.Delay(retry.State{Failures: s.Failures}), d)
			before := s
			before.Failures--
			require.Equal(t, d, p.Next(before, testkit.ErrPeer, time.Unix(0, 0)).Delay)
		}
	})

	t.Run("different keys are not in step", func(t *testing.T) {
		t.Parallel()
		const n = 2000
		p := retry.Policy{Backoff: retry.Constant(time.Hour), Jitter: retry.FullJitter}
		first, second := make([]float64, n), make([]float64, n)
		distinct := map[time.Duration]bool{}
		for i := range n {
			key := "job-" + strconv.Itoa(i)
			d := p.Delay(retry.State{Failures: 1, Key: key})
			distinct[d] = true
			first[i] = d.Hours() - 0.5
			second[i] = p.Delay(retry.State{Failures: 2, Key: key}).Hours() - 0.5
		}
		assert.Greater(t, len(distinct), n*99/100)
		// The correlation of independent draws is 0 with a standard deviation
		// of 1/√n; these are fixed draws, and so is the result.
		correlation := func(a, b []float64) float64 {
			var sum float64
			for i := range a {
				sum += a[i] * b[i]
			}
			return sum / float64(len(a)) * 12
		}
		assert.InDelta(t, 0, correlation(first, second), 0.1, "of one job's waits")
		assert.InDelta(t, 0, correlation(first[1:], first[:n-1]), 0.1, "of neighbors")
	})

	t.Run("without a key", func(t *testing.T) {
		t.Parallel()
		p := &retry.Policy{}
		distinct := map[time.Duration]bool{}
		for range 100 {
			distinct[p.Delay(retry.State{Failures: 5})] = true
		}
		assert.Greater(t, len(distinct), 90)
	})
}
