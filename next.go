package retry

import (
	"context"
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
	// refused the wait (StopElapsed, StopDeadline, StopBudget), they say when
	// it would have been; on StopRetryAfter, when the server would take the
	// caller back. Otherwise they are zero.
	At    time.Time
	Delay time.Duration

	// Counted says whether this failure cost an attempt.
	Counted bool

	// Limit is the MaxAttempts that applied: Limit - State.Failures are left.
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
	d := p.Decide(s, p.Classify(err), now)
	if !d.Retry {
		d.Err = p.orZero().failure(&d, err)
	}
	return d
}

// Classify returns the verdict that p acts on. In this order: a mark of this
// package, p.Classifier, and the rest of [Classify].
func (p *Policy) Classify(err error) Verdict {
	return p.orZero().classify(err, false)
}

// classify is Classify for an attempt whose own timeout may have ended it while
// its caller's context lived on. The driver knows that; the error need not.
func (p *Policy) classify(err error, timedOut bool) Verdict {
	v, found := explicit(err)
	if found == mark {
		return v
	}
	if p.Classifier != nil {
		if v := p.Classifier(err); v != (Verdict{}) {
			return v
		}
	}
	switch {
	case timedOut:
		return again("timeout")
	case found == gaveUp:
		return v
	default:
		return inspect(err)
	}
}

// Decide is the decider: what p makes of a failure with verdict v at the
// instant now, after the failures s.
func (p *Policy) Decide(s State, v Verdict, now time.Time) Decision {
	d := Decision{State: s, Verdict: v}
	p.orZero().decide(&d, now, sat.Max)
	d.setAt(now)
	return d
}

// DecideContext is Decide for a call in progress. It adds what only such a call
// has: a context, which may be done or have a deadline that the next attempt
// would miss, and p.Budget, from which it withdraws.
func (p *Policy) DecideContext(ctx context.Context, s State, v Verdict, now time.Time) Decision {
	p = p.orZero()
	d := Decision{State: s, Verdict: v}
	if stop := contextStop(ctx); stop != StopNone {
		d.Counted = true
		d.State.count(true)
		d.Stop = stop
		return d
	}
	p.decideContext(ctx, &d, now)
	d.setAt(now)
	return d
}

// decideContext is DecideContext under a context that is not done.
func (p *Policy) decideContext(ctx context.Context, d *Decision, now time.Time) {
	room := sat.Max
	if deadline, ok := ctx.Deadline(); ok {
		room = deadline.Sub(now) // saturates
	}
	p.decide(d, now, room)
	if d.Retry && p.Budget != nil && !p.Budget.TryWithdraw(now) {
		d.refuse(StopBudget)
	}
}

// decide turns d.State and d.Verdict into a decision. The next attempt must
// start sooner than room from now. d is both input and output because copies of
// a Decision would be most of the cost.
func (p *Policy) decide(d *Decision, now time.Time, room time.Duration) {
	d.Verdict.normalize()
	d.Retry, d.Stop, d.Delay = false, StopNone, 0

	r := p.base()
	if len(p.Overrides) > 0 {
		p.override(&r, &d.Verdict)
	}
	d.Limit = r.limit()
	hint := d.Verdict.After
	d.Counted = hint == 0 || d.Verdict.Class != RateLimited || d.State.RateLimited >= p.FreeRateLimits
	retry := max(d.State.Failures, 0) + 1
	d.State.count(d.Counted)

	if d.Verdict.Class == Final {
		d.Stop = StopFinal
		return
	}
	left := p.elapsedLeft(&d.State, now)
	switch {
	case p.NonIdempotent && !d.Verdict.NotApplied:
		d.Stop = StopMaybeApplied
		return
	case d.Counted && d.State.Failures >= d.Limit:
		d.Stop = StopAttempts
		return
	case left < 0:
		d.Stop = StopElapsed
		return
	case hint > 0 && hint > p.maxRetryAfter(r.ceiling()):
		d.Stop, d.Delay = StopRetryAfter, hint
		return
	}

	d.Retry = true
	d.Delay = r.delay(retry)
	switch {
	case hint > 0:
		floor := min(d.Delay, r.ceiling(), hintFloor)
		d.Delay = max(hint, floor)
		// Where the deadline comes before the end of the spread, the range is
		// cut, so that the spread alone never misses it.
		latest := min(sat.Add(d.Delay, d.Delay/100*hintSpread), left, room-1)
		d.Delay = uniform(d.Delay, latest, p.word(&d.State))
	case d.Delay > 0:
		d.Delay = r.draw(d.Delay, p.word(&d.State))
	}
	switch {
	case d.Delay > left:
		d.refuse(StopElapsed)
	case d.Delay >= room:
		d.refuse(StopDeadline)
	}
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

// refuse turns a retry down but leaves its delay to see.
func (d *Decision) refuse(why StopReason) {
	d.Retry, d.Stop = false, why
}

func (d *Decision) setAt(now time.Time) {
	if !d.Retry && d.Delay == 0 {
		return
	}
	now = now.Round(0) // wall time only: At may leave the process
	if d.At = now.Add(d.Delay); d.At.Before(now) {
		d.At = now // at the end of time
	}
}

// failure returns the error that ends an operation: err itself if it is Final.
func (p *Policy) failure(d *Decision, err error) error {
	if d.Stop == StopFinal {
		return err
	}
	return &Error{
		Policy:     p.Name,
		Attempts:   d.State.Failures + d.State.RateLimited,
		Stop:       d.Stop,
		RetryAfter: d.retryAfter(),
		Err:        err,
	}
}

// retryAfter returns when it is worth coming back after giving up.
func (d *Decision) retryAfter() time.Duration {
	if d.Stop == StopBudget {
		return d.Delay
	}
	return d.Verdict.After
}

// Exhausted reports whether a stored job has used up p before it is run again,
// and the decision to end it with. Ask it first: a job that kills its worker or
// loses its lease never reaches [Policy.Next], while its attempts are counted
// when it is claimed. Because the kind of the lost failures is not known, the
// largest limit of the policy and its Overrides counts.
func (p *Policy) Exhausted(s State, now time.Time) (Decision, bool) {
	p = p.orZero()
	r := p.base()
	d := Decision{State: s, Limit: r.limit()}
	for _, o := range p.Overrides {
		d.Limit = max(d.Limit, o.MaxAttempts)
	}
	switch {
	case s.Failures >= d.Limit:
		d.Stop = StopAttempts
	case p.elapsedLeft(&s, now) < 0:
		d.Stop = StopElapsed
	default:
		return Decision{}, false
	}
	d.Err = &Error{Policy: p.Name, Attempts: s.Failures + s.RateLimited, Stop: d.Stop}
	return d, true
}

// contextStop returns the reason to stop if ctx is done. It asks Done before
// Err because the contexts of some mock clocks race in Err.
func contextStop(ctx context.Context) StopReason {
	switch {
	case !done(ctx):
		return StopNone
	case ctx.Err() == context.DeadlineExceeded:
		return StopDeadline
	default:
		return StopCanceled
	}
}

func done(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}
