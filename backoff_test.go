package retry_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
)

const (
	ms = time.Millisecond

	// longestWait is the largest wait of every backoff.
	longestWait = time.Duration(math.MaxInt64)
)

// waits returns the waits of a backoff before the first n retries.
func waits(b retry.Backoff, n int) []time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = b.Delay(i + 1)
	}
	return all
}

func seconds(ss ...float64) []time.Duration {
	all := make([]time.Duration, len(ss))
	for i, s := range ss {
		all[i] = time.Duration(s * float64(time.Second))
	}
	return all
}

// TestBackoffOutOfRange checks that fields out of range run as the documented
// value.
func TestBackoffOutOfRange(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	second := retry.Exponential{Initial: time.Second}
	with := func(multiplier float64) retry.Exponential {
		return retry.Exponential{Initial: time.Second, Multiplier: multiplier}
	}
	tests := []struct {
		name    string
		backoff retry.Backoff
		as      retry.Backoff
	}{
		{"negative initial", retry.Exponential{Initial: -1}, retry.Exponential{}},
		{"least initial", retry.Exponential{Initial: math.MinInt64}, retry.Exponential{}},
		{"negative multiplier", with(-3), second},
		{"NaN", with(nan), second},
		{"minus infinity", with(-inf), second},
		{"minus zero", with(math.Copysign(0, -1)), second},
		{"shrinking", with(0.5), with(1)},
		{"hardly positive", with(math.SmallestNonzeroFloat64), with(1)},
		{"linear: negative initial", retry.Linear{Initial: -time.Hour}, retry.Linear{}},
		{"linear: negative initial with step", retry.Linear{Initial: -1, Step: ms}, retry.Linear{Step: ms}},
		{"linear: negative step", retry.Linear{Initial: ms, Step: -1}, retry.Linear{Initial: ms}},
		{"fibonacci: negative initial", retry.Fibonacci{Initial: -1}, retry.Fibonacci{}},
		{"constant: negative", retry.Constant(-1), retry.Constant(2 * time.Second)},
		{"constant: least", retry.Constant(math.MinInt64), retry.Constant(2 * time.Second)},
		{"schedule: negative", retry.Schedule{ms, -1, ms}, retry.Schedule{ms, 2 * time.Second, ms}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, waits(tt.as, 70), waits(tt.backoff, 70))
			assert.Equal(t, fmt.Sprint(tt.as), fmt.Sprint(tt.backoff), "the text shows what runs")
		})
	}
}

// TestBackoffSaturates checks that no retry number overflows.
func TestBackoffSaturates(t *testing.T) {
	t.Parallel()
	tests := []struct {
		backoff retry.Backoff
		last    int // the last retry with a wait shorter than the longest
	}{
		{retry.Exponential{Initial: 1}, 63}, // 2^62 ns
		{retry.Exponential{}, 33},           // 2e9 * 2^32 ns
		{retry.Exponential{Initial: 1, Multiplier: 10}, 19},
		{retry.Exponential{Initial: longestWait - 1}, 1},
		{retry.Exponential{Initial: longestWait - 1, Multiplier: 1.5}, 1},
		{retry.Linear{Initial: 1, Step: longestWait / 4}, 5},
		{retry.Linear{Initial: 1 << 62, Step: 1 << 60}, 4},
		{retry.Fibonacci{Initial: 1}, 92},
		{retry.Fibonacci{Initial: longestWait / 2}, 3},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%#v", tt.backoff), func(t *testing.T) {
			t.Parallel()
			assert.Less(t, tt.backoff.Delay(tt.last), longestWait)
			for _, n := range []int{tt.last + 1, tt.last + 2, 100, 1 << 20, 1e9, math.MaxInt - 1, math.MaxInt} {
				assert.Equal(t, longestWait, tt.backoff.Delay(n), "retry %d", n)
			}
		})
	}
}

// TestBackoffAgainstExactArithmetic compares with the formulas of the
// documentation in exact numbers.
func TestBackoffAgainstExactArithmetic(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(23, 31))
	for range 3000 {
		initial := time.Duration(r.Uint64()>>(1+r.Uint64()%62)) + 1
		step := time.Duration(r.Uint64()>>(1+r.Uint64()%62)) + 1
		n := int(r.Uint64()%100) + 1
		steps := int64(n - 1)

		doubled := new(big.Int).Lsh(big.NewInt(int64(initial)), uint(steps))
		assert.Equal(t, saturated(doubled), exponential(initial, 2).Delay(n), "%v ×2, retry %d", initial, n)

		risen := new(big.Int).Mul(big.NewInt(int64(step)), big.NewInt(steps))
		risen.Add(risen, big.NewInt(int64(initial)))
		assert.Equal(t, saturated(risen), linear(initial, step).Delay(n), "%v +%v, retry %d", initial, step, n)

		a, b := big.NewInt(0), big.NewInt(int64(initial))
		for range steps {
			a.Add(a, b)
			a, b = b, a
		}
		assert.Equal(t, saturated(b), fibonacci(initial).Delay(n), "fibonacci %v, retry %d", initial, n)

		// The float of a power is off by a rounding per step at most.
		multiplier := 1 + float64(r.Uint64()%(1<<20))/(1<<18)
		power := big.NewFloat(float64(initial)).SetPrec(4096)
		for range steps {
			power.Mul(power, big.NewFloat(multiplier))
		}
		product, _ := power.Int(nil)
		want := saturated(product)
		got := exponential(initial, multiplier).Delay(n)
		assert.InDelta(t, float64(want), float64(got), 1+float64(want)*1e-13, "%v ×%v, retry %d", initial, multiplier, n)
	}
}

func exponential(initial time.Duration, multiplier float64) retry.Backoff {
	return retry.Exponential{Initial: initial, Multiplier: multiplier}
}

func linear(initial, step time.Duration) retry.Backoff {
	return retry.Linear{Initial: initial, Step: step}
}

func fibonacci(initial time.Duration) retry.Backoff { return retry.Fibonacci{Initial: initial} }

func saturated(n *big.Int) time.Duration {
	if !n.IsInt64() {
		return longestWait
	}
	return time.Duration(n.Int64())
}

func TestBackoffText(t *testing.T) {
	t.Parallel()
	tests := []struct {
		backoff retry.Backoff
		want    string
	}{
		{retry.Exponential{}, "2s ×2"},
		{retry.Exponential{Initial: 250 * ms, Multiplier: 1.5}, "250ms ×1.5"},
		{retry.Exponential{Initial: -1, Multiplier: 0.1}, "2s ×1"},
		{retry.Exponential{Multiplier: 1e21}, "2s ×1e+21"},
		{retry.Linear{}, "2s +2s"},
		{retry.Linear{Initial: time.Minute}, "1m0s +1m0s"},
		{retry.Linear{Initial: time.Second, Step: 500 * ms}, "1s +500ms"},
		{retry.Fibonacci{}, "fibonacci 2s"},
		{retry.Fibonacci{Initial: 5 * ms}, "fibonacci 5ms"},
		{retry.Constant(0), "constant 0s"},
		{retry.Constant(90 * time.Second), "constant 1m30s"},
		{retry.Schedule{}, "2s ×2"},
		{retry.Schedule{time.Second, 5 * time.Second, 30 * time.Second}, "schedule 1s, 5s, 30s"},
		{retry.Schedule{0}, "schedule 0s"},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, fmt.Sprint(tt.backoff), "%#v", tt.backoff)
	}
}

// manyBackoffs returns backoffs of all kinds, from usual to absurd.
func manyBackoffs() []retry.Backoff {
	durations := []time.Duration{math.MinInt64, -1, 0, 1, ms, time.Second, time.Hour, longestWait - 1, longestWait}
	multipliers := []float64{
		math.NaN(), math.Inf(-1), -1, 0, math.SmallestNonzeroFloat64, 0.5, 1, math.Nextafter(1, 2), 1.1, 2,
		math.Nextafter(2, 3), 7.3, 1e18, math.MaxFloat64, math.Inf(1),
	}
	all := []retry.Backoff{retry.Schedule(nil), retry.Schedule{}, retry.Schedule(durations)}
	for _, d := range durations {
		all = append(all, fibonacci(d), retry.Constant(d), retry.Schedule{d}, retry.Schedule{time.Second, d})
		for _, step := range durations {
			all = append(all, linear(d, step))
		}
		for _, m := range multipliers {
			all = append(all, exponential(d, m))
		}
	}
	return all
}
