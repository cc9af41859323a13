package retry

import (
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/sat"
)

// The defaults of [Exponential], which is the backoff of the zero [Policy].
const (
	defaultInitial    = 2 * time.Second
	defaultMultiplier = 2
)

// Backoff says how long to wait before a retry, before [Policy.MaxDelay] and
// [Jitter] are applied.
//
// The built-in backoffs are [Exponential], [Linear], [Fibonacci], [Constant] and
// [Schedule]: literals that can be compared, printed and stored. They take constant time for any
// retry, and stop growing at the longest duration (292 years) instead of overflowing.
//
// An implementation must be safe for concurrent use, and its result must depend
// only on retry. A negative delay ends the call, see [StopBackoff], unless the Verdict is Exact.
type Backoff interface {
	// Delay returns the wait before retry number retry. The first retry, which
	// is the second attempt, has number 1; a smaller number counts as 1.
	Delay(retry int) time.Duration
}

// Exponential multiplies the wait by a constant factor from retry to retry:
// Initial, Initial*Multiplier, Initial*Multiplier², …
//
// The zero value is 2s, 4s, 8s, …
type Exponential struct {
	Initial    time.Duration // the first wait; 0 or less means 2 seconds
	Multiplier float64       // 0 or less, or NaN, means 2; less than 1 counts as 1
}

// Delay returns Initial * Multiplier^(retry-1).
func (e Exponential) Delay(retry int) time.Duration {
	initial := orDefault(e.Initial, defaultInitial)
	steps := max(retry, 1) - 1
	switch multiplier := e.multiplier(); {
	case steps == 0 || multiplier == 1:
		return initial
	case multiplier == 2: // exact, and several times faster than Pow
		return doubled(initial, steps)
	default:
		// Only products: an addition could be fused with them on arm64 and
		// round differently there.
		return sat.FromFloat(float64(initial) * math.Pow(multiplier, float64(steps)))
	}
}

// doubled returns d doubled times times. d is positive.
func doubled(d time.Duration, times int) time.Duration {
	if times > 63-bits.Len64(uint64(d)) {
		return sat.Max
	}
	return d << times
}

func (e Exponential) multiplier() float64 {
	switch {
	case e.Multiplier >= 1:
		return e.Multiplier
	case e.Multiplier > 0:
		return 1
	default: // unset, negative or NaN
		return defaultMultiplier
	}
}

// String returns the form "2s ×2".
func (e Exponential) String() string {
	return orDefault(e.Initial, defaultInitial).String() + " ×" + formatFloat(e.multiplier())
}

// Linear adds a constant step from retry to retry:
// Initial, Initial+Step, Initial+2*Step, …
//
// The zero value is 2s, 4s, 6s, …
type Linear struct {
	Initial time.Duration // the first wait; 0 or less means 2 seconds
	Step    time.Duration // 0 or less means Initial
}

// Delay returns Initial + Step*(retry-1).
func (l Linear) Delay(retry int) time.Duration {
	initial := orDefault(l.Initial, defaultInitial)
	return sat.Add(initial, sat.Mul(l.step(), max(retry, 1)-1))
}

func (l Linear) step() time.Duration {
	return orDefault(l.Step, orDefault(l.Initial, defaultInitial))
}

// String returns the form "2s +2s".
func (l Linear) String() string {
	return orDefault(l.Initial, defaultInitial).String() + " +" + l.step().String()
}

// Fibonacci makes every wait the sum of the two before it:
// Initial times 1, 1, 2, 3, 5, 8, … It grows by a factor of about 1.6.
//
// The zero value is 2s, 2s, 4s, 6s, 10s, …
type Fibonacci struct {
	Initial time.Duration // the first two waits; 0 or less means 2 seconds
}

// Delay returns Initial times the Fibonacci number of retry.
func (f Fibonacci) Delay(retry int) time.Duration {
	// The 93rd Fibonacci number exceeds an int64, so the loop is short for
	// every retry.
	a, b := time.Duration(0), orDefault(f.Initial, defaultInitial)
	for range min(max(retry, 1), 93) - 1 {
		a, b = b, sat.Add(a, b)
	}
	return b
}

// String returns the form "fibonacci 2s".
func (f Fibonacci) String() string {
	return "fibonacci " + orDefault(f.Initial, defaultInitial).String()
}

// Constant waits the same time before every retry. Constant(0) does not wait at
// all; a negative Constant means 2 seconds.
type Constant time.Duration

// Delay returns the constant.
func (c Constant) Delay(int) time.Duration {
	if c < 0 {
		return defaultInitial
	}
	return time.Duration(c)
}

// String returns the form "constant 5s".
func (c Constant) String() string { return "constant " + c.Delay(1).String() }

// Schedule lists the waits one by one; the last wait repeats. A wait of 0
// retries at once; a negative wait means 2 seconds. An empty Schedule is
// Exponential{}. [Policy.Validate] allows 1,000 waits.
type Schedule []time.Duration

// Delay returns the wait that is listed for retry.
func (s Schedule) Delay(retry int) time.Duration {
	if len(s) == 0 {
		return Exponential{}.Delay(retry)
	}
	return Constant(s[min(max(retry, 1), len(s))-1]).Delay(retry)
}

// String returns the form "schedule 1s, 5s, 30s".
func (s Schedule) String() string {
	if len(s) == 0 {
		return Exponential{}.String()
	}
	waits := make([]string, len(s))
	for i, d := range s {
		waits[i] = Constant(d).Delay(1).String()
	}
	return "schedule " + strings.Join(waits, ", ")
}

// longest returns the largest wait of a [Constant] or a [Schedule]. It returns
// false for any other backoff.
func longest(b Backoff) (time.Duration, bool) {
	switch b := b.(type) {
	case Constant:
		return b.Delay(1), true
	case Schedule:
		if len(b) == 0 {
			return 0, false
		}
		// A negative entry stands for the default, which may be the largest.
		longest := slices.Max(b)
		if slices.Min(b) < 0 {
			longest = max(longest, defaultInitial)
		}
		return longest, true
	default:
		return 0, false
	}
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
