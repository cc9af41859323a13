package retry

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/done"
	"github.com/seed-5ff3c98e/retry/internal/known"
	"github.com/seed-5ff3c98e/retry/internal/sat"
)

// Verdict returns the verdict about the failure err of the attempt in progress, as End
// finds it: by a mark, the policy's Classifier, the attempt's own timeout, and the
// Protocol, in this order. It is zero if err is not classified, because it is nil, no attempt is
// in progress, the caller's context is done or Policy.Timeout is over.
func (c *Call) Verdict(err error) Verdict {
	if err == nil || c.phase != attempting || done.Closed(c.ended) || c.timeUp() {
		return Verdict{}
	}
	return verdictOf(c.Policy.orZero().classify(err, c.TimedOut(), c.Protocol, c.Unknown))
}

// End ends the attempt in progress with its error; nil is a success. It decides
// what follows, updates the Budget and tells the Observer. The State of the
// Decision is also the State of the Call. If there is no retry, its Err is also
// the Err of the Call: the error itself if it is [Final], else an [*Error]. If the context is
// done, the operation ends, and a failure is not classified.
func (c *Call) End(err error) (d Decision) {
	switch {
	case c.phase != attempting:
		return c.idle(err)
	case err == nil:
		c.succeeded()
		return Decision{State: c.State}
	default:
		c.failed(err, nil, &d)
		return d
	}
}

// EndVerdict is End for a failure that the caller has classified: usually the
// result of [Call.Verdict] with a hint or a category added. A success, with nil for err, may
// have the class RateLimited: the Quota has nothing left for the time of After.
func (c *Call) EndVerdict(err error, v Verdict) (d Decision) {
	if c.phase != attempting || err == nil {
		if c.phase == attempting && v.Class == RateLimited {
			c.tellQuota(nil, v)
		}
		return c.End(err)
	}
	f := v.fact()
	c.failed(err, &f, &d)
	return d
}

// idle is End without an attempt in progress.
func (c *Call) idle(err error) Decision {
	d := Decision{State: c.State, Err: c.Err()}
	if d.Err == nil {
		d.Err = err
	}
	return d
}

// succeeded ends the attempt in progress, and with it the operation.
func (c *Call) succeeded() {
	c.Last = nil
	if !c.plain {
		c.release(nil)
		c.tellSuccess()
	}
	c.phase = over
}

// tellSuccess tells the Quota, the Budget and the Observer about a success.
//
//go:noinline
func (c *Call) tellSuccess() {
	p, budget := c.Policy.orZero(), c.budget()
	c.tellQuota(nil, Verdict{})
	if budget == nil && p.Observer == nil {
		return
	}
	now := c.now()
	if budget != nil {
		budget.Deposit(now)
	}
	if p.Observer != nil {
		c.observe(Event{Kind: Succeeded}, now)
	}
}

// failed ends the attempt in progress with a failure and decides what follows. The
// failure is classified if f is nil. A Decision is large, and made only if d is not nil.
func (c *Call) failed(err error, f *known.Fact, d *Decision) {
	var j judgment
	j.nonIdempotent, j.durable = c.NonIdempotent, c.Durable
	switch {
	case f != nil:
		j.fact = *f
	case done.Closed(c.ended) || c.timeUp():
	case c.Durable:
		c.classifyJob(&j, err)
	default:
		timedOut := c.own != nil && c.TimedOut() // which is not inlined
		j.fact = c.Policy.orZero().classify(err, timedOut, c.Protocol, c.Unknown)
	}
	c.clean = j.fact.Flags.Has(known.NotApplied) && (c.clean || c.State.attempts() == 0)
	if c.own != nil || done.Closed(c.ended) {
		c.keep(err)
	} else {
		c.Last = err
	}
	c.phase = between
	now := time.Time{}
	switch {
	case done.Closed(c.ended):
		c.interrupted(&j, err)
	case c.plain && !j.timed():
		c.Policy.orZero().judge(&j, &c.State, now, sat.Max)
		if !j.retry {
			c.giveUp(&j, err)
		}
	default:
		now = c.decide(&j, err)
	}
	if j.retry {
		c.Delay = j.delay
	}
	if d != nil {
		c.report(d, &j, now)
	}
}

// classifyJob classifies the failure of a Durable call. It is a function of its own because failed
// is on the stack of every caller that waits.
//
//go:noinline
func (c *Call) classifyJob(j *judgment, err error) {
	j.fact = c.Policy.orZero().classifyJob(err, c.TimedOut(), c.Protocol, c.Unknown)
}

// decide decides about a failure where the decision needs more than the policy and
// the state. It returns the time if it had to read the clock.
//
//go:noinline
func (c *Call) decide(j *judgment, err error) (now time.Time) {
	j.timeUp = c.timeUp()
	defer c.tellQuota(ErrLost, Verdict{}) // unless it is told: the Observer may panic
	c.release(err)
	p, budget, room := c.Policy.orZero(), c.budget(), sat.Max
	deadline, ends := c.deadline()
	if ends || p.MaxElapsed > 0 || p.Timeout > 0 || p.ResetAfter > 0 || p.Observer != nil || budget != nil ||
		j.timed() {
		now = c.now()
	}
	if ends {
		room = deadline.Sub(now) // saturates
	}
	if p.ResetAfter > 0 && now.Sub(c.State.First)-c.own.began >= p.ResetAfter {
		j.fact.Flags |= known.Progress
	}
	if c.Turn != 0 {
		c.tellQuota(err, verdictOf(j.fact))
	}
	p.judge(j, &c.State, now, room)
	if j.fact.Flags.Has(known.Progress) {
		c.Waited = 0
	}
	if j.retry && budget != nil && !p.spares(&j.fact) && !budget.TryWithdraw(now) {
		j.refuse(StopBudget)
	}
	if !j.retry {
		c.giveUp(j, err)
		err = c.Last
	}
	if p.Observer != nil {
		c.announce(j, err, now)
	}
	return now
}

// report makes the Decision.
//
//go:noinline
func (c *Call) report(d *Decision, j *judgment, now time.Time) {
	if now.IsZero() && (j.retry || j.delay > 0) {
		now = c.now()
	}
	*d = j.decision(&c.State, now)
	d.Err = c.Err()
}

// giveUp ends an operation because of its last failure.
//
//go:noinline
func (c *Call) giveUp(j *judgment, err error) {
	if c.phase = over; j.stop != StopFinal {
		err = c.gaveUp(j)
	}
	c.Last = err
}

// gaveUp returns the error of an operation that ends for another reason than a Final error.
func (c *Call) gaveUp(j *judgment) *Error {
	kept, off := split(c.Last)
	e := c.Policy.orZero().giveUp(j, &c.State, kept)
	e.Cut, e.Waited, e.NotApplied = off, c.Waited, c.clean || e.Attempts == 0
	return e
}

// interrupted ends an operation whose context was done when an attempt failed.
//
//go:noinline
func (c *Call) interrupted(j *judgment, err error) {
	c.tellQuota(err, Verdict{})
	c.release(err)
	c.State.normalize()
	c.State.Failures = max(c.State.Failures, c.State.Failures+1) // at the largest it stays
	j.limit, j.counted, j.stop = c.Policy.orZero().limit(), true, contextStop(c.caller)
	c.canceled()
}

// canceled ends an operation whose context is done.
func (c *Call) canceled() { c.expire(contextStop(c.caller), 0, context.Cause(c.caller)) }

// expire ends an operation between two attempts, or without regard to the error
// of the last one. The operation may come back after a time, if it is not 0.
//
//go:noinline
func (c *Call) expire(stop StopReason, after time.Duration, cause error) {
	c.State.normalize()
	e := c.gaveUp(&judgment{stop: stop})
	e.RetryAfter, e.Cause = after, cause
	c.phase, c.Last = over, e
	if c.Policy.orZero().Observer != nil {
		c.observe(Event{Kind: GaveUp, Stop: e.Stop, Err: e}, c.now())
	}
}

// announce tells the Observer the decision.
//
//go:noinline
func (c *Call) announce(j *judgment, err error, now time.Time) {
	e := Event{Kind: Retrying, Delay: j.delay, Verdict: verdictOf(j.fact), Err: err}
	if !j.retry {
		e.Kind, e.Delay, e.Stop = GaveUp, 0, j.stop
	}
	c.observe(e, now)
}

func (c *Call) observe(e Event, now time.Time) {
	if c.Durable {
		return // nothing is stored yet
	}
	e.Policy, e.Attempt = c.Policy.orZero().Name, c.Attempt()
	if !c.State.First.IsZero() {
		e.Elapsed = max(now.Sub(c.State.First), 0)
	}
	if tell := c.Policy.orZero().Observer.Event; tell != nil {
		tell(c.caller, e)
	}
}

// contextStop returns the reason to stop if ctx is done. It asks Done before
// Err because the contexts of some mock clocks race in Err.
func contextStop(ctx context.Context) StopReason {
	switch {
	case !done.Is(ctx):
		return StopNone
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return StopDeadline
	default:
		return StopCanceled
	}
}

// cut is the Last of a Call if a limit of time, or the end of the context, has cut off its last
// attempt. It goes with Last to where the operation goes on.
type cut struct {
	error             // the one that says more: before, unless that is nil
	before, off error // of the last attempt that ended by itself, if there was one, and of the one that was cut off
}

// Unwrap returns both errors.
func (c *cut) Unwrap() []error { return (&Error{Err: c.before, Cut: c.off}).Unwrap() }

// split returns the errors that last is made of, as an [*Error] has them.
func split(last error) (kept, off error) {
	switch c, ok := last.(*cut); { //nolint:errorlint // as keep has made it
	case !ok:
		return last, nil
	case c.before == nil:
		return c.off, nil
	default:
		return c.before, c.off
	}
}

// keep makes err the last failure, beside the one before if err is of an attempt that was cut off.
//
//go:noinline
func (c *Call) keep(err error) {
	before := c.Last
	if last, ok := before.(*cut); ok { //nolint:errorlint // as in split
		before = last.before
	}
	if ended := done.Closed(c.ended); ended && before != nil || !ended && c.TimedOut() {
		err = &cut{cmp.Or(before, err), before, err}
	}
	c.Last = err
}

// release ends the context of the attempt and tells the Observer its end.
func (c *Call) release(err error) {
	if c.own == nil {
		return
	}
	if told := c.own.told; told != nil {
		c.own.told = nil
		told(err)
	}
	c.stop()
}

// tellQuota tells the Quota how the attempt in progress has ended, and the Observer of a hold.
func (c *Call) tellQuota(err error, v Verdict) {
	p, turn := c.Policy.orZero(), c.Turn
	if turn == 0 {
		return
	}
	c.Turn = 0
	if held := p.Quota.Tell(p, turn, err, v); held > 0 && p.Observer != nil && p.Observer.Event != nil {
		n := c.State.Attempts() // without this one
		p.Observer.Event(c.caller, Event{Kind: Held, Policy: p.Name, Attempt: max(n, n+1), Delay: held, Verdict: v, Err: err})
	}
}
