package retry

import (
	"math"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/sat"
)

const (
	// A hint below this is taken with the backoff as a floor, so that a server
	// that says "now" is not hammered.
	hintFloor = time.Second

	// The share of a hinted wait that is added at most, so that clients that
	// were told the same time do not come back in step.
	hintSpread = 10 // in percent
)

// Decision is what a [Policy] makes of one failure.
type Decision struct {
	// Retry says whether there is another attempt.
	Retry bool

	// At and Delay say when: at a wall time, and relative to now. If a limit
	// refused a wait (StopElapsed, StopTimeout, StopDeadline, StopBudget), they say when it
	// would have been over; on StopRetryAfter, when the server would take the
	// caller back. Otherwise they are zero.
	At    time.Time
	Delay time.Duration

	// Counted says whether this failure cost an attempt.
	Counted bool

	// Limit is the MaxAttempts that applied: Limit - State.Failures are left, or
	// Limit - State.Pending of a Pending one.
	Limit int

	// Verdict is what the decision is based on.
	Verdict Verdict

	// Stop says why there is no retry.
	Stop StopReason

	// Err is what to return or to store if there is no retry and an error was
	// given: the error itself if it is Final, else an [*Error].
	Err error

	// State is the new state, to be stored.
	State State
}

// DelayCeil returns Delay + unit - 1ns, for engines that cut delays or instants
// to a unit: whatever they cut off, they are not early.
func (d Decision) DelayCeil(unit time.Duration) time.Duration {
	if unit <= 0 {
		return d.Delay
	}
	return sat.Add(d.Delay, unit-1)
}

// Next decides what follows the failure err of an operation whose earlier
// failures are s. It is [Policy.Decide] with the verdict of [Policy.Classify].
// Store [Decision.State] and [Decision.At], or end the operation with
// [Decision.Err].
//
// Next reads no clock, waits for nothing and has no side effects, except that it
// draws a random word if s.Key is empty. After a success, that is if err is nil,
// the decision is zero but for the State, which is s.
func (p *Policy) Next(s State, err error, now time.Time) Decision {
	if err == nil {
		return Decision{State: s}
	}
	p = p.orZero()
	j := judgment{verdict: p.classify(err, false, nil, Unknown)}
	p.judge(&j, &s, now, sat.Max)
	d := j.decision(&s, now)
	switch {
	case d.Retry:
	case d.Stop == StopFinal:
		d.Err = err
	default:
		d.Err = p.giveUp(&j, &s, err)
	}
	return d
}

// Classify returns the verdict that p acts on. In this order: a mark of this
// package, p.Classifier, and the rest of [Classify].
func (p *Policy) Classify(err error) Verdict {
	return p.orZero().classify(err, false, nil, Unknown)
}

// classify is Classify for a Call: timedOut says that the attempt's own timeout has
// ended it while its caller's context lived on, which the driver knows and the error
// need not. A protocol takes the place of [Classify], and what it leaves Unknown
// becomes unknown.
func (p *Policy) classify(err error, timedOut bool, protocol Classifier, unknown Class) (v Verdict) {
	v, found := explicit(err)
	progress := v.Progress
	if found == mark {
		return v
	}
	if p.Classifier != nil {
		if v = p.Classifier(err); v != (Verdict{}) {
			v.Progress = v.Progress || progress
			return v
		}
	}
	switch {
	case timedOut:
		v = again("timeout")
	case protocol != nil:
		v = protocol(err)
	case found == gaveUp:
		v, _ = explicit(err)
	default:
		v = inspect(err, nil)
	}
	if v.Class == Unknown && v.After <= 0 && unknown != Unknown {
		v.Class = unknown
	}
	v.Progress = v.Progress || progress
	return v
}

// Decide is the decider: what p makes of a failure with verdict v at the
// instant now, after the failures s.
func (p *Policy) Decide(s State, v Verdict, now time.Time) Decision {
	j := judgment{verdict: v}
	p.orZero().judge(&j, &s, now, sat.Max)
	return j.decision(&s, now)
}

// judgment is a Decision in the making: the verdict goes in and the rest comes
// out. It is handed around by pointer because copies of a Decision would be most
// of the cost of a failure. The state, which is brought up to date, is not in
// it: a pointer to it in here would move it to the heap.
type judgment struct {
	verdict       Verdict
	delay         time.Duration
	limit         int
	nonIdempotent bool // in, like the verdict: for this call, whatever the policy says
	timeUp        bool // in: Timeout has ended the attempt
	overridden    bool // the Overrides have been applied
	retry         bool
	counted       bool
	stop          StopReason
}

func (j *judgment) decision(s *State, now time.Time) Decision {
	d := Decision{
		Retry:   j.retry,
		Delay:   j.delay,
		Counted: j.counted,
		Limit:   j.limit,
		Verdict: j.verdict,
		Stop:    j.stop,
		State:   *s,
	}
	if j.retry || j.delay > 0 {
		d.At = wallTime(now, j.delay)
	}
	return d
}

// wallTime returns when d has passed, without the monotonic reading, because it
// may leave the process.
func wallTime(now time.Time, d time.Duration) time.Time {
	now = now.Round(0)
	if at := now.Add(d); !at.Before(now) {
		return at
	}
	return now // at the end of time
}

// refuse turns a retry down but leaves its delay to see.
func (j *judgment) refuse(why StopReason) { j.retry, j.stop = false, why }

// judge judges the failure with the verdict of j, which is otherwise zero, after
// those of s, and counts it in s. The next attempt must start sooner than room
// from now; sat.Max stands for no deadline.
func (p *Policy) judge(j *judgment, s *State, now time.Time, room time.Duration) {
	j.verdict.normalize()
	if !j.overridden && (len(p.Overrides) > 0 || j.verdict.Class == Pending) {
		p.judgeOverridden(j, s, now, room)
		return
	}
	j.limit = p.limit()
	failures, retry := p.count(j, s, now)
	left, timeLeft := sat.Max, sat.Max
	if p.MaxElapsed > 0 || p.Timeout > 0 {
		left, timeLeft = p.elapsedLeft(s, now), p.timeLeft(s, now)
	}
	hint := j.verdict.After
	switch {
	case timeLeft <= 0 || j.timeUp:
		j.stop = StopTimeout
		return
	case j.verdict.Class == Final:
		j.stop = StopFinal
		return
	case (p.NonIdempotent || j.nonIdempotent) && !j.verdict.NotApplied:
		j.stop = StopMaybeApplied
		return
	case failures != &s.RateLimited && *failures >= j.limit:
		j.stop = StopAttempts
		return
	case left < 0:
		j.stop = StopElapsed
		return
	case hint > 0 && hint > p.maxRetryAfter():
		j.stop, j.delay = StopRetryAfter, hint
		return
	}

	j.retry = true
	if j.verdict.Exact {
		j.delay = hint
	} else {
		p.delayRetry(j, retry, left, min(room, timeLeft), s)
	}
	switch {
	case !j.retry:
	case j.delay > left:
		j.refuse(StopElapsed)
	case j.delay >= timeLeft && timeLeft < sat.Max:
		j.refuse(StopTimeout)
	case j.delay >= room && room < sat.Max:
		j.refuse(StopDeadline)
	}
}

// count counts a failure. It returns the count that it belongs to, and the number of the
// retry that the backoff is to be asked for.
func (p *Policy) count(j *judgment, s *State, now time.Time) (failures *int, retry int) {
	s.normalize()
	if j.verdict.Progress {
		s.restart(now)
	}
	failures, retry = &s.Failures, s.Failures+1
	switch {
	case j.verdict.Class == Pending:
		failures, retry = &s.Pending, s.Pending+1
	case j.verdict.Class == RateLimited && j.verdict.After > 0 && s.RateLimited < p.FreeRateLimits:
		failures = &s.RateLimited
	default:
		j.counted = true
	}
	if *failures < math.MaxInt {
		*failures++
	}
	return failures, retry
}

// delayRetry finds the wait before a retry that must start sooner than room.
func (p *Policy) delayRetry(j *judgment, retry int, left, room time.Duration, s *State) {
	delay, hint := p.backoff(retry), j.verdict.After
	switch {
	case delay < 0:
		j.refuse(StopBackoff)
	case hint > 0:
		j.delay = p.hinted(max(hint, min(delay, p.ceiling(), hintFloor)), left, room, s)
	case delay > 0:
		j.delay = p.draw(delay, p.word(s))
	}
}

// hinted returns the wait for a hint: no sooner than earliest, and spread, so that
// clients that were told the same do not come back in step. Where a limit comes
// before the end of the spread, the range is cut, so that the spread alone never
// misses it.
func (p *Policy) hinted(earliest, left, room time.Duration, s *State) time.Duration {
	latest := min(sat.Add(earliest, earliest/100*hintSpread), left, room-1)
	return uniform(earliest, latest, p.word(s))
}

// judgeOverridden is judge with the Overrides for this kind of failure. It
// stands apart because a Policy is large, and what is on the stack before a wait
// costs every sleeping caller.
//
//go:noinline
func (p *Policy) judgeOverridden(j *judgment, s *State, now time.Time, room time.Duration) {
	q := p.overridden(&j.verdict)
	j.overridden = true
	q.judge(j, s, now, room)
}

// elapsedLeft returns how much later than now an attempt may start; it is
// negative if the time is up. A clock that jumped back to before the first
// attempt counts as no time passed.
func (p *Policy) elapsedLeft(s *State, now time.Time) time.Duration {
	if p.MaxElapsed <= 0 || s.First.IsZero() {
		return sat.Max
	}
	return p.MaxElapsed - max(now.Sub(s.First), 0)
}

// timeLeft returns what is left of Timeout; it is not positive if the time is up.
func (p *Policy) timeLeft(s *State, now time.Time) time.Duration {
	if p.Timeout <= 0 || s.First.IsZero() {
		return sat.Max
	}
	return p.Timeout - max(now.Sub(s.First), 0)
}

// giveUp returns the error that ends an operation for another reason than a
// Final error.
func (p *Policy) giveUp(j *judgment, s *State, err error) *Error {
	e := &Error{
		Policy:     p.Name,
		Attempts:   s.attempts(),
		Stop:       j.stop,
		RetryAfter: j.verdict.After,
		Err:        err,
	}
	if j.stop == StopBudget {
		e.RetryAfter = j.delay
	}
	return e
}

// Exhausted reports whether a stored job has used up p before it is run again,
// and the decision to end it with. Ask it first: a job that kills its worker or
// loses its lease never reaches [Policy.Next], while its attempts are counted
// when it is claimed. Because the kind of the lost failures is not known, the
// largest limit of the policy and its Overrides counts.
func (p *Policy) Exhausted(s State, now time.Time) (Decision, bool) {
	p = p.orZero()
	s.normalize()
	d := Decision{State: s, Limit: p.limit()}
	for _, o := range p.Overrides {
		d.Limit = max(d.Limit, o.MaxAttempts)
	}
	switch {
	case s.Failures >= d.Limit:
		d.Stop = StopAttempts
	case p.timeLeft(&s, now) <= 0:
		d.Stop = StopTimeout
	case p.elapsedLeft(&s, now) < 0:
		d.Stop = StopElapsed
	default:
		return Decision{}, false
	}
	d.Err = &Error{Policy: p.Name, Attempts: s.attempts(), Stop: d.Stop}
	return d, true
}
