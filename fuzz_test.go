package retry_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

// FuzzPolicyJSON checks that no input makes the reader panic, and that what it
// takes is valid, is written again, and then reads the same.
func FuzzPolicyJSON(f *testing.F) {
	for _, tt := range policyFaults {
		f.Add([]byte(tt.json))
	}
	for _, seed := range []string{
		`null`, `{}`, `{"name":"a\u0000b\ud800"}`, `{"max_attempts":"unlimited"}`, `{"max_retries":0}`,
		`{"max_attempts":4,"max_elapsed":"2m","attempt_timeout":10.5,"max_delay":"30s","jitter":"equal","max_retry_after":60,` +
			`"free_rate_limits":10,"non_idempotent":true,"overrides":{"unknown":{"max_attempts":2,"jitter":{"plus_minus":1}},"x":{}}}`,
		`{"backoff":{"exponential":{"initial":"2s","multiplier":2.5}}}`, `{"backoff":{"linear":{"initial":1,"step":"1ms"}}}`,
		`{"backoff":{"fibonacci":{"initial":1e-9}}}`, `{"backoff":{"constant":0}}`, `{"backoff":{"schedule":[0,"1s",1.5]}}`,
		`{"jitter":{"proportional":-0}}`, `{"overrides":{}}`, `{"backoff":{"schedule":[]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := retry.Policy{Name: "before", MaxAttempts: 7}
		p := before
		if err := p.UnmarshalJSON(data); err != nil {
			assert.Equal(t, before, p, "touched in spite of %v", err)
			assert.NotEmpty(t, err.Error())
			return
		}
		require.NoError(t, p.Validate())
		assert.True(t, utf8.ValidString(p.Name))
		again, err := json.Marshal(p)
		require.NoError(t, err)
		var q retry.Policy
		require.NoError(t, json.Unmarshal(again, &q), "%s", again)
		assert.Equal(t, p, q, "%s", again)
		_ = p.String()
	})
}

// FuzzStateText checks that whatever is read is sound, and written again reads
// the same.
func FuzzStateText(f *testing.F) {
	for _, seed := range []string{
		"", "f=2 r=1 t=2026-11-21T06:48:00Z", "f=-1", "f=1 f=2", "t=0001-01-01T00:00:00Z", "t=2026-11-21T06:48:00.123456789+05:45",
		"t=9999-12-31T23:59:59Z", "v=2 x= =", "f=9223372036854775807 r=99999999999999999999", "garbage", "\u00a0f=1", "f=1\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		fuzzState(t, text, (*retry.State).UnmarshalText, retry.State.MarshalText)
	})
}

// FuzzStateJSON is FuzzStateText for the other form.
func FuzzStateJSON(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `{"failures":2,"rate_limited":1,"first":"2026-11-21T06:48:00Z"}`, `{"failures":-1}`, `{"failures":1e2}`,
		`{"first":"0001-01-01T00:00:00Z"}`, `{"first":"2026-11-21T06:48:00.5+23:59"}`, `{"v":{"a":[1,null]},"Failures":3}`, `[`, `{"failures":"1"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzState(t, data, (*retry.State).UnmarshalJSON, retry.State.MarshalJSON)
	})
}

func fuzzState(t *testing.T, data []byte, read func(*retry.State, []byte) error, write func(retry.State) ([]byte, error)) {
	t.Helper()
	before := retry.State{Failures: 3, RateLimited: 4, First: firstAttempt, Key: "k"}
	s := before
	if read(&s, data) != nil {
		assert.Equal(t, before, s)
		return
	}
	assert.Equal(t, "k", s.Key)
	assert.GreaterOrEqual(t, s.Failures, 0)
	assert.GreaterOrEqual(t, s.RateLimited, 0)
	again, err := write(s)
	require.NoError(t, err)
	var back retry.State
	require.NoError(t, read(&back, again), "%s", again)
	assertSameState(t, s, back)
	twice, err := write(back)
	require.NoError(t, err)
	assert.Equal(t, string(again), string(twice))
}

// FuzzDelay checks that no settings lead to a wait that is negative or above the
// cap.
func FuzzDelay(f *testing.F) {
	const maxInt64, minInt64 = math.MaxInt64, math.MinInt64
	f.Add(uint8(0), int64(0), int64(0), 0.0, int64(0), uint8(0), 0.0, 1, uint64(0))
	f.Add(uint8(0), int64(1), int64(0), math.NaN(), int64(-1), uint8(3), math.NaN(), math.MaxInt, uint64(math.MaxUint64))
	f.Add(uint8(0), int64(maxInt64), int64(0), math.Inf(1), int64(maxInt64), uint8(4), 0.5, math.MaxInt32, uint64(1<<63))
	f.Add(uint8(0), int64(time.Second), int64(0), 1.5, int64(time.Minute), uint8(1), 0.0, 60, uint64(1))
	f.Add(uint8(1), int64(maxInt64), int64(maxInt64), 0.0, int64(0), uint8(5), 0.0, math.MaxInt, uint64(7))
	f.Add(uint8(2), int64(minInt64), int64(0), 0.0, int64(time.Hour), uint8(2), 0.0, 93, uint64(7))
	f.Add(uint8(3), int64(-1), int64(0), 0.0, int64(1), uint8(4), 0.1, math.MinInt, uint64(7))
	f.Add(uint8(4), int64(time.Hour), int64(-1), 0.0, int64(0), uint8(0), 0.0, 2, uint64(7))
	f.Fuzz(func(t *testing.T, kind uint8, a, b int64, multiplier float64, maxDelay int64, jitter uint8, spread float64, retries int, u uint64) {
		backoff := fuzzBackoff(kind, time.Duration(a), time.Duration(b), multiplier)
		p := &retry.Policy{
			Backoff:  backoff,
			MaxDelay: time.Duration(maxDelay),
			Jitter:   fuzzJitter(jitter, time.Duration(b), spread),
			Rand:     word(u),
		}
		limit := capByHand(backoff, p.MaxDelay)
		_, constant := backoff.(retry.Constant)
		schedule, _ := backoff.(retry.Schedule)
		if p.MaxDelay <= 0 && (constant || len(schedule) > 0) {
			limit = maxInt64 // the jitter is around what was written
		}
		lo, hi := p.Bounds(retries)
		if lo < 0 || hi < lo || hi > limit {
			t.Fatalf("bounds [%v, %v], limit %v", lo, hi, limit)
		}
		d := p.Delay(retry.State{Failures: retries})
		if retries < 1 {
			assert.Zero(t, d, "no failure yet")
			return
		}
		if d < lo || d > hi {
			t.Fatalf("%v is not in [%v, %v]", d, lo, hi)
		}
		// What is not jittered is the backoff itself, under the cap.
		p.Jitter = retry.NoJitter
		assert.Equal(t, min(backoff.Delay(retries), limit), p.Delay(retry.State{Failures: retries}))
		if kind%5 < 4 {
			assert.GreaterOrEqual(t, backoff.Delay(retries), backoff.Delay(retries-1), "monotone")
		}
		keyed := p.Delay(retry.State{Failures: retries, Key: "job"})
		assert.Equal(t, keyed, p.Delay(retry.State{Failures: retries, Key: "job"}))
	})
}

func fuzzBackoff(kind uint8, a, b time.Duration, multiplier float64) retry.Backoff {
	switch kind % 5 {
	case 0:
		return retry.Exponential{Initial: a, Multiplier: multiplier}
	case 1:
		return retry.Linear{Initial: a, Step: b}
	case 2:
		return retry.Fibonacci{Initial: a}
	case 3:
		return retry.Constant(a)
	default:
		return retry.Schedule{a, b, time.Duration(multiplier)}[:kind/5%4]
	}
}

func fuzzJitter(jitter uint8, d time.Duration, fraction float64) retry.Jitter {
	switch jitter % 6 {
	case 0:
		return nil
	case 1:
		return retry.FullJitter
	case 2:
		return retry.EqualJitter
	case 3:
		return retry.NoJitter
	case 4:
		return retry.Proportional(fraction)
	default:
		return retry.PlusMinus(d)
	}
}

// capByHand is the documented cap: what is set, or else 30 seconds, or the first
// delay if that is longer; for waits that were written down their largest.
func capByHand(b retry.Backoff, maxDelay time.Duration) time.Duration {
	if maxDelay > 0 {
		return maxDelay
	}
	written := 0
	switch b := b.(type) {
	case retry.Constant:
		written = 1
	case retry.Schedule:
		written = len(b)
	}
	largest := time.Duration(0)
	for n := 1; n <= written; n++ {
		largest = max(largest, b.Delay(n))
	}
	if written > 0 {
		return largest
	}
	return max(30*time.Second, b.Delay(1))
}
