package sift_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/retrytable/internal/sift"
)

// Whatever is refused, each thing is passed to one of the functions once, nothing sound is
// refused, and few tries are needed.
func TestSift(t *testing.T) {
	t.Parallel()
	const n = 1000
	for name, tt := range map[string]struct {
		bad     func(i int) bool
		tries   int // at most
		skipped int
	}{
		"none":          {func(int) bool { return false }, 20, 0},
		"the first":     {func(i int) bool { return i == 0 }, 12, 0},
		"one":           {func(i int) bool { return i == 700 }, 40, 0},
		"the last":      {func(i int) bool { return i == n-1 }, 30, 0},
		"every tenth":   {func(i int) bool { return i%10 == 0 }, 700, 0},
		"ten first":     {func(i int) bool { return i < 10 }, 25, 0},
		"fifty first":   {func(i int) bool { return i < 50 }, 40, 40},
		"all":           {func(int) bool { return true }, 40, n},
		"all but a few": {func(i int) bool { return i < 900 }, 45, 990},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := run(n, tt.bad)
			all := slices.Sorted(slices.Values(slices.Concat(s.Stored, s.Alone, s.Skipped)))
			assert.Len(t, all, n)
			assert.Len(t, slices.Compact(all), n)
			assert.False(t, slices.ContainsFunc(s.Stored, tt.bad))
			assert.False(t, slices.ContainsFunc(s.Alone, func(i int) bool { return !tt.bad(i) }))
			assert.LessOrEqual(t, s.Tries, tt.tries)
			assert.LessOrEqual(t, len(s.Skipped), tt.skipped)
			if name != "all" {
				assert.NotEmpty(t, s.Stored)
			}
		})
	}
	for range 1000 {
		n, share := rand.N(200), rand.Float64()
		bad := make([]bool, n)
		for i := range bad {
			bad[i] = rand.Float64() < share*share
		}
		s := run(n, func(i int) bool { return bad[i] })
		assert.Len(t, slices.Compact(slices.Sorted(slices.Values(slices.Concat(s.Stored, s.Alone, s.Skipped)))), n)
		assert.LessOrEqual(t, s.Tries, 3*n+1)
	}
}

// result is what has become of things, and how many tries that took.
type result struct {
	Stored, Alone, Skipped []int
	Tries                  int
}

// run sifts n things, of which bad says which are refused.
func run(n int, bad func(i int) bool) (r result) {
	sift.Sift(n, func(from, to int) sift.Answer {
		r.Tries++
		for i := from; i < to; i++ {
			if bad(i) {
				if to-from == 1 {
					r.Alone = append(r.Alone, i)
				}
				return sift.Refused
			}
		}
		for i := from; i < to; i++ {
			r.Stored = append(r.Stored, i)
		}
		return sift.Done
	}, func(from, to int) {
		for i := from; i < to; i++ {
			r.Skipped = append(r.Skipped, i)
		}
	})
	return r
}
