package retry

import (
	"math"
	"sync/atomic"
	"time"
)

// The defaults of the zero [Budget].
const (
	defaultTTL     = 5 * time.Second
	defaultReserve = 3
)

// Throttle decides whether one more retry may be made. A [*Budget] is a Throttle; an
// adapter for your own rate limiter or circuit breaker can be one too. Both methods get
// the time of the policy's clock and run on the goroutine of the call. They must not
// block, and must be safe for concurrent use. A panic in them passes through the call.
type Throttle interface {
	Deposit(now time.Time)          // a call succeeded
	TryWithdraw(now time.Time) bool // may one more retry be made? Not asked after a Pending attempt
}

// NoReserve is the Reserve of a [Budget] that allows no retry before the first
// success.
const NoReserve = -1

// Budget bounds the share of extra load that retries add, so that an outage does
// not become a storm. Share one Budget among all calls to the same dependency. The
// zero value is ready; a Budget must not be copied after its first use. A nil *Budget sets no
// limit. A Budget is lock-free and safe for concurrent use.
//
// Every success earns Ratio retries as credit, which fades with the time constant TTL, so that
// successes of long ago do not pay for a storm. The Reserve lets a new or an idle process retry. A
// success refills the reserve first, and only the remainder becomes credit. A retry is taken from
// the credit, or else from the reserve. Nothing refills with time: a process that only fails gets
// its reserve and no more. So the extra attempts in a total outage are at most
//
//	clients × (Reserve + Ratio × rate of successes × TTL)
//
// and they delay the recovery by the time that the service needs for them. With
// thousands of clients the reserves are the largest part: give each client a
// Reserve of 1, or NoReserve. docs/evidence/storms.md has figures.
//
// A refused retry ends the call before it waits. Do not put a loop that reconnects forever under a
// Budget: it is the only load, and the backoff bounds it. The scheme is Finagle's RetryBudget with
// credit per success instead of per request.
type Budget struct {
	Ratio   float64       // retries earned by a success, in [1e-9, 1]; 0 or less, or NaN, means 0.1
	TTL     time.Duration // time constant of the credit's decay; 0 or less means 5 seconds
	Reserve int           // retries without credit; 0 means 3, and NoReserve none

	_      [64]byte      // keeps the counters, which change, off the settings' cache line
	spent  atomic.Uint64 // units taken from the reserve; 0 is a full reserve
	credit atomic.Uint64 // units in the low half, the step at which they were counted in the high half
	carry  atomic.Uint32 // the earned fraction of the next unit, in parts
	_      [44]byte
}

// A retry is 4000 units because ratios are written in decimals: 0.1, 0.25 and 0.001 are then whole
// units, which are exact and need no carry. The fraction of a unit that a success earns is carried
// over to the next, in parts and rounded up, so that n successes earn Ratio × n retries for small
// ratios too. Time moves in steps of TTL/64: credit may exceed Ratio × rate × TTL by up to 1 %.
// If the clock jumps back, credit does not fade until the next call.
const (
	unitsPerRetry = 4000
	defaultUnits  = unitsPerRetry / 10
	partsPerUnit  = 1 << 32
	minRatio      = 1e-9
	maxUnits      = math.MaxUint32
	stepsPerTTL   = 64
)

// Deposit credits a success that ended at now.
func (b *Budget) Deposit(now time.Time) {
	if b == nil {
		return
	}
	units := b.refill(b.earn())
	if units == 0 {
		return
	}
	step := b.step(now)
	for {
		old := b.credit.Load()
		level := min(fade(old, step)+units, maxUnits)
		if b.credit.CompareAndSwap(old, uint64(step)<<32|level) {
			return
		}
	}
}

// refill puts units back into the reserve, and returns the units for which it
// has no room.
func (b *Budget) refill(units uint64) uint64 {
	for {
		spent := b.spent.Load()
		if spent == 0 {
			return units
		}
		used := min(spent, units)
		if b.spent.CompareAndSwap(spent, spent-used) {
			return units - used
		}
	}
}

// TryWithdraw reports whether one more retry may be made at now, and takes it
// from the budget.
func (b *Budget) TryWithdraw(now time.Time) bool {
	if b == nil {
		return true
	}
	step := b.step(now)
	for {
		old := b.credit.Load()
		level := fade(old, step)
		if level < unitsPerRetry {
			return b.spend()
		}
		if b.credit.CompareAndSwap(old, uint64(step)<<32|(level-unitsPerRetry)) {
			return true
		}
	}
}

// Balance returns how many retries the budget would allow at now without a further
// success, for gauges: the credit plus the rest of the reserve, fractions included. A nil *Budget
// has +Inf.
func (b *Budget) Balance(now time.Time) float64 {
	if b == nil {
		return math.Inf(1)
	}
	reserve, spent := b.reserve(), b.spent.Load()
	units := fade(b.credit.Load(), b.step(now)) + reserve - min(spent, reserve)
	return float64(units) / unitsPerRetry
}

// spend takes one retry from the reserve.
func (b *Budget) spend() bool {
	reserve := b.reserve()
	for {
		spent := b.spent.Load()
		if spent+unitsPerRetry > reserve {
			return false
		}
		if b.spent.CompareAndSwap(spent, spent+unitsPerRetry) {
			return true
		}
	}
}

// fade returns the units that are left at step of a credit word. Steps wrap
// around; an earlier step than the word's counts as the same step.
func fade(word uint64, step uint32) uint64 {
	units := word & maxUnits
	passed := int32(step - uint32(word>>32))
	if units == 0 || passed <= 0 {
		return units
	}
	return uint64(float64(units) * math.Exp(-float64(passed)/stepsPerTTL))
}

// step returns now in units of TTL/64, wrapped around. The default is divided by
// a constant, which is several times faster.
func (b *Budget) step(now time.Time) uint32 {
	ns := uint64(now.UnixNano())
	if b.TTL <= 0 {
		return uint32(ns / uint64(defaultTTL/stepsPerTTL))
	}
	return uint32(ns / uint64(max(b.TTL/stepsPerTTL, 1)))
}

// earn returns the units that one more success earns. A fraction of a unit is
// kept in carry until it has become a unit.
func (b *Budget) earn() uint64 {
	if !(b.Ratio > 0) { // NaN too
		return defaultUnits
	}
	// Rounded up, so that three successes at 1.0/3 earn a whole retry. The 1/64
	// is more than the error of a float64 here: 0.07 earns 280 units and no part.
	parts := min(b.Ratio, 1) * (unitsPerRetry * partsPerUnit)
	whole := max(uint64(math.Ceil(parts-1.0/64)), 1)
	units, rest := whole/partsPerUnit, uint32(whole)
	if rest > 0 && b.carry.Add(rest) < rest {
		units++
	}
	return units
}

func (b *Budget) reserve() uint64 {
	switch {
	case b.Reserve == 0:
		return defaultReserve * unitsPerRetry
	case b.Reserve < 0:
		return 0
	default:
		return min(uint64(b.Reserve), math.MaxUint32) * unitsPerRetry
	}
}
