package retry

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/sat"
)

// faults collects everything that is wrong with a policy.
type faults []error

// add notes a fault of the field at path, whose names are those of the JSON
// form.
func (f *faults) add(path string, value any, problem string) {
	const most = 100 // who has made more will not read them
	if len(*f) >= most {
		if len(*f) == most {
			*f = append(*f, errors.New("and more"))
		}
		return
	}
	*f = append(*f, fmt.Errorf("%s: %v: %s", path, value, problem))
}

func (f *faults) notNegative(path string, d time.Duration) {
	if d < 0 {
		f.add(path, d, "must not be negative")
	}
}

func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return fmt.Errorf("retry: invalid policy: %w", errors.Join(f...))
}

// Validate reports every setting that is out of range or contradicts another,
// each with its path in the JSON form and its value. Nothing is changed, and a
// policy with faults is still safe to run:
//
//   - a negative duration runs as its default, a multiplier that is negative or
//     NaN as 2 and one below 1 as 1,
//   - the fraction of Proportional and the ratio of a Budget run as 0.1 or 0 if
//     they are negative or NaN, see there, and as 1 if they are larger,
//   - MaxDelay caps a first delay that is longer.
func (p *Policy) Validate() error {
	p = p.orZero()
	var f faults
	p.check(&f)
	return f.err()
}

func (p *Policy) check(f *faults) {
	if p.MaxAttempts < 0 {
		f.add("max_attempts", p.MaxAttempts, "must be at least 1, or 0 for the default")
	}
	f.notNegative("max_elapsed", p.MaxElapsed)
	f.notNegative("attempt_timeout", p.AttemptTimeout)
	f.notNegative("timeout", p.Timeout)
	f.notNegative("reset_after", p.ResetAfter)
	f.notNegative("max_delay", p.MaxDelay)
	f.notNegative("max_retry_after", p.MaxRetryAfter)
	if p.FreeRateLimits < 0 {
		f.add("free_rate_limits", p.FreeRateLimits, "must not be negative")
	}
	checkBackoff(f, "backoff", p.Backoff, p.MaxDelay)
	checkJitter(f, "jitter", p.Jitter)
	for _, kind := range slices.Sorted(maps.Keys(p.Overrides)) {
		o, path := p.Overrides[kind], overridePath(kind)
		switch {
		case kind == "":
			f.add("overrides", strconv.Quote(kind), "needs a category or a class")
		case kind == Final.String():
			f.add("overrides", kind, "final errors are not retried")
		}
		if o.MaxAttempts < 0 {
			f.add(path+".max_attempts", o.MaxAttempts, "must be at least 1, or 0 for the policy's")
		}
		f.notNegative(path+".max_delay", o.MaxDelay)
		limit := orDefault(o.MaxDelay, p.MaxDelay)
		checkBackoff(f, path+".backoff", o.Backoff, limit)
		if d := written(p.Backoff); o.Backoff == nil && o.MaxDelay > 0 && o.MaxDelay < d {
			f.add(path+".max_delay", o.MaxDelay, fmt.Sprintf("is below the %v of the backoff", d))
		}
		checkJitter(f, path+".jitter", o.Jitter)
	}
	if b, ok := p.Budget.(*Budget); ok {
		b.check(f)
	}
}

func overridePath(kind string) string { return join("overrides", kind) }

func checkBackoff(f *faults, path string, b Backoff, maxDelay time.Duration) {
	switch b := b.(type) {
	case Exponential:
		path += ".exponential"
		f.notNegative(path+".initial", b.Initial)
		if m := b.Multiplier; m != 0 && !(m >= 1 && m <= math.MaxFloat64) {
			f.add(path+".multiplier", m, "must be a number of at least 1, or 0 for the default")
		}
		checkCap(f, path+".initial", b.Initial, maxDelay)
	case Linear:
		path += ".linear"
		f.notNegative(path+".initial", b.Initial)
		f.notNegative(path+".step", b.Step)
		checkCap(f, path+".initial", b.Initial, maxDelay)
	case Fibonacci:
		path += ".fibonacci"
		f.notNegative(path+".initial", b.Initial)
		checkCap(f, path+".initial", b.Initial, maxDelay)
	case Constant:
		path += ".constant"
		f.notNegative(path, time.Duration(b))
		checkCap(f, path, time.Duration(b), maxDelay)
	case Schedule:
		for i, d := range b {
			path := fmt.Sprintf("%s.schedule[%d]", path, i)
			f.notNegative(path, d)
			checkCap(f, path, d, maxDelay)
		}
	}
}

// written returns the longest delay that stands in a built-in backoff, or 0: who
// has not written a delay cannot have contradicted it.
func written(b Backoff) time.Duration {
	switch b := b.(type) {
	case Exponential:
		return b.Initial
	case Linear:
		return b.Initial
	case Fibonacci:
		return b.Initial
	default:
		d, _ := longest(b)
		return d
	}
}

func checkCap(f *faults, path string, d, maxDelay time.Duration) {
	if maxDelay > 0 && d > maxDelay {
		f.add(path, d, fmt.Sprintf("is above max_delay %v", maxDelay))
	}
}

func checkJitter(f *faults, path string, j Jitter) {
	switch j := j.(type) {
	case proportional:
		if !(j >= 0 && j <= 1) {
			f.add(path+".proportional", float64(j), "must be a fraction from 0 to 1")
		}
	case plusMinus:
		f.notNegative(path+".plus_minus", time.Duration(j))
	}
}

func (b *Budget) check(f *faults) {
	if b == nil {
		return
	}
	switch {
	case !(b.Ratio >= 0 && b.Ratio <= 1): // NaN too
		f.add("budget.ratio", b.Ratio, "must be a fraction from 0 to 1")
	case b.Ratio > 0 && b.Ratio < minRatio:
		f.add("budget.ratio", b.Ratio, fmt.Sprintf("must be at least %v, or 0 for the default", minRatio))
	}
	f.notNegative("budget.ttl", b.TTL)
	if b.Reserve < NoReserve {
		f.add("budget.reserve", b.Reserve, "must not be negative, or NoReserve")
	}
}

// Limits bounds policies that come from callers who are not trusted, such as
// those of an API that takes a retry policy with every job. A zero field sets no
// bound. Attempts that are Pending are not of MaxAttempts: bound them by Timeout.
type Limits struct {
	MaxAttempts   int // of calls in all: free rate limits count
	MaxDelay      time.Duration
	MaxElapsed    time.Duration
	Timeout       time.Duration
	MaxRetryAfter time.Duration
}

// Check reports every setting of p that is above its bound, and all that
// [Policy.Validate] reports. What counts is what p would do: its defaults and its
// Overrides are checked too, and no limit at all is above any bound.
func (l Limits) Check(p *Policy) error {
	p = p.orZero()
	var f faults
	p.check(&f)
	l.checkAttempts(&f, p)
	l.checkDelay(&f, "max_delay", p.ceiling())
	hint := p.maxRetryAfter()
	for _, kind := range slices.Sorted(maps.Keys(p.Overrides)) {
		q := *p
		if q.apply(p.Overrides[kind]); q.ceiling() != p.ceiling() {
			l.checkDelay(&f, overridePath(kind)+".max_delay", q.ceiling())
		}
		hint = max(hint, q.maxRetryAfter())
	}
	checkTotal(&f, "max_elapsed", p.MaxElapsed, l.MaxElapsed)
	checkTotal(&f, "timeout", p.Timeout, l.Timeout)
	if l.MaxRetryAfter > 0 && hint > l.MaxRetryAfter {
		f.add("max_retry_after", hint, fmt.Sprintf("must be at most %v", l.MaxRetryAfter))
	}
	return f.err()
}

// checkTotal checks a limit of a call, of which 0 or less means none.
func checkTotal(f *faults, path string, d, bound time.Duration) {
	switch {
	case bound <= 0:
	case d <= 0:
		f.add(path, "none", fmt.Sprintf("must be at most %v", bound))
	case d > bound:
		f.add(path, d, fmt.Sprintf("must be at most %v", bound))
	}
}

func (l Limits) checkDelay(f *faults, path string, d time.Duration) {
	if l.MaxDelay > 0 && d > l.MaxDelay {
		f.add(path, d, fmt.Sprintf("must be at most %v", l.MaxDelay))
	}
}

func (l Limits) checkAttempts(f *faults, p *Policy) {
	if l.MaxAttempts <= 0 {
		return
	}
	check := func(path string, attempts int) {
		calls := sat.Add(time.Duration(attempts), time.Duration(max(p.FreeRateLimits, 0)))
		switch {
		case attempts > l.MaxAttempts:
			f.add(path, attemptsText(attempts), fmt.Sprintf("must be at most %d", l.MaxAttempts))
		case calls > time.Duration(l.MaxAttempts):
			f.add("free_rate_limits", p.FreeRateLimits,
				fmt.Sprintf("with %s %d, must make at most %d calls", path, attempts, l.MaxAttempts))
		}
	}
	check("max_attempts", p.limit())
	for _, kind := range slices.Sorted(maps.Keys(p.Overrides)) {
		if o := p.Overrides[kind]; o.MaxAttempts > 0 {
			check(overridePath(kind)+".max_attempts", o.MaxAttempts)
		}
	}
}

func attemptsText(n int) string {
	if n == Unlimited {
		return unlimitedText
	}
	return strconv.Itoa(n)
}
