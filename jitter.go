package retry

import (
	"math/bits"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/sat"
)

// Jitter spreads a delay at random, so that clients that failed together do not
// come back together.
//
// The built-in jitters are [FullJitter], [EqualJitter], [NoJitter], [Proportional]
// and [PlusMinus]. Each draws uniformly from a range that is cut to [0, limit]
// first. Drawing first and clamping the result would give many clients exactly
// the limit as their delay. There is no decorrelated jitter: it makes 26 to 37 % more calls than
// [FullJitter] when 100 to 200 clients contend, and needs state from one retry to the next.
type Jitter interface {
	// Apply returns the delay to use: at least 0 and at most limit. The delay
	// is capped at limit already; u is a random word, and the result must not
	// fall as u grows. Apply must be safe for concurrent use and depend only on
	// its arguments.
	Apply(delay, limit time.Duration, u uint64) time.Duration
}

// jitterMode is a [Jitter] without a parameter: one of the constants.
type jitterMode uint8

// Each of these is a [Jitter].
const (
	// FullJitter draws from [0, delay]: the least work under contention, see
	// https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/.
	FullJitter jitterMode = iota
	// EqualJitter draws from [delay/2, delay].
	EqualJitter
	// NoJitter leaves the delay as it is, and a server's hint too.
	NoJitter
)

// Apply implements [Jitter].
func (m jitterMode) Apply(delay, limit time.Duration, u uint64) time.Duration {
	delay = clamp(delay, limit)
	switch m {
	case FullJitter:
		return uniform(0, delay, u)
	case EqualJitter:
		return uniform(delay/2, delay, u)
	default:
		return delay
	}
}

// String returns "full jitter", "equal jitter" or "no jitter".
func (m jitterMode) String() string {
	return [...]string{"full jitter", "equal jitter", "no jitter"}[min(m, NoJitter)]
}

// Proportional is a [Jitter] that draws from [delay-x, delay+x], cut to [0, limit],
// where x is this fraction of the delay. A fraction below 0 or NaN counts as 0, a
// fraction above 1 as 1.
type Proportional float64

// Apply implements [Jitter].
func (p Proportional) Apply(delay, limit time.Duration, u uint64) time.Duration {
	delay = clamp(delay, limit)
	return around(delay, sat.FromFloat(p.fraction()*float64(delay)), limit, u)
}

func (p Proportional) fraction() float64 {
	if p > 0 { // false for NaN
		return min(float64(p), 1)
	}
	return 0
}

// String returns the form "±10% jitter".
func (p Proportional) String() string { return "±" + formatFloat(100*p.fraction()) + "% jitter" }

// PlusMinus is a [Jitter] that draws from [delay-d, delay+d], cut to [0, limit], where
// d is this duration. A negative duration counts as 0.
type PlusMinus time.Duration

// Apply implements [Jitter].
func (p PlusMinus) Apply(delay, limit time.Duration, u uint64) time.Duration {
	return around(clamp(delay, limit), p.spread(), limit, u)
}

func (p PlusMinus) spread() time.Duration { return max(time.Duration(p), 0) }

// String returns the form "±30s jitter".
func (p PlusMinus) String() string { return "±" + p.spread().String() + " jitter" }

// around draws from [d-spread, d+spread], cut to [0, limit].
func around(d, spread, limit time.Duration, u uint64) time.Duration {
	return uniform(max(d-spread, 0), min(sat.Add(d, spread), max(limit, 0)), u)
}

// uniform maps a random word to [lo, hi]: u = 0 gives lo, the largest u gives
// hi, and the result grows with u. Taking the high word of a product is
// Lemire's method without its rejection step: the bias is below (hi-lo)/2⁶⁴.
func uniform(lo, hi time.Duration, u uint64) time.Duration {
	if hi <= lo {
		return lo
	}
	offset, _ := bits.Mul64(u, uint64(hi-lo)+1)
	return lo + time.Duration(offset)
}

func clamp(d, limit time.Duration) time.Duration { return max(min(d, limit), 0) }

// keyedWord returns the random word of a state that has a Key: FNV-1a over the key and
// the counts (Pending only if it is not 0), finished by the mixer of SplitMix64.
// Processes that share a database rely on it, so it never changes.
func keyedWord(s *State) uint64 {
	const offset, prime = 0xcbf29ce484222325, 0x100000001b3
	h := uint64(offset)
	for i := range len(s.Key) {
		h = (h ^ uint64(s.Key[i])) * prime
	}
	for i, n := range [3]int{s.Failures, s.RateLimited, s.Pending} {
		if i == 2 && n == 0 {
			break // as before there was a third
		}
		for shift := 0; shift < 64; shift += 8 {
			h = (h ^ uint64(n)>>shift&0xff) * prime
		}
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
