package retryjob

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/calls"
	"github.com/seed-5ff3c98e/retry/internal/done"
	"github.com/seed-5ff3c98e/retry/internal/stack"
)

// handover is the delay of a job that is handed back. An engine that delivers it at once
// might give it to the worker that stops.
const handover = time.Second

// mostCounted is more attempts than a job can have had.
const mostCounted = 1 << 30

var zeroPolicy = &retry.Policy{}

// Stored is one attempt at a job whose State is kept elsewhere: in the queue of an
// engine, or in a row of a table. Any worker of any process may make the next attempt. The
// worker reads the stored State, calls Attempt, and tells the engine the outcome:
//
//	job := retryjob.Stored{Policy: policy, State: state, Lost: lost}
//	switch job.Attempt(ctx, work) {
//	case retryjob.Done:    // remove the job
//	case retryjob.Again:   // store job.State; the job is due after job.Decision.Delay
//	case retryjob.Ended:   // put it where dead jobs go, with job.Decision.Err
//	case retryjob.Handed:  // store job.State; the job has not been tried
//	case retryjob.Refused: // report job.Err, and go on as with Handed
//	}
//	err := job.Tell(ctx) // when that is stored
//
// A literal is ready to use, serves one attempt, and is not safe for concurrent use.
//
// # Workers that die and workers that stop
//
// An attempt whose worker died has no outcome. Count it in Lost: it becomes a failure with
// [retry.ErrLost] before the next attempt begins. If no attempt is left, Decision.Err wraps ErrLost.
//
// The context of Attempt ends when the worker stops. If the work fails after
// that, the job is handed back, because the stop may have caused the failure. Four failures
// are judged as usual: a failure after the deadline of the context, which is a limit of the
// attempt; a failure under a NonIdempotent policy, because the attempt may have taken
// effect; a panic; and a failure that a mark says is [retry.Final]. The deadline of the context
// does not limit the waits.
//
// # Policies inside
//
// The [*retry.Error] of a policy inside the work, such as that of an HTTP client, does not end the job.
// It is judged by the failure that was given up: Final stays Final, and the longer hint counts. If
// the Policy is NonIdempotent, the job comes again if [retry.Error.NotApplied] is true.
//
// # Budgets
//
// The Budget of the Policy is neither asked nor told. A [retry.Budget] bounds the load of callers
// that wait; where it refuses, the call ends. A stored job waits where it is, and its end is a
// dead letter: one moment without a dependency would make dead letters of all that is due. The
// backoff and the number of workers bound the load of jobs.
//
// # Quotas
//
// If the Policy has a Quota, the attempt needs a turn. A job whose turn has not come is
// [Handed]: nothing is counted, and the job is due again when the hold is over, spread over some
// cycles. A worker that takes turns before it takes jobs out of their queue, by Take of the
// Quota, sets Turn.
//
// # States that somebody has changed
//
// A stranger may write what is stored: the publisher of a message, for example. So the
// attempt begins with what can be: counts from 0 to 2³⁰, and a First that is not in the
// future. [Stored.Early] bounds the wait for the attempt. A State that cannot be decoded does
// not say how often the job was tried: end the job, with an error that says so.
//
// # Panics
//
// A panic in the work is a failure with a [*retry.PanicError]. A panic in a function of the Policy,
// such as its Classifier, or in Now ends the job with a *PanicError. If one of them calls
// runtime.Goexit, the goroutine ends without an outcome: the attempt is lost.
type Stored struct {
	// Policy decides. nil means the zero Policy.
	Policy *retry.Policy

	// PolicyFor, if not nil, returns the policy for a Kind of jobs; see [PolicyFor]. It
	// is called when the attempt begins, so a changed policy counts from the next attempt
	// on. Policy is then set to the result.
	PolicyFor func(kind string) (*retry.Policy, error)
	Kind      string

	// Now, if not nil, tells the time of the engine, in place of the Policy's Clock. That
	// limits attempts in any case. If the time goes back to before State.First, no time has
	// passed.
	Now func() time.Time

	// Protocol is as in [retry.Call].
	Protocol retry.Classifier

	// Quota is used if the Policy has none, such as one for each tenant. Turn is the turn of
	// the attempt, if the worker has taken it from the Quota already: with a PolicyFor, from that
	// of Policy or from Quota. If PolicyFor exchanges that one for another, the turn goes back.
	Quota retry.Pacer
	Turn  retry.Turn

	// State is the state before the attempt and, when there is an outcome, the state to
	// store.
	State retry.State

	// Lost is how many attempts have begun since State was stored and have no outcome.
	// Less than 0 means 0. State includes them once the attempt has begun. After [Refused],
	// State includes all but one: Lost is 0 or 1.
	Lost int

	// Err is the error of the work, or nil after a success. If the job was handed back
	// before its attempt, Err is the cause of the context, or a [*HeldError] if its turn has not come.
	// After [Refused] it is the error of PolicyFor, also while the worker stops, or the error of
	// the work.
	Err error

	// Cause says why the job is Handed or Refused.
	Cause Cause

	// Decision has the Delay, the Err and the Stop of the outcome. A job that is handed
	// back, or that has no policy, has a Delay of 1 second, so that a stopping worker does
	// not get it again, and neither Verdict nor Limit. A job whose turn has not come is due when it may ask
	// again.
	Decision retry.Decision

	call    retry.Call
	outcome Outcome
	told    bool
}

// Attempt makes the attempt and returns its outcome. ctx ends when the worker stops; work
// gets a child of it. work is not called if ctx is done, if no attempt is left, or if
// there is no policy.
func (s *Stored) Attempt(ctx context.Context, work func(context.Context) error) (o Outcome) {
	defer func() {
		if v := recover(); v != nil {
			o = s.policyPanicked(v)
		}
		s.call.Abort() // after runtime.Goexit
	}()
	if ctx == nil {
		ctx = context.Background()
	}
	if !s.begin(ctx) {
		return s.outcome
	}
	return s.end(ctx, attempted(s.call.Context(), work))
}

// attempted calls work and returns its panic as an error.
func attempted(ctx context.Context, work func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v, "")
		}
	}()
	return work(ctx)
}

// panicked returns the error of a panic that the caller has recovered.
func panicked(v any, in string) error {
	return &retry.PanicError{Value: v, Stack: stack.OfPanic(), In: in}
}

// begin begins the attempt. It returns false if there is an outcome already.
func (s *Stored) begin(ctx context.Context) bool {
	if s.outcome != 0 || s.attempting() {
		return false
	}
	c := &s.call
	c.Protocol, c.State, c.Now, c.Durable = s.Protocol, s.State, s.Now, true
	s.bound()
	p, err := s.policy()
	if err != nil {
		s.handBack(Refused, NoPolicy, handover, err)
		return false
	}
	s.Policy, c.Policy = p, p
	var now time.Time // which matters only since First
	if !c.State.First.IsZero() {
		if now = s.now(); c.State.First.After(now) {
			c.State.First = now
		}
	}
	switch {
	case s.lost(now), s.exhausted(now):
		s.returnTurn()
	case done.Is(ctx):
		s.returnTurn()
		s.handBack(Handed, Stopped, handover, context.Cause(ctx))
	case s.take(ctx):
		s.State, c.Last = c.State, nil // ErrLost says nothing about this attempt
		return true
	case c.Err() == nil:
		s.handBack(Handed, Held, c.Delay, &HeldError{For: c.Delay})
	default:
		s.decided(retry.Decision{Stop: retry.StopTimeout, Err: c.Err()}) // it has run out since
	}
	return false
}

// policy returns the policy of the job. A turn of another Quota than that of the policy goes back.
func (s *Stored) policy() (*retry.Policy, error) {
	given := s.Quota
	if s.Policy != nil && s.Policy.Quota != nil {
		given = s.Policy.Quota
	}
	p, err := PolicyFor(s.Kind, s.Policy, s.PolicyFor)
	p = calls.Paced(cmp.Or(p, zeroPolicy), s.Quota)
	if s.Turn != 0 && given != nil && (err != nil || given != p.Quota) {
		given.Return(s.Policy, s.Turn, 1)
		s.Turn = 0
	}
	return p, err
}

// take begins the attempt with its turn, if the worker has taken it.
func (s *Stored) take(ctx context.Context) bool {
	s.call.Turn = s.Turn
	return s.call.Begin(ctx)
}

// returnTurn returns the turn that the worker has taken, because nothing will be sent.
func (s *Stored) returnTurn() {
	if s.Turn != 0 && s.Policy.Quota != nil {
		s.Policy.Quota.Return(s.Policy, s.Turn, 1)
	}
}

// attempting reports whether an attempt is in progress.
func (s *Stored) attempting() bool {
	return s.outcome == 0 && s.call.Attempt() > s.call.State.Attempts()
}

// bound makes the counts what can be. All lost attempts but the last become failures: only
// the last one is asked about.
func (s *Stored) bound() {
	n := &s.call.State
	n.Failures = min(max(n.Failures, 0), mostCounted)
	n.RateLimited = min(max(n.RateLimited, 0), mostCounted)
	n.Pending = min(max(n.Pending, 0), mostCounted)
	if s.Lost > 1 {
		n.Failures += min(s.Lost-1, mostCounted-n.Failures)
	}
	s.Lost = min(max(s.Lost, 0), 1)
}

// lost counts the lost attempt. It returns true if the job has ended because that attempt may
// have taken effect.
func (s *Stored) lost(now time.Time) bool {
	n, c := s.Lost, &s.call
	if s.Lost = 0; n == 0 {
		return false
	}
	if c.Last = retry.ErrLost; !s.Policy.NonIdempotent {
		c.State.Failures++
		return false
	}
	d := s.Policy.Next(c.State, retry.ErrLost, now)
	c.State = d.State
	s.decided(d)
	return true
}

// exhausted ends a job that has no attempt left.
func (s *Stored) exhausted(now time.Time) bool {
	c := &s.call
	d, exhausted := s.Policy.Exhausted(c.State, now)
	if exhausted {
		n := c.State.Attempts()
		d.Err = &retry.Error{
			Policy: s.Policy.Name, Attempts: n, Stop: d.Stop, NotApplied: n == 0, Err: c.Last, State: c.State,
		}
		s.decided(d)
	}
	return exhausted
}

// decided sets the outcome.
func (s *Stored) decided(d retry.Decision) {
	d.State = s.call.State
	s.State, s.Decision = d.State, d
	switch {
	case d.Retry:
		s.outcome = Again
	case d.Err == nil:
		s.outcome = Done
	default:
		s.outcome = Ended
	}
}

// handBack makes the outcome Handed or Refused.
func (s *Stored) handBack(o Outcome, why Cause, delay time.Duration, err error) {
	s.outcome, s.Cause, s.Err, s.State = o, why, err, s.call.State
	s.Decision = retry.Decision{Retry: true, At: s.now().Round(0).Add(delay), Delay: delay, State: s.State}
}

// end ends the attempt with the error of the work, nil for a success, and returns the
// outcome. After Abort, err becomes the Err.
func (s *Stored) end(ctx context.Context, err error) Outcome {
	switch {
	case s.outcome != 0: // by Abort
		s.Err = err
	case stops(ctx) && s.call.Interrupt(err):
		s.handBack(Handed, Stopped, handover, err)
	default:
		s.Err = err
		s.decided(s.call.End(err))
		if s.outcome == Again && s.Decision.Verdict.NotStarted {
			s.outcome, s.Cause = Refused, NotStarted
		}
	}
	return s.outcome
}

// stops reports whether the worker stops. A deadline is a limit of the attempt.
func stops(ctx context.Context) bool {
	return done.Is(ctx) && !errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// Abort hands the job back: the attempt in progress ends as if it had not been begun, and
// the job has the outcome [Handed]. The work may call Abort if the engine has decided
// already, or if another delivery continues the job; Err is then the error that the work
// returns. Without an attempt in progress Abort does nothing.
func (s *Stored) Abort() {
	if s.attempting() {
		s.call.Abort()
		s.handBack(Handed, Aborted, handover, nil)
	}
}

// End ends the job for a reason of the driver's: a message that is too large, for example, or a
// State that cannot be decoded. It makes reason the Err of the Decision.
func (s *Stored) End(reason error) {
	s.outcome, s.Decision.Retry, s.Decision.Err = Ended, false, reason
}

// policyPanicked ends the job because a function of the policy has panicked.
func (s *Stored) policyPanicked(v any) (o Outcome) {
	s.Err = panicked(v, "a function of the Policy")
	if s.attempting() {
		s.call.State.Failures++
	}
	s.decided(retry.Decision{Stop: retry.StopFinal, Err: s.Err})
	o = s.outcome
	defer func() { _ = recover() }() // the Observer or the Pacer may be what has panicked
	s.call.Abort()
	return o
}

// Tell tells the Observer of the Policy the outcome, with the context ctx. Call it when the
// engine has stored the outcome, or has been given it: nobody should hear of a success that
// another attempt repeats. A job that is handed back is not told, nor is an attempt without an
// outcome. Only the first call tells. If the Observer panics, Tell returns a [*retry.PanicError].
//
// Tell goes by Err and Decision, which a driver that knows better may set before; see also
// [Stored.End]. A Stop that is not set is StopFinal.
func (s *Stored) Tell(ctx context.Context) (err error) {
	p, d := cmp.Or(s.Policy, zeroPolicy), &s.Decision
	none := s.outcome == 0 && !d.Retry && d.Err == nil
	handed := d.Retry && (s.outcome == Handed || s.outcome == Refused)
	if s.told || none || handed || p.Observer == nil || p.Observer.Event == nil {
		return nil
	}
	s.told = true
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v, "Observer")
		}
	}()
	e := retry.Event{Policy: p.Name, Attempt: d.State.Attempts(), Verdict: d.Verdict}
	switch {
	case d.Retry:
		e.Kind, e.Delay, e.Err = retry.Retrying, d.Delay, s.Err
	case d.Err != nil:
		e.Kind, e.Stop, e.Err = retry.GaveUp, cmp.Or(d.Stop, retry.StopFinal), d.Err
	default:
		e.Kind, e.Attempt = retry.Succeeded, max(e.Attempt, e.Attempt+1)
	}
	if first := d.State.First; !first.IsZero() {
		e.Elapsed = max(s.now().Sub(first), 0)
	}
	p.Observer.Event(ctx, e)
	return nil
}

// now returns the time of the engine.
func (s *Stored) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return s.Policy.Now()
}
