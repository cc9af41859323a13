package retry

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/known"
	"github.com/seed-5ff3c98e/retry/internal/show"
	"github.com/seed-5ff3c98e/retry/internal/strictjson"
)

// invalid returns the error about the faults of a policy, with paths in its JSON form.
func invalid(f strictjson.Faults) error {
	if len(f) == 0 {
		return nil
	}
	return fmt.Errorf("retry: invalid policy: %w", errors.Join(f...))
}

// Validate reports every setting that is out of range or contradicts another,
// each with its path in the JSON form and its value. Nothing is changed, and a policy with faults is
// still safe to run: with the nearest setting in the range or the default. An Override for
// "RateLimited" is never used: the class is "rate_limited".
//
// A duration below a microsecond is a fault too, because it is nearly always a number
// without its unit: Initial: 5 is 5 nanoseconds. Where 0 is a wait, as in Constant(0), it is none.
func (p *Policy) Validate() error {
	p = p.orZero()
	var f strictjson.Faults
	p.check(&f)
	return invalid(f)
}

// The limits for the size of a policy, which may come from outside.
const (
	mostOverrides = 1000
	mostWaits     = 1000 // of a Schedule
)

func (p *Policy) check(f *strictjson.Faults) {
	if p.MaxAttempts < 0 {
		f.Add(strictjson.At("max_attempts"), p.MaxAttempts, "must be at least 1, or 0 for the default")
	}
	checkDuration(f, strictjson.At("max_elapsed"), p.MaxElapsed)
	switch {
	case p.AttemptTimeout != EqualShare:
		checkDuration(f, strictjson.At("attempt_timeout"), p.AttemptTimeout)
	case p.MaxAttempts == Unlimited:
		f.Add(strictjson.At("attempt_timeout"), equalShareText, "has no share of unlimited attempts; set max_attempts")
	}
	checkDuration(f, strictjson.At("timeout"), p.Timeout)
	checkDuration(f, strictjson.At("reset_after"), p.ResetAfter)
	checkDuration(f, strictjson.At("max_delay"), p.MaxDelay)
	checkDuration(f, strictjson.At("max_retry_after"), p.MaxRetryAfter)
	if p.FreeRateLimits < 0 {
		f.Add(strictjson.At("free_rate_limits"), p.FreeRateLimits, "must not be negative")
	}
	checkBackoff(f, strictjson.At("backoff"), p.Backoff, p.MaxDelay)
	checkJitter(f, strictjson.At("jitter"), p.Jitter)
	if len(p.Overrides) > mostOverrides {
		f.Add(strictjson.At("overrides"), len(p.Overrides), fmt.Sprintf("must have at most %d", mostOverrides))
	}
	longestWait := written(p.Backoff)
	for _, kind := range p.kinds() {
		o, path := p.Overrides[kind], overridePath(kind)
		switch {
		case kind == "":
			f.Add(strictjson.At("overrides"), strconv.Quote(kind), "needs a category or a class")
		case kind == Final.String():
			f.Add(strictjson.At("overrides"), kind, notRetried)
		case checkSpelling(f, kind):
			if meant := known.Misspelt(kind); meant != "" {
				f.Add(strictjson.At("overrides"), show.Quote(kind), "is no category; write "+meant)
			}
		}
		if o.MaxAttempts < 0 {
			f.Add(path.Key("max_attempts"), o.MaxAttempts, "must be at least 1, or 0 for the policy's")
		}
		checkDuration(f, path.Key("max_delay"), o.MaxDelay)
		limit := orDefault(o.MaxDelay, p.MaxDelay)
		checkBackoff(f, path.Key("backoff"), o.Backoff, limit)
		if o.Backoff == nil && o.MaxDelay > 0 && o.MaxDelay < longestWait {
			f.Add(path.Key("max_delay"), o.MaxDelay, fmt.Sprintf("is below the %v of the backoff", longestWait))
		}
		checkJitter(f, path.Key("jitter"), o.Jitter)
	}
	if b, ok := p.Budget.(*Budget); ok {
		b.check(f)
	}
}

// kinds returns the keys of the overrides in their order, if there are not too many.
func (p *Policy) kinds() []string {
	if len(p.Overrides) > mostOverrides {
		return nil
	}
	return slices.Sorted(maps.Keys(p.Overrides))
}

const notRetried = "final errors are not retried"

// checkSpelling refuses the name of a class that is not written as [Class.String] writes it.
func checkSpelling(f *strictjson.Faults, kind string) (ok bool) {
	path, value := strictjson.At("overrides"), show.Quote(kind)
	for class, name := range classNames {
		switch {
		case name == kind:
			return true
		case !strictjson.Misspells(kind, name):
		case Class(class) == Final:
			f.Add(path, value, notRetried)
			return false
		default:
			f.Add(path, value, fmt.Sprintf("is no class; write %q, or %q, %q, %q, %q, or a category", name,
				Unknown, Retryable, RateLimited, Pending))
			return false
		}
	}
	return true
}

// checkDuration checks a duration for which 0 is allowed.
func checkDuration(f *strictjson.Faults, path *strictjson.Path, d time.Duration) {
	switch {
	case d < 0:
		f.Add(path, d, "must not be negative")
	case d > 0 && d < strictjson.Shortest:
		f.Add(path, d, fmt.Sprintf("is less than a microsecond; write %d * time.Second or %[1]d * time.Millisecond", int64(d)))
	}
}

func overridePath(kind string) *strictjson.Path { return strictjson.At("overrides").Key(kind) }

func checkBackoff(f *strictjson.Faults, path *strictjson.Path, b Backoff, maxDelay time.Duration) {
	switch b := b.(type) {
	case Exponential:
		path = path.Key("exponential")
		checkDuration(f, path.Key("initial"), b.Initial)
		if m := b.Multiplier; m != 0 && !(m >= 1 && m <= math.MaxFloat64) {
			f.Add(path.Key("multiplier"), m, "must be a number of at least 1, or 0 for the default")
		}
		checkCap(f, path.Key("initial"), b.Initial, maxDelay)
	case Linear:
		path = path.Key("linear")
		checkDuration(f, path.Key("initial"), b.Initial)
		checkDuration(f, path.Key("step"), b.Step)
		checkCap(f, path.Key("initial"), b.Initial, maxDelay)
	case Fibonacci:
		path = path.Key("fibonacci")
		checkDuration(f, path.Key("initial"), b.Initial)
		checkCap(f, path.Key("initial"), b.Initial, maxDelay)
	case Constant:
		path = path.Key("constant")
		checkDuration(f, path, time.Duration(b))
		checkCap(f, path, time.Duration(b), maxDelay)
	case Schedule:
		checkSchedule(f, path.Key("schedule"), b, maxDelay)
	}
}

func checkSchedule(f *strictjson.Faults, path *strictjson.Path, s Schedule, maxDelay time.Duration) {
	if len(s) > mostWaits {
		f.Add(path, len(s), fmt.Sprintf("must have at most %d waits", mostWaits))
		return
	}
	for i, d := range s {
		if d != 0 && d < strictjson.Shortest || maxDelay > 0 && d > maxDelay { // a path is worth its time only then
			path := path.Index(i)
			checkDuration(f, path, d)
			checkCap(f, path, d, maxDelay)
		}
	}
}

// written returns the longest delay that is set in a built-in backoff, or 0: a
// delay that is not set cannot contradict MaxDelay.
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

func checkCap(f *strictjson.Faults, path *strictjson.Path, d, maxDelay time.Duration) {
	if maxDelay > 0 && d > maxDelay {
		f.Add(path, d, fmt.Sprintf("is above max_delay %v", maxDelay))
	}
}

func checkJitter(f *strictjson.Faults, path *strictjson.Path, j Jitter) {
	switch j := j.(type) {
	case Proportional:
		if !(j >= 0 && j <= 1) {
			f.Add(path.Key("proportional"), float64(j), "must be a fraction from 0 to 1")
		}
	case PlusMinus:
		checkDuration(f, path.Key("plus_minus"), time.Duration(j))
	}
}

func (b *Budget) check(f *strictjson.Faults) {
	if b == nil {
		return
	}
	switch {
	case !(b.Ratio >= 0 && b.Ratio <= 1): // NaN too
		f.Add(strictjson.At("budget").Key("ratio"), b.Ratio, "must be a fraction from 0 to 1")
	case b.Ratio > 0 && b.Ratio < minRatio:
		f.Add(strictjson.At("budget").Key("ratio"), b.Ratio, fmt.Sprintf("must be at least %v, or 0 for the default", minRatio))
	}
	checkDuration(f, strictjson.At("budget").Key("ttl"), b.TTL)
	if b.Reserve < NoReserve {
		f.Add(strictjson.At("budget").Key("reserve"), b.Reserve, "must not be negative, or NoReserve")
	}
}

func attemptsText(n int) string {
	if n == Unlimited {
		return unlimitedText
	}
	return strconv.Itoa(n)
}
