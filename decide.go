package retry

import (
	"math"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/known"
	"github.com/seed-5ff3c98e/retry/internal/sat"
)

const (
	// If a hint is below this, the backoff is a lower bound too, up to this value,
	// so that clients do not flood a server that says "now".
	hintFloor = time.Second

	hintSpread = 10 // percent of a hinted wait that are added at most
)

// Decision is what a [Policy] decides about one failure.
type Decision struct {
	// Retry says whether there is another attempt.
	Retry bool

	// At and Delay say when the next attempt is due: at a wall time, and relative
	// to now. If a limit refused a wait (StopElapsed, StopTimeout, StopDeadline,
	// StopBudget), they say when that wait would have ended; on StopRetryAfter, when
	// the server's hint would have ended. Otherwise they are zero.
	At    time.Time
	Delay time.Duration

	// Counted says whether this failure counts toward MaxAttempts.
	Counted bool

	// Limit is the MaxAttempts that applied: Limit - State.Failures attempts are
	// left, or Limit - State.Pending if the failure is Pending.
	Limit int

	// Verdict is the verdict that the decision is based on. It is zero if the error
	// did not matter: the context or Policy.Timeout was over.
	Verdict Verdict

	// Stop says why there is no retry.
	Stop StopReason

	// Err is the error to return or to store if there is no retry and an error was
	// given: the error itself if it is Final, else an [*Error].
	Err error

	// State is the new state, to be stored.
	State State
}

// Next decides what follows the failure err of an operation whose earlier
// failures are counted in s. It is [Policy.Decide] with the verdict of [Policy.Classify], but
// that an [*Error] of a policy inside counts as the failure that was given up, and that a hint of
// up to a day is waited for: what waits in a database waits on another scale of time. A hook in a
// loop that blocks should call Decide.
// Store [Decision.State] and [Decision.At], or end the operation with
// [Decision.Err]. Next reads no clock, waits for nothing and has no side effects, except that it
// draws a random word if s.Key is empty. After a success the Decision has only the State s.
func (p *Policy) Next(s State, err error, now time.Time) Decision {
	if err == nil {
		return Decision{State: s}
	}
	p = p.orZero()
	j := judgment{fact: p.classifyJob(err, false, nil, Unknown), durable: true}
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

// Decide decides about a failure with verdict v at the instant now, after the
// failures counted in s. It reads no clock; see [Policy.Next].
//
// If there are several reasons to stop, the first of these counts: Timeout is over, v is
// Final, NonIdempotent, the attempts, MaxElapsed is over, the hint is too long, the Backoff
// stops (not if v is Exact), the wait would be longer than MaxElapsed or Timeout allow. A
// live call checks its context before all of them, and the context's deadline and the
// Budget after them.
func (p *Policy) Decide(s State, v Verdict, now time.Time) Decision {
	j := judgment{fact: v.fact()}
	p.orZero().judge(&j, &s, now, sat.Max)
	return j.decision(&s, now)
}

// judgment is an unfinished Decision. It is passed by pointer because copies of a Decision would be
// most of the cost of a failure, and has no pointer to the State, which would move to the heap.
type judgment struct {
	fact          known.Fact
	delay         time.Duration
	limit         int
	nonIdempotent bool // in, like the fact: the Call is NonIdempotent, the policy need not be
	timeUp        bool // in: Timeout has ended the attempt
	durable       bool // in: the operation waits in a row or a queue
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
		Verdict: verdictOf(j.fact),
		Stop:    j.stop,
		State:   *s,
	}
	if j.retry || j.delay > 0 {
		d.At = wallTime(now, j.delay)
	}
	return d
}

// wallTime returns now + d without the monotonic reading, because the result
// may leave the process.
func wallTime(now time.Time, d time.Duration) time.Time {
	now = now.Round(0)
	if at := now.Add(d); !at.Before(now) {
		return at
	}
	return now // at the end of time
}

// timed reports whether the failure changes State.First.
func (j *judgment) timed() bool {
	return j.fact.Flags&(known.Progress|known.NotStarted) != 0
}

// refuse refuses a retry and keeps its delay in the Decision.
func (j *judgment) refuse(why StopReason) { j.retry, j.stop = false, why }

// judge decides about the failure with the fact of j, after the failures of s,
// and counts it in s. The rest of j is zero at first. The next attempt must
// start sooner than room from now; sat.Max stands for no deadline.
func (p *Policy) judge(j *judgment, s *State, now time.Time, room time.Duration) {
	j.fact = j.fact.Normal()
	if j.timeUp = j.timeUp || p.timeLeft(s, now) <= 0; j.timeUp {
		j.fact = known.Fact{} // whatever the error says, it is too late
	}
	if !j.overridden && (len(p.Overrides) > 0 || j.fact.Class == known.Pending) {
		p.judgeOverridden(j, s, now, room)
		return
	}
	j.limit = p.limit()
	if s.normalize(); j.fact.Flags.Has(known.Progress) {
		s.restart(now)
	} else if j.fact.Flags.Has(known.NotStarted) && s.First.IsZero() {
		s.First = now // for its limit
	}
	counter := s.counter(&j.fact, p.freeLimits(&j.fact))
	if j.counted = counter == &s.Failures; *counter < math.MaxInt {
		*counter++
	}
	left, timeLeft := sat.Max, sat.Max
	if p.MaxElapsed > 0 || p.Timeout > 0 {
		left, timeLeft = p.elapsedLeft(s, now), p.timeLeft(s, now)
	}
	switch {
	case j.timeUp:
		j.stop = StopTimeout
		return
	case j.fact.Class == known.Final:
		j.stop = StopFinal
		return
	case (p.NonIdempotent || j.nonIdempotent) && !j.fact.Flags.Has(known.NotApplied):
		j.stop = StopMaybeApplied
		return
	case counter != &s.RateLimited && *counter >= j.limit:
		j.stop = StopAttempts
		return
	case left < 0:
		j.stop = StopElapsed
		return
	case j.fact.After > 0 && j.fact.After > p.maxRetryAfter(j.durable):
		j.stop, j.delay = StopRetryAfter, j.fact.After
		return
	}

	j.retry = true
	if delay := p.backoff(s.retry(counter)); j.fact.After > 0 || j.fact.Flags.Has(known.Exact) {
		p.heed(j, delay, left, min(room, timeLeft), s)
	} else if delay > 0 {
		j.delay = p.draw(delay, p.word(s))
	} else if delay < 0 {
		j.refuse(StopBackoff)
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

// heed sets the wait that a server has asked for. It is spread, so that clients with the same hint
// do not come back in step. If a limit, such as room, comes before the end of the spread, the range
// is cut, so that the spread alone never exceeds it.
func (p *Policy) heed(j *judgment, delay, left, room time.Duration, s *State) {
	earliest := max(j.fact.After, min(delay, p.ceiling(), hintFloor))
	switch {
	case j.fact.Flags.Has(known.Exact):
		j.delay = j.fact.After
	case delay < 0:
		j.refuse(StopBackoff)
	case p.Jitter == NoJitter:
		j.delay = earliest
	default:
		latest := min(sat.Add(earliest, earliest/100*hintSpread), left, room-1)
		j.delay = uniform(earliest, latest, p.word(s))
	}
}

// judgeOverridden is judge with the Overrides for this kind of failure. It is apart because a
// Policy is large, and every sleeping caller pays for what is on its stack before the wait.
//
//go:noinline
func (p *Policy) judgeOverridden(j *judgment, s *State, now time.Time, room time.Duration) {
	q := p.overridden(&j.fact)
	j.overridden = true
	q.judge(j, s, now, room)
}

// elapsedLeft returns how much later than now an attempt may start; it is
// negative if the time is up. If the clock jumped back to before the first
// attempt, no time has passed.
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
		Attempts:   s.Attempts(),
		Stop:       j.stop,
		RetryAfter: j.fact.After,
		Err:        err,
		State:      *s,
		NotApplied: j.fact.Flags&(known.NotApplied|known.Progress) == known.NotApplied && s.attempts() == 1,
	}
	if j.stop == StopBudget {
		e.RetryAfter = j.delay
	}
	return e
}

// Exhausted reports whether a stored job has no attempt left, and returns the
// decision to end the job with. Call it before each run: a job that kills its
// worker or loses its lease never reaches [Policy.Next], but its attempts are
// counted when it is claimed. The kind of the lost failures is not known, so the
// largest limit of the policy and its Overrides counts.
func (p *Policy) Exhausted(s State, now time.Time) (Decision, bool) {
	p = p.orZero()
	s.normalize()
	d := Decision{State: s, Limit: p.largestLimit()}
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
	d.Err = &Error{Policy: p.Name, Attempts: s.Attempts(), Stop: d.Stop, State: s}
	return d, true
}
