// Package sat has saturating arithmetic for durations: an overflowing delay must
// be long, never negative.
package sat

import (
	"math"
	"math/bits"
	"time"
)

// Max is the longest duration, about 292 years.
const Max = time.Duration(math.MaxInt64)

// Add returns a + b for durations that are not negative.
func Add(a, b time.Duration) time.Duration {
	if a > Max-b {
		return Max
	}
	return a + b
}

// Mul returns d * n for a duration that is not negative; n < 1 counts as 0.
func Mul(d time.Duration, n int) time.Duration {
	if n < 1 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(d), uint64(n))
	if hi != 0 || lo > math.MaxInt64 {
		return Max
	}
	return time.Duration(lo)
}

// FromFloat returns f nanoseconds, truncated towards zero. NaN is [Max] and a
// negative f is 0. The comparison comes before the conversion because Go leaves
// the result of an out-of-range conversion to the processor: amd64 gives a
// negative number, arm64 the largest one, 386 something else.
func FromFloat(f float64) time.Duration {
	switch {
	case f <= 0:
		return 0
	case f < 1<<63:
		return time.Duration(f)
	default:
		return Max
	}
}
