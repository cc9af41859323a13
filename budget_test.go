package retry_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// The constants of the doc comment of Budget, on purpose not shared with the
// code.
const (
	unit     = 1.0 / 4000 // the ratio of a success that earns one unit
	perRetry = 4000       // units
	perTTL   = 64         // steps
)

// anInstant is a time at the beginning of a step for every TTL up to a minute.
var anInstant = time.Unix(1_700_000_040, 0)

// balance returns, in units, the credit of b minus the missing part of its
// reserve. It takes all credit, and leaves the reserve full.
//
// It measures the credit, so that it does not rely on [retry.Budget.Balance]: without a
// reserve, a withdrawal succeeds if and only if there is credit for it, so the credit
// follows from the units that must be added until it succeeds.
func balance(b *retry.Budget, now time.Time) (units int) {
	reserve := b.Reserve
	b.Reserve = retry.NoReserve
	for !b.TryWithdraw(now) {
		deposit(b, now, 1, 1)
		units -= perRetry
	}
	for units += perRetry; b.TryWithdraw(now); {
		units += perRetry
	}
	for units += perRetry; !b.TryWithdraw(now); units-- {
		deposit(b, now, 1, unit)
	}
	b.Reserve = reserve
	return units
}

// deposit makes n deposits of the given ratio.
func deposit(b *retry.Budget, now time.Time, n int, ratio float64) {
	before := b.Ratio
	b.Ratio = ratio
	for range n {
		b.Deposit(now)
	}
	b.Ratio = before
}

// ledger is a naive Budget for comparison: it keeps every credit and every
// withdrawal as an entry of its own, which fades by itself, and counts in
// float64.
type ledger struct {
	earned  float64 // by a success; all amounts are in units
	carry   float64 // the earned fraction of the next unit
	reserve float64
	step    time.Duration

	entries []entry
	last    int64   // the step at which an entry was made last
	missing float64 // from the reserve

	// The Budget rounds the credit down to units whenever it makes an entry
	// after some time. This is the most that it can lose by that.
	rounding float64
}

type entry struct {
	units float64
	age   int64 // in steps, at the time of the last entry
}

func newLedger(ratio float64, ttl time.Duration, reserve int) *ledger {
	if math.IsNaN(ratio) || ratio <= 0 {
		ratio = 0.1
	}
	if ttl <= 0 {
		ttl = 5 * time.Second
	}
	switch {
	case reserve == 0:
		reserve = 3
	case reserve < 0:
		reserve = 0
	}
	return &ledger{
		earned:  math.Min(ratio, 1) * perRetry,
		reserve: float64(reserve) * perRetry,
		step:    max(ttl/perTTL, 1),
	}
}

// passed returns the steps since the last entry; none if the clock went back.
func (l *ledger) passed(now time.Time) int64 {
	return max(now.UnixNano()/int64(l.step)-l.last, 0)
}

// worth returns the credit.
func (l *ledger) worth(now time.Time) (units float64) {
	passed := l.passed(now)
	for _, e := range l.entries {
		units += e.units * math.Exp(-float64(e.age+passed)/perTTL)
	}
	return units
}

func (l *ledger) enter(now time.Time, units float64) {
	if passed := l.passed(now); passed > 0 {
		for i := range l.entries {
			l.entries[i].age += passed
		}
		l.rounding = l.rounding*math.Exp(-float64(passed)/perTTL) + 1
	}
	l.last = now.UnixNano() / int64(l.step)
	l.entries = append(l.entries, entry{units: units})
}

func (l *ledger) deposit(now time.Time) {
	const dust = 1e-6 // the error of the float64s here, and the rounding of the Budget
	units := math.Floor(l.carry + l.earned + dust)
	l.carry += l.earned - units
	back := min(l.missing, units)
	l.missing -= back
	if left := units - back; left > 0 {
		l.enter(now, left)
	}
}

// The ways in which a withdrawal can end.
const (
	refused = iota
	fromCredit
	fromReserve
	unclear // the rounding decides
)

func (l *ledger) withdraw(now time.Time) int {
	const dust = 1e-6 // the error of the float64s here
	worth, most := l.worth(now), 0.0
	if l.rounding > 0 {
		worth, most = worth+dust, l.rounding+2*dust
	}
	switch {
	case worth >= perRetry && worth-most < perRetry:
		return unclear
	case worth >= perRetry:
		l.enter(now, -perRetry)
		return fromCredit
	case l.missing+perRetry <= l.reserve:
		l.missing += perRetry
		return fromReserve
	default:
		return refused
	}
}

func TestBudgetAgreesWithLedger(t *testing.T) {
	t.Parallel()
	const calls = 150
	sequences := uint64(3000)
	if testkit.Race {
		sequences = 500
	}
	ratios := []float64{
		0, -1, math.NaN(), math.Inf(-1), math.Inf(1), 7, 1, 0.999, 0.5, 0.25, 0.1, 0.03,
		1.0 / 3, 0.0123, 1.4 * unit, 1.6 * unit, unit / 4, unit / 100, 1e-9, 1e-300,
	}
	reserves := []int{-5, retry.NoReserve, 0, 1, 2, 3, 20}
	var answers [unclear + 1]int
	for seed := range sequences {
		r := rand.New(rand.NewPCG(seed, 1))
		ttl := time.Duration(math.Pow(10, 2+12*r.Float64())) // from 100 ns to a day
		b := &retry.Budget{TTL: ttl, Ratio: ratios[r.IntN(len(ratios))], Reserve: reserves[r.IntN(len(reserves))]}
		if r.IntN(10) == 0 {
			b.TTL = time.Duration(-r.IntN(2))
			ttl = 5 * time.Second
		}
		l := newLedger(b.Ratio, b.TTL, b.Reserve)
		now, deposits := time.Unix(r.Int64N(7e9), r.Int64N(1e9)), 0.2+0.8*r.Float64()
		for call := range calls {
			now = someTimeFrom(r, now, ttl)
			if r.Float64() < deposits {
				for range 1 + r.IntN(8) {
					b.Deposit(now)
					l.deposit(now)
				}
				continue
			}
			most := l.worth(now) + l.reserve - l.missing
			assert.LessOrEqual(t, b.Balance(now)*perRetry, most+1e-6, "seed %d, call %d", seed, call)
			assert.GreaterOrEqual(t, b.Balance(now)*perRetry, most-l.rounding-1-1e-6, "seed %d, call %d", seed, call)
			want := l.withdraw(now)
			answers[want]++
			if want == unclear {
				continue
			}
			if b.TryWithdraw(now) == (want == refused) {
				require.Failf(t, "wrong answer", "seed %d, call %d: Ratio %v, TTL %v, Reserve %d: want %v\n%+v",
					seed, call, b.Ratio, b.TTL, b.Reserve, want != refused, l)
			}
		}
	}
	// The sequences prove something only if all outcomes occur.
	total := answers[refused] + answers[fromCredit] + answers[fromReserve]
	for how := range unclear {
		assert.Greater(t, answers[how], total/20, how)
	}
	assert.Less(t, answers[unclear], total/100)
}

// someTimeFrom moves a clock: mostly a bit, sometimes far, sometimes backward.
func someTimeFrom(r *rand.Rand, now time.Time, ttl time.Duration) time.Time {
	var d float64 // in TTLs
	switch n := r.IntN(20); {
	case n < 5:
	case n < 14:
		d = r.Float64() / 8
	case n < 16:
		d = r.Float64() * 3
	case n < 19:
		d = -r.Float64() * 3
	default:
		d = (r.Float64() - 0.5) * 2e6
	}
	const last = math.MaxInt64 // in 2262
	return time.Unix(0, int64(min(max(float64(now.UnixNano())+d*float64(ttl), 0), last/2)))
}

func TestBudgetZeroValue(t *testing.T) {
	t.Parallel()
	explicit := retry.Budget{Ratio: 0.1, TTL: 5 * time.Second, Reserve: 3}
	for _, b := range []*retry.Budget{{}, &explicit, {Ratio: -1, TTL: -1}} {
		assert.Equal(t, 3, testkit.Drain(b, anInstant), "reserve")
		assert.Equal(t, -3*perRetry, balance(b, anInstant))

		// Ten successes earn a retry.
		deposit(b, anInstant, 9, b.Ratio)
		b.Reserve = retry.NoReserve
		assert.False(t, b.TryWithdraw(anInstant))
		b.Deposit(anInstant)
		assert.True(t, b.TryWithdraw(anInstant))
		assert.False(t, b.TryWithdraw(anInstant))

		balance(b, anInstant)
		deposit(b, anInstant, 100, 1)
		assert.Equal(t, int(math.Floor(100*perRetry/math.E)), balance(b, anInstant.Add(5*time.Second)))
	}
}

func TestBudgetBalance(t *testing.T) {
	t.Parallel()
	assert.Equal(t, math.Inf(1), (*retry.Budget)(nil).Balance(anInstant))
	b := &retry.Budget{Ratio: 0.25, TTL: time.Minute}
	assert.Equal(t, 3.0, b.Balance(anInstant))
	b.TryWithdraw(anInstant)
	assert.Equal(t, 2.0, b.Balance(anInstant))
	for range 5 {
		b.Deposit(anInstant) // four for the reserve, one for the credit
	}
	assert.Equal(t, 3.25, b.Balance(anInstant))
	assert.Equal(t, 3.25, b.Balance(anInstant), "it takes nothing")
	assert.InDelta(t, 3+0.25/math.E, b.Balance(anInstant.Add(time.Minute)), 0.001)
	assert.Equal(t, 3.25, b.Balance(anInstant.Add(-time.Hour)), "a clock that jumps backward")
	b.TryWithdraw(anInstant)
	b.Reserve = retry.NoReserve
	assert.Equal(t, 0.25, b.Balance(anInstant), "less Reserve than was spent")
}

// TestBudgetRatioOfFractions checks that a fraction of a unit is neither lost
// nor counted as a unit.
func TestBudgetRatioOfFractions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ratio            float64
		successes, units int
	}{
		{1.0 / 3, 1, 1333},
		{1.0 / 3, 2, 2666},
		{1.0 / 3, 3, 4000},
		{1.0 / 3, 300_000, 400_000_000},
		{2.0 / 3, 1, 2666},
		{2.0 / 3, 3, 8000},
		{1.0 / 7, 6, 3428},
		{1.0 / 7, 7, 4000},
		{unit / 2, 1, 0},
		{unit / 2, 2, 1},
		{unit / 2, 3, 1},
		{1.75 * unit, 3, 5},
		{1.75 * unit, 4, 7},
		{1e-4, 2, 0},
		{1e-4, 3, 1},
		{1e-4, 9_999, 3999},
		{1e-4, 10_000, 4000},
		{1e-4, 200_000, 20 * perRetry},
		{1e-6, 249, 0},
		{1e-6, 250, 1},
		{1e-6, 200_000, perRetry / 5},
		{1e-6, 999_999, perRetry - 1},
		{1e-6, 1_000_000, perRetry},
		{1e-9, 249_990, 0},
		{1e-9, 250_000, 1},
		{1e-9, 1_000_000, 4},
		{1e-12, 1_000_000, 0},
		{math.SmallestNonzeroFloat64, 1_000_000, 0},
	} {
		t.Run(fmt.Sprintf("%v for %d", tt.ratio, tt.successes), func(t *testing.T) {
			t.Parallel()
			b := &retry.Budget{Ratio: tt.ratio, Reserve: retry.NoReserve}
			deposit(b, anInstant, tt.successes, tt.ratio)
			assert.Equal(t, tt.units, balance(b, anInstant))

			// The reserve refills at the same price.
			b = &retry.Budget{Ratio: tt.ratio, Reserve: 1_000_000}
			granted := tt.units/perRetry + 1
			for range granted {
				require.True(t, b.TryWithdraw(anInstant))
			}
			deposit(b, anInstant, tt.successes, tt.ratio)
			assert.Equal(t, tt.units-granted*perRetry, balance(b, anInstant))
		})
	}
}

// TestBudgetInASteadyState checks the formula of the doc comment.
func TestBudgetInASteadyState(t *testing.T) {
	t.Parallel()
	const ttl, perStep, steps = perTTL * time.Second, 1000, 10 * perTTL
	for _, ratio := range []float64{1, 0.1, 1.0 / 3, 0.01, 0.0011, 1e-4, 3e-5, 1e-6} {
		t.Run(fmt.Sprint(ratio), func(t *testing.T) {
			t.Parallel()
			b := &retry.Budget{Ratio: ratio, TTL: ttl, Reserve: retry.NoReserve}
			now := anInstant
			for range steps {
				now = now.Add(time.Second)
				deposit(b, now, perStep, ratio)
			}
			want := ratio * perStep * perTTL // Ratio × rate × TTL
			granted := float64(testkit.Drain(b, now))
			assert.LessOrEqual(t, granted, 1.01*want)
			assert.GreaterOrEqual(t, granted, 0.99*want-1-1.0/perTTL)
		})
	}
}

// Faded credit does not come back, and credit that a backward jump has kept
// fades from then on.
func TestBudgetClockJumps(t *testing.T) {
	t.Parallel()
	const ttl, credits = 64 * time.Second, 1000
	earn := func() *retry.Budget {
		b := &retry.Budget{TTL: ttl, Reserve: retry.NoReserve}
		deposit(b, anInstant, credits, 1)
		return b
	}
	whole, fraction := float64(credits*perRetry), 1/math.E
	t.Run("forward and back", func(t *testing.T) {
		t.Parallel()
		b := earn()
		require.True(t, b.TryWithdraw(anInstant.Add(ttl)))
		assert.Equal(t, int(whole*fraction)-perRetry, balance(b, anInstant))
	})
	t.Run("back and forward", func(t *testing.T) {
		t.Parallel()
		for _, touch := range []func(*retry.Budget, time.Time){
			func(b *retry.Budget, now time.Time) { b.TryWithdraw(now) },
			func(b *retry.Budget, now time.Time) { deposit(b, now, 1, 1) },
		} {
			b := earn()
			back := anInstant.Add(-100 * ttl)
			touch(b, back)
			left := balance(b, back)
			assert.InDelta(t, whole, left, perRetry)
			deposit(b, anInstant, credits, 1)
			touch(b, back)
			assert.InDelta(t, whole*fraction, balance(b, back.Add(ttl)), perRetry)
		}
	})
}

func TestBudgetDates(t *testing.T) {
	t.Parallel()
	const ttl, credits = 64 * time.Second, 1000
	for name, now := range map[string]time.Time{
		"zero time":      {},
		"1900":           time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC),
		"before 1970":    time.Unix(-3600, 0),
		"1970":           time.Unix(0, 0),
		"2000":           time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		"local":          time.Date(2026, 11, 21, 6, 48, 0, 0, time.FixedZone("", 19800)),
		"monotonic":      time.Now(),
		"before 2262":    time.Unix(0, math.MaxInt64).Add(-time.Hour),
		"into 2262":      time.Unix(0, math.MaxInt64).Add(-time.Second),
		"2300":           time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC),
		"the last month": time.Date(9999, 12, 1, 0, 0, 0, 0, time.UTC),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &retry.Budget{TTL: ttl, Reserve: 1}
			assert.Equal(t, 1, testkit.Drain(b, now))
			deposit(b, now, 1+credits, 1)
			assert.Equal(t, credits*perRetry, balance(b, now))

			deposit(b, now, credits, 1)
			// A step more or less, because these instants are within a step.
			later := balance(b, now.Add(ttl))
			assert.InDelta(t, credits*perRetry/math.E, later, credits*perRetry/math.E/60)
		})
	}
}

// The counter of steps has 32 bits, and wraps around like a clock's hand.
func TestBudgetStepsWrapAround(t *testing.T) {
	t.Parallel()
	const (
		step    = time.Second
		ttl     = perTTL * step
		credits = 1000
	)
	wrap := time.Unix(1<<32, 0) // in 2106
	b := &retry.Budget{TTL: ttl, Reserve: retry.NoReserve}
	for _, before := range []time.Duration{step, ttl / 2, ttl} {
		now := wrap.Add(-before)
		deposit(b, now, credits, 1)
		assert.Equal(t, int(math.Floor(credits*perRetry/math.E)), balance(b, now.Add(ttl)), "forward")

		deposit(b, now.Add(ttl), credits, 1)
		assert.Equal(t, credits*perRetry, balance(b, now), "backward")
	}
	// Up to half of the way round, a jump forward is one.
	deposit(b, anInstant, credits, 1)
	assert.Zero(t, balance(b, anInstant.Add((1<<31-1)*step)))
}

func TestBudgetCap(t *testing.T) {
	t.Parallel()
	b := &retry.Budget{Reserve: retry.NoReserve}
	const most = math.MaxUint32 // units, a little more than a million retries
	// More than the cap is not kept, and does not get into the time either.
	deposit(b, anInstant, most/perRetry, 1)
	deposit(b, anInstant, perRetry, unit)
	deposit(b, anInstant, 10, 1)
	assert.Equal(t, most/perRetry, testkit.Drain(b, anInstant))
	assert.Equal(t, most%perRetry, balance(b, anInstant))
}

// Nothing is lost, and nothing is given twice, however many goroutines are at
// it: where nothing fades, the books balance to the unit.
func TestBudgetContention(t *testing.T) {
	t.Parallel()
	const goroutines = 50
	rounds, calls := 5, 20_000
	if testkit.Race {
		rounds, calls = 2, 5000
	}
	// The settings wear out one or the other: the credit, or the reserve.
	settings := []struct {
		ratio   float64
		reserve int
	}{
		{0.3, retry.NoReserve},
		{0.3, 7},
		{1, 30},
		{unit, 2},
		{0.99, 100_000},
		{1.0 / 3, 7},
		{unit / 3, 2},
	}
	// One after the other, so that each has all processors to itself.
	for range rounds {
		for _, s := range settings {
			b := &retry.Budget{Ratio: s.ratio, Reserve: s.reserve, TTL: math.MaxInt64}
			var wg sync.WaitGroup
			begin := make(chan struct{})
			deposits, granted := make([]int, goroutines), make([]int, goroutines)
			for i := range goroutines {
				wg.Go(func() {
					<-begin
					deposits[i], granted[i] = contend(b, uint64(i), calls)
				})
			}
			close(begin)
			wg.Wait()
			earned, want := 0.0, 0
			for i := range goroutines {
				earned += float64(deposits[i]) * s.ratio * perRetry
				want -= granted[i] * perRetry
			}
			want += int(earned + 0.001) // the Budget rounds up, too
			require.GreaterOrEqual(t, want, -max(s.reserve, 0)*perRetry, "%+v", s)
			require.Equal(t, want, balance(b, anInstant), "%+v", s)
		}
	}
}

// contend makes calls at random, with as little as possible between them: what
// is wrong shows if two goroutines meet within a few nanoseconds.
func contend(b *retry.Budget, random uint64, calls int) (deposits, granted int) {
	for range calls {
		random = random*6364136223846793005 + 1442695040888963407
		now := anInstant.Add(time.Duration(random >> 40))
		if random>>63 == 0 {
			b.Deposit(now)
			deposits++
		} else if b.TryWithdraw(now) {
			granted++
		}
	}
	return deposits, granted
}
