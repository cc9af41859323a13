package testkit_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

func TestChiSquare(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		counts []int
		want   float64
	}{
		{"none", nil, 0},
		{"nothing counted", []int{0, 0}, 0},
		{"even", []int{7, 7, 7}, 0},
		{"a coin", []int{60, 40}, 4},
		{"a die", []int{5, 8, 9, 8, 10, 20}, 13.4},
		{"all in one", []int{30, 0, 0}, 60},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.InDelta(t, tt.want, testkit.ChiSquare(tt.counts), 1e-12)
		})
	}
}

// The critical values are those of the usual tables, which have three digits
// after the point.
func TestUpperTail(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		degrees int
		x, want float64
	}{
		{1, 3.841, 0.05},
		{1, 6.635, 0.01},
		{1, 10.828, 0.001},
		{2, 5.991, 0.05},
		{5, 1.145, 0.95},
		{10, 3.940, 0.95},
		{10, 18.307, 0.05},
		{10, 29.588, 0.001},
		{30, 43.773, 0.05},
		{99, 123.225, 0.05},
		{99, 148.230, 0.001},
		{100, 77.929, 0.95},
		{100, 149.449, 0.001},
	} {
		assert.InEpsilon(t, tt.want, testkit.UpperTail(tt.x, tt.degrees), 1e-3,
			"P(χ²(%d) ≥ %v)", tt.degrees, tt.x)
	}
}

// With two degrees of freedom the distribution has a closed form, on both sides
// of the switch from the series to the fraction.
func TestUpperTailOfTwo(t *testing.T) {
	t.Parallel()
	for x := 0.01; x < 200; x *= 1.3 {
		assert.InEpsilon(t, math.Exp(-x/2), testkit.UpperTail(x, 2), 1e-12, "x = %v", x)
	}
}

func TestUpperTailEdges(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 1.0, testkit.UpperTail(0, 5), "nothing is more even than even")
	assert.Equal(t, 1.0, testkit.UpperTail(-1, 5))
	assert.Equal(t, 1.0, testkit.UpperTail(5, 0), "one bucket holds everything")
	assert.Less(t, testkit.UpperTail(1e6, 9), 1e-300)
	for _, degrees := range []int{1, 9, 99, 999} {
		last := 1.0
		for x := 1.0; x < 3*float64(degrees); x++ {
			p := testkit.UpperTail(x, degrees)
			assert.LessOrEqual(t, p, last, "χ²(%d) at %v", degrees, x)
			assert.GreaterOrEqual(t, p, 0.0)
			last = p
		}
	}
}

// TestPValueIsUniform checks the whole chain: the p-values of uniform counts are
// uniform themselves. The seed is fixed, so the outcome is, too.
func TestPValueIsUniform(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	pValues := make([]int, 20)
	for range 2000 {
		counts := make([]int, 50)
		for range 5000 {
			counts[r.Uint64()%50]++
		}
		p := testkit.PValue(counts)
		pValues[min(int(p*20), 19)]++
	}
	assert.Greater(t, testkit.PValue(pValues), 0.001, "%v", pValues)
}

func TestPValueRejectsBias(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	counts := make([]int, 50)
	for range 50_000 {
		// Every tenth draw goes to the lower half only.
		if u := r.Uint64(); u%10 == 0 {
			counts[u/10%25]++
		} else {
			counts[u/10%50]++
		}
	}
	assert.Less(t, testkit.PValue(counts), 1e-6, "%v", counts)
}
