package sat_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/internal/sat"
)

// durations are the corners of the range, none of them negative.
var durations = []time.Duration{
	0, 1, 2, 3, time.Second, time.Hour, 1 << 31, 1 << 32, 1 << 53, 1<<53 + 1, 1 << 62, 1<<62 + 1,
	sat.Max/2 - 1, sat.Max / 2, sat.Max/2 + 1, sat.Max - 1, sat.Max,
}

var counts = []int{math.MinInt, -1, 0, 1, 2, 3, 7, 1000, 1 << 30, math.MaxInt32, math.MaxInt - 1, math.MaxInt}

// random returns durations of all magnitudes.
func random(r *rand.Rand) time.Duration { return time.Duration(r.Uint64() >> (1 + r.IntN(63))) }

// stuck is n as a saturating duration.
func stuck(n *big.Int) time.Duration {
	if n.IsInt64() {
		return time.Duration(n.Int64())
	}
	return sat.Max
}

func TestAdd(t *testing.T) {
	t.Parallel()
	check := func(a, b time.Duration) {
		want := stuck(new(big.Int).Add(big.NewInt(int64(a)), big.NewInt(int64(b))))
		assert.Equal(t, want, sat.Add(a, b), "%d + %d", a, b)
	}
	for _, a := range durations {
		for _, b := range durations {
			check(a, b)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		check(random(r), random(r))
	}
}

func TestMul(t *testing.T) {
	t.Parallel()
	check := func(d time.Duration, n int) {
		want := stuck(new(big.Int).Mul(big.NewInt(int64(d)), big.NewInt(int64(max(n, 0)))))
		assert.Equal(t, want, sat.Mul(d, n), "%d * %d", d, n)
	}
	for _, d := range durations {
		for _, n := range counts {
			check(d, n)
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 10_000 {
		check(random(r), int(random(r)))
	}
}

func TestFromFloat(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		f    float64
		want time.Duration
	}{
		{0, 0},
		{math.Copysign(0, -1), 0},
		{0.999, 0},
		{1, 1},
		{1.999, 1},
		{1e9, time.Second},
		{-1, 0},
		{-1e300, 0},
		{math.Inf(-1), 0},
		{math.SmallestNonzeroFloat64, 0},
		{1 << 53, 1 << 53},
		{1 << 62, 1 << 62},
		{math.Nextafter(1<<63, 0), 1<<63 - 1024},
		{1 << 63, sat.Max},
		{math.Nextafter(1<<63, math.Inf(1)), sat.Max},
		{1e300, sat.Max},
		{math.MaxFloat64, sat.Max},
		{math.Inf(1), sat.Max},
		{math.NaN(), sat.Max},
	} {
		assert.Equal(t, tt.want, sat.FromFloat(tt.f), "%v", tt.f)
	}
}

// TestFromFloatIsMonotone because delays that grow must not shrink.
func TestFromFloatIsMonotone(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	for range 10_000 {
		a := math.Exp2(r.Float64()*80 - 8)
		b := a * (1 + r.Float64())
		assert.LessOrEqual(t, sat.FromFloat(a), sat.FromFloat(b), "%v, %v", a, b)
		assert.GreaterOrEqual(t, sat.FromFloat(a), time.Duration(0), "%v", a)
	}
}
