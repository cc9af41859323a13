package retry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/done"
	"github.com/seed-5ff3c98e/retry/internal/sat"
	"github.com/seed-5ff3c98e/retry/internal/show"
)

// handover is the delay of a job that is handed back. An engine that delivers it at once
// might give it to the worker that stops.
const handover = time.Second

var errNoPolicy = errors.New("PolicyFor has returned nil, and there is no Policy for all kinds")

// mostCounted is more attempts than a job can have had.
const mostCounted = 1 << 30

// Stored is one attempt at a job whose State is kept elsewhere: in the queue of an
// engine, or in a row of a table. Any worker of any process may make the next attempt. The
// worker reads the stored State, calls Attempt, and tells the engine the outcome:
//
//	job := retry.Stored{Policy: policy, State: state, Lost: lost}
//	switch job.Attempt(ctx, work) {
//	case retry.Done:    // remove the job
//	case retry.Again:   // store job.State; the job is due after job.Decision.Delay
//	case retry.Ended:   // put it where dead jobs go, with job.Decision.Err
//	case retry.Handed:  // store job.State; the job has not been tried
//	case retry.Refused: // report job.Err, and go on as with Handed
//	}
//	err := job.Tell(ctx) // when that is stored
//
// A literal is ready to use, serves one attempt, and is not safe for concurrent use.
//
// # Workers that die and workers that stop
//
// An attempt whose worker died has no outcome. Count it in Lost: it becomes a failure with
// [ErrLost] before the next attempt begins. If no attempt is left, Decision.Err wraps ErrLost.
//
// The context of Attempt ends when the worker stops. If the work fails after
// that, the job is handed back, because the stop may have caused the failure. Four failures
// are judged as usual: a failure after the deadline of the context, which is a limit of the
// attempt; a failure under a NonIdempotent policy, because the attempt may have taken
// effect; a panic; and a failure that a mark says is [Final]. The deadline of the context
// does not limit the waits.
//
// # Policies inside
//
// The [*Error] of a policy inside the work, such as that of an HTTP client, does not end the job.
// It is judged by the failure that was given up: Final stays Final, and the longer hint counts. If
// the Policy is NonIdempotent, the job comes again if [Error.NotApplied] is true.
//
// # Budgets
//
// The Budget of the Policy is neither asked nor told. A [Budget] bounds the load of callers
// that wait; where it refuses, the call ends. A stored job waits where it is, and its end is a
// dead letter: one moment without a dependency would make dead letters of all that is due. The
// backoff and the number of workers bound the load of jobs.
//
// # Quotas
//
// If the Policy has a [Quota], the attempt needs a turn. A job whose turn has not come is
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
// A panic in the work is a failure with a [*PanicError]. A panic in a function of the Policy,
// such as its Classifier, or in Now ends the job with a *PanicError. If one of them calls
// runtime.Goexit, the goroutine ends without an outcome: the attempt is lost.
type Stored struct {
	// Policy decides. nil means the zero Policy.
	Policy *Policy

	// PolicyFor, if not nil, returns the policy for a Kind of jobs; see [Policy.For]. It
	// is called when the attempt begins, so a changed policy counts from the next attempt
	// on. Policy is then set to the result.
	PolicyFor func(kind string) (*Policy, error)
	Kind      string

	// Now, if not nil, tells the time of the engine, in place of the Policy's Clock. That
	// limits attempts in any case. If the time goes back to before State.First, no time has
	// passed.
	Now func() time.Time

	// Protocol is as in [Call].
	Protocol Classifier

	// Quota is used if the Policy has none, such as one for each tenant. Turn is the turn of the attempt, if the worker has
	// taken it from the Quota already.
	Quota Pacer
	Turn  Turn

	// State is the state before the attempt and, when there is an outcome, the state to
	// store.
	State State

	// Lost is how many attempts have begun since State was stored and have no outcome.
	// Less than 0 means 0. State includes them once the attempt has begun. After [Refused],
	// State includes all but one: Lost is 0 or 1.
	Lost int

	// Err is the error of the work, or nil after a success. If the job was handed back
	// before its attempt, Err is the cause of the context, or a [*HeldError] if its turn has not come.
	// After [Refused] it is the error of PolicyFor, also while the worker stops, or the error of
	// the work.
	Err error

	// Decision has the Delay, the Err and the Stop of the outcome. A job that is handed
	// back, or that has no policy, has a Delay of 1 second, so that a stopping worker does
	// not get it again, and no Verdict. A job whose turn has not come is due when it may ask
	// again.
	Decision Decision

	call    Call
	outcome Outcome
	told    bool
}

// Outcome says what happens to a stored job after an attempt.
type Outcome uint8

// The outcomes. The zero Outcome is none: the attempt has not ended.
const (
	_       Outcome = iota
	Done            // the job has succeeded
	Again           // the attempt has failed, and there is another one
	Ended           // the job has failed
	Handed          // the job was not tried, or not to the end: another worker goes on with it
	Refused         // as Handed, and somebody has to hear why: there is no policy for the Kind, or see MarkNotStarted
)

var outcomeNames = names[Outcome]{"none", "done", "again", "ended", "handed", "refused"}

// String returns "none", "done", "again", "ended", "handed" or "refused".
func (o Outcome) String() string { return outcomeNames.of(o) }

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
	ctx, begun := s.begin(ctx)
	if !begun {
		return s.outcome
	}
	return s.end(attempted(ctx, work))
}

// begin begins the attempt and returns its context. It returns false if there is an
// outcome already.
func (s *Stored) begin(ctx context.Context) (context.Context, bool) {
	if ctx == nil {
		ctx = context.Background()
	}
	c := &s.call
	if s.outcome != 0 || c.phase != between {
		return ctx, false
	}
	// To the Call, the context never ends: Stored handles its end.
	c.Policy, c.Protocol, c.State, c.caller, c.apart = s.Policy, s.Protocol, s.State, ctx, true
	if s.Now != nil {
		c.rare = &rare{clock: s.Now}
	}
	s.bound()
	p, err := s.Policy.For(s.Kind, s.PolicyFor)
	if err != nil {
		s.handBack(Refused, handover, err)
		return ctx, false
	}
	if p = p.orZero(); p.Quota == nil && s.Quota != nil {
		own := *p
		own.Quota = s.Quota
		p = &own
	}
	s.Policy, c.Policy = p, p
	if p.orZero().Quota == nil { // the turn is of a policy that was exchanged
		s.Turn = 0
	}
	if now := s.now(); c.State.First.After(now) {
		c.State.First = now
	}
	switch {
	case s.lost() || s.exhausted():
		s.returnTurn()
	case done.Is(ctx):
		s.returnTurn()
		s.handBack(Handed, handover, context.Cause(ctx))
	case !s.take():
		s.handBack(Handed, c.delay, &HeldError{For: c.delay})
	case !c.begin():
		s.decided(Decision{Stop: StopTimeout}) // it has run out since
	default:
		s.State, c.Last = c.State, nil // ErrLost says nothing about this attempt
		return c.Context(), true
	}
	return ctx, false
}

// take takes the turn of the attempt, unless the worker has.
func (s *Stored) take() bool {
	s.call.Turn = s.Turn
	return s.call.take()
}

// returnTurn returns the turn that the worker has taken, because nothing will be sent.
func (s *Stored) returnTurn() {
	s.call.Turn = s.Turn
	s.call.giveBack()
}

// Early returns wait, which is how much too early the job is by a due time that is stored
// with it. A wait of less than 0 is 0. A wait that is longer than twice the longest of the
// policy, hints included, is cut to that, because a stranger may have written the due time:
// put the job back with a due time that follows from the result. If there is no policy, the
// wait is not cut.
func (s *Stored) Early(wait time.Duration) (early time.Duration) {
	if early = max(wait, 0); early == 0 {
		return 0
	}
	p, err := s.Policy.For(s.Kind, s.PolicyFor)
	if err != nil {
		return early
	}
	defer func() { _ = recover() }() // of a Backoff: it ends the job when the attempt begins
	longest := p.orZero().longestWait()
	if s.State.Pending > 0 {
		longest = max(longest, longestStart)
	}
	return min(early, sat.Add(longest, longest))
}

// longestWait returns the longest wait without its jitter.
func (p *Policy) longestWait() time.Duration {
	d := max(handover, p.ceiling(), p.maxRetryAfter())
	for _, o := range p.Overrides {
		q := *p
		q.apply(o)
		d = max(d, q.ceiling(), q.maxRetryAfter())
	}
	return d
}

// bound makes the counts what can be. All lost attempts but the last become failures: only
// the last one is asked about.
func (s *Stored) bound() {
	n := &s.call.State
	n.Failures, n.RateLimited, n.Pending = min(n.Failures, mostCounted), min(n.RateLimited, mostCounted), min(n.Pending, mostCounted)
	if n.normalize(); s.Lost > 1 {
		n.Failures += min(s.Lost-1, mostCounted-n.Failures)
	}
	s.Lost = min(max(s.Lost, 0), 1)
}

// lost counts the lost attempt. It returns true if the job has ended because that attempt may
// have taken effect.
func (s *Stored) lost() bool {
	n, c := s.Lost, &s.call
	if s.Lost = 0; n == 0 {
		return false
	}
	if c.Last = ErrLost; !c.Policy.orZero().NonIdempotent {
		c.State.Failures++
		return false
	}
	c.caller = context.WithoutCancel(c.caller) // what ends now was no part of that attempt
	d := Decision{Stop: StopTimeout}
	if c.begin() {
		d = c.End(ErrLost)
	}
	s.decided(d)
	return true
}

// exhausted ends a job that has no attempt left.
func (s *Stored) exhausted() bool {
	p := s.call.Policy.orZero()
	d, exhausted := p.Exhausted(s.call.State, s.now())
	if exhausted {
		s.call.expire(d.Stop, 0, nil)
		s.decided(d)
	}
	return exhausted
}

// decided sets the outcome.
func (s *Stored) decided(d Decision) {
	d.State, d.Err = s.call.State, s.call.Err()
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
func (s *Stored) handBack(o Outcome, delay time.Duration, err error) {
	s.Err, s.State, s.outcome = err, s.call.State, o
	s.Decision = Decision{
		Retry: true, At: wallTime(s.now(), delay), Delay: delay, Limit: s.Policy.orZero().limit(), State: s.State,
	}
}

// end ends the attempt with the error of the work, nil for a success, and returns the
// outcome. After Abort, err becomes the Err.
func (s *Stored) end(err error) Outcome {
	c := &s.call
	if c.phase != attempting {
		if s.outcome == Handed && s.Err == nil { // by Abort
			s.Err = err
		}
		return s.outcome
	}
	if s.Err = err; err != nil && s.interrupted(err) {
		c.phase = between
		c.tellQuota(ErrLost, Verdict{})
		c.release(err)
		s.handBack(Handed, handover, err)
		return s.outcome
	}
	s.decided(c.End(err))
	if f := s.Decision.Verdict.fact(); s.outcome == Again && unstarted(&f) {
		s.outcome = Refused
	}
	return s.outcome
}

// interrupted reports whether the failure err of the attempt is the worker's stop. If it
// is not, it is judged as if the worker went on.
func (s *Stored) interrupted(err error) bool {
	c := &s.call
	timedOut := c.TimedOut()
	stopped := done.Is(c.caller)
	if stopped || !timedOut { // and must not look like a timeout if the context ends now
		c.stop()
	}
	return stopped && contextStop(c.caller) == StopCanceled && c.Interrupted(err)
}

// Abort hands the job back: the attempt in progress ends as if it had not been begun, and
// the job has the outcome [Handed]. The work may call Abort if the engine has decided
// already, or if another delivery continues the job; Err is then the error that the work
// returns. Without an attempt in progress Abort does nothing.
func (s *Stored) Abort() {
	if s.call.phase == attempting {
		s.call.Abort()
		s.handBack(Handed, handover, nil)
	}
}

// policyPanicked ends the job because a function of the policy has panicked.
func (s *Stored) policyPanicked(v any) Outcome {
	c := &s.call
	if c.State.normalize(); c.phase == attempting {
		c.State.Failures = max(c.State.Failures, c.State.Failures+1)
	}
	s.Err = panicked(v, "a function of the Policy")
	c.phase, c.Last = over, s.Err
	s.decided(Decision{Stop: StopFinal, Limit: c.Policy.orZero().limit()})
	defer func() { _ = recover() }() // the Observer or the Pacer may be what has panicked
	defer c.release(s.Err)
	c.tellQuota(ErrLost, Verdict{})
	return s.outcome
}

// Tell tells the Observer of the Policy the outcome, with the context ctx. Call it when the
// engine has stored the outcome, or has been given it: nobody should hear of a success that
// another attempt repeats. A job that is handed back is not told, nor is an attempt without an
// outcome. Only the first call tells. If the Observer panics, Tell returns a [*PanicError].
//
// Tell goes by Err and Decision. A driver that ends a job without an attempt, or for another
// reason than that of Attempt, sets these two before; a Stop that is not set is StopFinal.
func (s *Stored) Tell(ctx context.Context) (err error) {
	p, d := s.Policy.orZero(), &s.Decision
	none := s.outcome == 0 && !d.Retry && d.Err == nil
	handed := d.Retry && (s.outcome == Handed || s.outcome == Refused)
	if s.told || none || handed || p.Observer == nil {
		return nil
	}
	s.told = true
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v, "Observer")
		}
	}()
	e := Event{Policy: p.Name, Attempt: d.State.Attempts(), Verdict: d.Verdict}
	switch {
	case d.Retry:
		e.Kind, e.Delay, e.Err = Retrying, d.Delay, s.Err
	case d.Err != nil:
		e.Kind, e.Stop, e.Err = GaveUp, cmp.Or(d.Stop, StopFinal), d.Err
	default:
		e.Kind, e.Attempt = Succeeded, max(e.Attempt, e.Attempt+1)
	}
	if first := d.State.First; !first.IsZero() {
		e.Elapsed = max(s.now().Sub(first), 0)
	}
	p.Observer.Observe(ctx, e)
	return nil
}

// now returns the time of the engine.
func (s *Stored) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return s.Policy.orZero().now()
}

// For returns the policy for a kind of jobs: the policy that policyFor returns, or p if
// policyFor returns nil or an error. If p is nil too, For returns an error. If policyFor
// is nil, For returns p. If policyFor panics, the error is a [*PanicError]. The method Get
// of a retrypolicies.Policies can be the policyFor.
func (p *Policy) For(kind string, policyFor func(kind string) (*Policy, error)) (_ *Policy, err error) {
	if policyFor == nil {
		return p, nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v, "PolicyFor")
		}
	}()
	switch own, err := policyFor(kind); {
	case err == nil && own != nil:
		return own, nil
	case p != nil:
		return p, nil
	default:
		return nil, fmt.Errorf("retry: no policy for jobs of kind %s: %w", show.Quote(kind), cmp.Or(err, errNoPolicy))
	}
}
