package contract_test

import (
	"fmt"
	"math"
	"math/big"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

const forever = time.Duration(math.MaxInt64)

// Settings are the fields of a Policy for one kind of failure: the defaults are filled
// in, and the Overrides of the kind are applied.
type settings struct {
	attempts int
	backoff  retry.Backoff
	jitter   retry.Jitter
	maxDelay time.Duration
	maxHint  time.Duration // MaxRetryAfter
}

// settle says what the fields of a policy mean for failures with verdict v.
func settle(p *retry.Policy, v retry.Verdict, durable bool) settings {
	s := settings{p.MaxAttempts, p.Backoff, p.Jitter, p.MaxDelay, p.MaxRetryAfter}
	if v.Class == retry.Pending {
		s.attempts = retry.Unlimited // "repeated without limit"
	}
	keys := []string{v.Class.String(), v.Category} // the category's fields win
	if v.NotStarted {                              // "from 1 second to 10 minutes"
		s.backoff, s.maxDelay, keys[0] = retry.Exponential{Initial: time.Second}, 10*time.Minute, "not_started"
	}
	for _, key := range keys {
		o := p.Overrides[key]
		if o.MaxAttempts > 0 {
			s.attempts = o.MaxAttempts
		}
		if o.Backoff != nil {
			s.backoff = o.Backoff
		}
		if o.Jitter != nil {
			s.jitter = o.Jitter
		}
		if o.MaxDelay > 0 {
			s.maxDelay = o.MaxDelay
		}
	}
	if s.attempts <= 0 {
		s.attempts = 3
	}
	s.fillWaits(durable)
	return s
}

// fillWaits fills in the defaults that depend on the backoff.
func (s *settings) fillWaits(durable bool) {
	written := []time.Duration{} // the waits of Constant and Schedule
	switch b := s.backoff.(type) {
	case nil:
		s.backoff = retry.Exponential{}
	case retry.Constant:
		written = []time.Duration{delayOf(b, 1)}
	case retry.Schedule:
		for n := range b {
			written = append(written, delayOf(b, n+1))
		}
		if len(b) == 0 {
			s.backoff = retry.Exponential{}
		}
	}
	if s.jitter == nil {
		s.jitter = retry.FullJitter
		if len(written) > 0 {
			s.jitter = retry.Proportional(0.1)
		}
	}
	longest, hint := s.maxDelay, time.Minute // "1 minute, or MaxDelay if that is longer"
	if durable {                             // "where the operation waits in a row or a queue, it means 1 day"
		hint = 24 * time.Hour
	}
	if s.maxDelay <= 0 && len(written) > 0 {
		s.maxDelay = forever
		for _, d := range written {
			longest = max(longest, d)
		}
	} else if s.maxDelay <= 0 {
		s.maxDelay = max(30*time.Second, delayOf(s.backoff, 1))
		longest = s.maxDelay
	}
	if s.maxHint <= 0 {
		s.maxHint = max(hint, longest)
	}
}

// delayOf is Delay of the built-in backoffs, step by step and with large numbers.
func delayOf(b retry.Backoff, n int) time.Duration {
	two := func(d time.Duration) *big.Float { // "0 or less means 2 seconds"
		if d <= 0 {
			d = 2 * time.Second
		}
		return new(big.Float).SetPrec(2000).SetInt64(int64(d))
	}
	saturated := func(f *big.Float) time.Duration {
		i, _ := f.Int64()
		return time.Duration(i)
	}
	switch b := b.(type) {
	case retry.Exponential:
		factor := b.Multiplier
		if math.IsNaN(factor) || factor <= 0 {
			factor = 2
		}
		d := two(b.Initial)
		for range n - 1 {
			d.Mul(d, big.NewFloat(max(factor, 1)))
		}
		return saturated(d)
	case retry.Linear:
		d, step := two(b.Initial), two(b.Initial)
		if b.Step > 0 {
			step = two(b.Step)
		}
		for range n - 1 {
			d.Add(d, step)
		}
		return saturated(d)
	case retry.Fibonacci:
		last, d := new(big.Float), two(b.Initial)
		for range n - 1 {
			last, d = d, new(big.Float).Add(last, d)
		}
		return saturated(d)
	case retry.Constant:
		return delayOf(retry.Schedule{time.Duration(b)}, n)
	case retry.Schedule:
		if d := b[min(n, len(b))-1]; d >= 0 {
			return d
		}
		return 2 * time.Second
	}
	return b.Delay(n)
}

// A span is the range that a wait is drawn from.
type span struct {
	lo, hi time.Duration
	hint   bool // lo is a hint of the server, and the rest the addition
}

// spread is the range of a jitter.
func spread(j retry.Jitter, d, limit time.Duration) span {
	around := func(x float64) span {
		return span{lo: whole(float64(d) - x), hi: min(whole(float64(d)+x), limit)}
	}
	if lo, ok := map[retry.Jitter]time.Duration{retry.FullJitter: 0, retry.EqualJitter: d / 2, retry.NoJitter: d}[j]; ok {
		return span{lo: lo, hi: d}
	}
	switch j := j.(type) {
	case retry.Proportional:
		if !(j > 0) { // "below 0 or NaN counts as 0"
			j = 0
		}
		return around(min(float64(j), 1) * float64(d))
	case retry.PlusMinus:
		return around(max(0, float64(j)))
	}
	return span{lo: j.Apply(d, limit, 0), hi: j.Apply(d, limit, math.MaxUint64)}
}

// whole is a duration again, from 0 to the longest.
func whole(f float64) time.Duration {
	if f >= math.MaxInt64 {
		return forever
	}
	return time.Duration(max(f, 0))
}

// sum adds two durations, up to the longest.
func sum(a, b time.Duration) time.Duration {
	if a > forever-b {
		return forever
	}
	return a + b
}

// waitFor returns the range of the wait before retry n, and whether the backoff allows it.
func waitFor(s settings, v retry.Verdict, n int) (span, bool) {
	if v.Exact {
		return span{lo: max(v.After, 0), hi: max(v.After, 0)}, true
	}
	d := min(delayOf(s.backoff, n), s.maxDelay)
	switch {
	case v.After > 0 && d >= 0:
		hint := max(v.After, min(d, time.Second))
		if s.jitter == retry.NoJitter {
			return span{lo: hint, hi: hint}, true
		}
		return span{lo: hint, hi: sum(hint, hint/10), hint: true}, true
	case d <= 0: // "does not wait at all", whatever the jitter
		return span{}, d == 0
	}
	return spread(s.jitter, d, s.maxDelay), true
}

// A decision is a retry.Decision without its error.
type decision struct {
	counted bool
	limit   int
	stop    retry.StopReason
	delay   time.Duration
	state   retry.State
	verdict retry.Verdict
}

func (d decision) String() string {
	if d.delay == 0 && (d.stop == retry.StopTimeout || d.stop == retry.StopCanceled || d.stop == retry.StopDeadline) {
		d.limit = 0 // the failure was not classified, and no document says which limit it has
	}
	return fmt.Sprintf("decision: %v after %v, counted %v of %d, %v, %s",
		d.stop, d.delay, d.counted, d.limit, showState(d.state), showVerdict(d.verdict))
}

// limited says which limit in time refuses an attempt at t.
func limited(p *retry.Policy, first, t time.Time) retry.StopReason {
	switch {
	case first.IsZero():
	case p.MaxElapsed > 0 && t.After(first.Add(p.MaxElapsed)):
		return retry.StopElapsed
	case p.Timeout > 0 && !t.Before(first.Add(p.Timeout)):
		return retry.StopTimeout
	}
	return retry.StopNone
}

// timedOut says whether Policy.Timeout is over.
func timedOut(p *retry.Policy, first, now time.Time) bool {
	return limited(&retry.Policy{Timeout: p.Timeout}, first, now) == retry.StopTimeout
}

// decide is Policy.Decide, or Policy.Next if the State is stored. draw takes a wait from a range; it
// is told State.First.
func decide(p *retry.Policy, durable bool, s retry.State, v retry.Verdict, now time.Time, draw func(time.Time, span) time.Duration) decision {
	over := timedOut(p, s.First, now)
	if over { // whatever the error says
		v = retry.Verdict{}
	}
	if v.Class == retry.Unknown && v.After > 0 && !v.Exact {
		v.Class = retry.RateLimited
	}
	set := settle(p, v, durable)
	if v.Progress {
		s = retry.State{First: now, Key: s.Key}
	}
	n, exhausted, counted := s.Failures+1, false, false
	switch {
	case v.Class == retry.Pending:
		if !v.NotStarted { // "the count of failures starts again", and no attempt is forgotten
			s.Pending, s.Failures = s.Pending+s.Failures, 0
		}
		s.Pending++
		n, exhausted = s.Pending, s.Pending >= set.attempts
	case v.Class == retry.RateLimited && v.After > 0 && s.RateLimited < p.FreeRateLimits:
		s.RateLimited++
	default:
		s.Failures++
		exhausted, counted = s.Failures >= set.attempts, true
	}
	if v.NotStarted {
		if s.First.IsZero() {
			s.First = now
		}
		if p.MaxElapsed <= 0 && p.Timeout <= 0 { // "after a week"
			p = &retry.Policy{NonIdempotent: p.NonIdempotent, MaxElapsed: 7 * 24 * time.Hour}
		}
	}
	d := decision{counted: counted, limit: set.attempts, state: s, verdict: v}
	wait, allowed := waitFor(set, v, n)
	switch late := limited(p, s.First, now); {
	case over:
		d.stop = retry.StopTimeout
	case v.Class == retry.Final:
		d.stop = retry.StopFinal
	case p.NonIdempotent && !v.NotApplied:
		d.stop = retry.StopMaybeApplied
	case exhausted:
		d.stop = retry.StopAttempts
	case late != retry.StopNone:
		d.stop = late
	case v.After > set.maxHint:
		d.stop, d.delay = retry.StopRetryAfter, v.After
	case !allowed:
		d.stop = retry.StopBackoff
	default:
		d.delay = draw(s.First, wait)
		d.stop = limited(p, s.First, now.Add(d.delay))
	}
	return d
}

// exhausted is Policy.Exhausted.
func exhausted(p *retry.Policy, s retry.State, now time.Time) (decision, bool) {
	d := decision{state: s, limit: settle(&retry.Policy{MaxAttempts: p.MaxAttempts}, retry.Verdict{}, false).attempts}
	for kind, o := range p.Overrides {
		if kind != "pending" && kind != "not_started" {
			d.limit = max(d.limit, o.MaxAttempts)
		}
	}
	switch {
	case s.Failures >= d.limit:
		d.stop = retry.StopAttempts
	case timedOut(p, s.First, now):
		d.stop = retry.StopTimeout
	default:
		d.stop = limited(p, s.First, now)
	}
	return d, d.stop != retry.StopNone
}

// verdict is Policy.Classify, with the timeout of the attempt: marks, the policy's
// Classifier, the timeout, and Classify.
func verdict(p *retry.Policy, f failure, timedOut bool) (v retry.Verdict) {
	if p.Classifier != nil {
		v = p.Classifier(f.err)
	}
	switch {
	case f.mark != nil:
		v = *f.mark
		v.NotStarted = v.NotStarted && v.Class == retry.Pending
		if v.After = max(v.After, 0); v == (retry.Verdict{}) {
			v.Category = "unknown"
		}
	case v != retry.Verdict{}:
	case timedOut:
		v = retry.Verdict{Class: retry.Retryable, Category: "timeout"}
	default:
		v = f.base
	}
	v.NotStarted = v.NotStarted && v.Class == retry.Pending
	if f.once && v.Class != retry.Final {
		return retry.Verdict{Class: retry.Final}
	}
	v.Progress, v.NotApplied = v.Progress || f.progress, v.NotApplied || f.unsent
	return v
}
