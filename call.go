package retry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/done"
	"github.com/seed-5ff3c98e/retry/internal/errtree"
	"github.com/seed-5ff3c98e/retry/internal/known"
	"github.com/seed-5ff3c98e/retry/internal/sat"
)

// Call is one operation and its attempts, for a caller that makes the attempts
// itself. [Policy.Execute] is a loop over a Call, and so are retryhttp, retrysql,
// retryexec and retrypool:
//
//	call := retry.Call{Policy: policy}
//	for call.Next(ctx) {
//		resp, err = client.Do(req.WithContext(call.Context()))
//		call.End(err)
//	}
//	return resp, call.Err()
//
// A literal with a Policy is ready to use; the zero Call has the zero Policy. The
// exported fields are set before the first attempt, and the Call is not copied
// after it. A Call serves one operation, is not safe for concurrent use, starts no
// goroutine, and allocates nothing before its first wait, if the Policy has no timeout and
// no Observer.
//
// # Attempts
//
// Next waits as the last decision says, and begins an attempt; End ends the attempt
// and decides what follows. If a heap or a database does the waiting, call Begin
// instead of Next; the [Decision] that End returns says when. Next and Begin return
// false when the operation has ended; Err then says how. For a job whose State is
// kept elsewhere, use package retryjob.
//
// An attempt that was begun and not ended is lost: the next call of Next or Begin ends
// it with an error that says so and wraps [ErrLost]. So a loop that forgets End is not
// endless. End without an attempt in progress decides nothing: it changes neither State nor
// Err, and returns a Decision without a retry. The Err of that Decision is the Call's, or
// else the given error. If an attempt panics, nothing is counted; see
// [Call.Abort].
type Call struct {
	// Policy decides. nil means the zero Policy.
	Policy *Policy

	// Protocol classifies the errors of a protocol in place of [Classify]. Marks and
	// Policy.Classifier are asked before it. nil means Classify. [Extend] makes such a
	// Classifier.
	Protocol Classifier

	// Unknown is the class of errors that Protocol leaves Unknown: Final if the
	// protocol knows every error that may be retried. The zero value leaves them
	// Unknown, and so retried.
	Unknown Class

	// NonIdempotent restricts the retries of this call like
	// Policy.NonIdempotent.
	NonIdempotent bool

	// Durable says that the State is kept elsewhere, where the operation goes on when this
	// process ends; see package retryjob. The end of the context then ends the attempt and not
	// the operation, so ask the context before Begin. The Budget is neither asked nor told, the
	// Observer hears of attempts only, and an [*Error] of a policy inside counts as in
	// [Policy.Next].
	Durable bool

	phase phase
	plain bool // nothing has to happen around an attempt, and the time is not needed
	clean bool // every attempt so far certainly had no effect

	// Turn is the turn for the next attempt, if the caller has taken it from Policy.Quota
	// already. Otherwise the Call takes one.
	Turn Turn

	// Budget is used if the Policy has none.
	Budget Throttle

	// State is the state of the operation, kept up to date by End. Set it to
	// continue an operation.
	State State

	// Last is the last failure that is not of an attempt that a limit has cut off, if there
	// is one, and Waited is the sum of the waits. End and Next keep
	// them up to date, and an [Error] contains them. Set them with State to continue an
	// operation. When the operation has ended, Err returns Last.
	Last   error
	Waited time.Duration

	// Now, if not nil, tells the time in place of the Policy's Clock, which still waits and
	// limits attempts.
	Now func() time.Time

	caller context.Context //nolint:containedctx // of the operation
	ended  <-chan struct{} // the Done of caller
	own    *attempt        // nil unless the policy wants to know or to limit attempts
	timer  *time.Timer     // of the waits
	delay  time.Duration   // before the next attempt
}

// attempt has what only some attempts need. It is not part of the Call because a Call is on the
// stack of every caller that waits.
type attempt struct {
	ctx    context.Context    //nolint:containedctx // a child of the caller's; nil if the attempt has the caller's
	cancel context.CancelFunc // ends the context; nil if it has no timeout, or is detached
	told   func(error)        // tells the Observer the end; nil if it did not ask
	began  time.Duration      // since State.First; only for ResetAfter
	total  bool               // ctx ends with Policy.Timeout
	last   ending             // of the attempt that Call.Last is of
	cut    error              // of the last attempt, if a limit has cut it off and Last is of an earlier one
}

// ending is how an attempt has failed.
type ending uint8

const (
	elsewhere ending = iota // in another Call, or there was none
	byItself
	cutOff // by a limit of time, or by the end of the context
)

// phase is the current phase of a Call.
type phase uint8

const (
	between phase = iota // attempts, or before the first
	attempting
	over
)

// Next waits until the next attempt is due and begins it. It returns false when
// the operation has ended: it succeeded, it was given up, or ctx is done. ctx is
// the context of the operation, the same each time; nil is context.Background().
func (c *Call) Next(ctx context.Context) bool {
	c.under(ctx)
	c.endLost()
	if c.delay > 0 && c.pause() {
		c.Waited = sat.Add(c.Waited, c.delay)
	}
	if !c.plain {
		c.await()
	}
	return c.begin()
}

// Begin is Next without the wait, for a caller that has waited by other means. If the policy
// has a Quota, and the turn of the attempt has not come, Begin returns false, and Delay says
// when to try again; Err is nil then.
func (c *Call) Begin(ctx context.Context) bool {
	c.under(ctx)
	c.endLost()
	return (c.plain || c.take()) && c.begin()
}

// Delay returns how long to wait before the next attempt.
func (c *Call) Delay() time.Duration { return c.delay }

// under sets the context of the operation.
func (c *Call) under(ctx context.Context) {
	if ctx == nil {
		ctx = context.Background()
	}
	p := c.Policy.orZero()
	if c.caller = ctx; !c.Durable {
		c.ended = ctx.Done()
	}
	if p.Quota == nil {
		c.Turn = 0 // of a policy that was exchanged
	}
	_, timed := c.deadline()
	c.plain = !timed && !p.timed() && p.Observer == nil && p.Quota == nil && c.budget() == nil
}

// deadline returns the deadline of a context that can end. To a Durable call it never ends.
func (c *Call) deadline() (time.Time, bool) {
	if c.ended == nil {
		return time.Time{}, false
	}
	return c.caller.Deadline()
}

// room returns the time from now to the deadline; sat.Max stands for none.
func (c *Call) room(now time.Time) time.Duration {
	if deadline, ends := c.deadline(); ends {
		return deadline.Sub(now) // saturates
	}
	return sat.Max
}

// endLost ends an attempt that the caller has not ended.
func (c *Call) endLost() {
	if c.phase == attempting {
		c.lost()
	}
}

// lost is apart from endLost, which is inlined.
//
//go:noinline
func (c *Call) lost() { c.failed(unended(c.Attempt()), nil, nil) }

// unended is the failure of the attempt with this number, which the caller has not ended.
type unended int

func (n unended) Error() string {
	return fmt.Sprintf("retry: Call.End was not called for attempt %d", int(n))
}

func (n unended) Unwrap() error { return ErrLost }

// begin begins an attempt.
func (c *Call) begin() bool {
	if c.phase == over {
		return false
	}
	if done.Closed(c.ended) {
		c.giveBack()
		c.canceled()
		return false
	}
	if c.phase, c.delay = attempting, 0; c.own != nil {
		c.own.ctx = nil
	}
	return c.plain || c.prepare()
}

// now returns the time of the operation.
func (c *Call) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return c.Policy.orZero().now()
}

// timed reports whether p has a setting that needs the time or a timer.
func (p *Policy) timed() bool {
	return p.MaxElapsed > 0 || p.AttemptTimeout != 0 || p.Timeout > 0 || p.ResetAfter > 0
}

// prepare gives an attempt its time, its context and its event. It returns false if
// Timeout is over.
func (c *Call) prepare() bool {
	p := c.Policy.orZero()
	if p.ResetAfter > 0 || p.Timeout > 0 || c.State.First.IsZero() && (p.MaxElapsed > 0 || p.Observer != nil) {
		now := c.now()
		if c.State.First.IsZero() {
			c.State.First = now
		}
		if p.timeLeft(&c.State, now) <= 0 {
			c.giveBack()
			c.expire(StopTimeout, 0, nil)
			return false
		}
		if p.ResetAfter > 0 {
			c.attempt().began = now.Sub(c.State.First)
		}
	}
	if o, ok := p.Observer.(AttemptObserver); ok {
		ctx, told := o.Attempt(c.caller, c.Attempt())
		c.attempt().told = told
		if ctx != nil {
			c.attempt().ctx = ctx
		}
	}
	c.limit()
	return true
}

func (c *Call) attempt() *attempt {
	if c.own == nil {
		c.own = new(attempt)
	}
	return c.own
}

// limited reports whether the attempt has a timeout that ends its context.
func (c *Call) limited() bool { return c.own != nil && c.own.cancel != nil }

// limit gives the attempt a context that ends after AttemptTimeout, or with Timeout.
func (c *Call) limit() {
	p, d := c.Policy.orZero(), c.Policy.orZero().AttemptTimeout
	total := false
	if p.Timeout > 0 || d == EqualShare {
		now := c.now()
		left := max(p.timeLeft(&c.State, now), 1)
		if d == EqualShare {
			d = p.equalShare(&c.State, min(left, c.room(now)))
		}
		if p.Timeout > 0 && (d <= 0 || left <= d) {
			d, total = left, true
		}
	}
	if d > 0 {
		own := c.attempt()
		own.ctx, own.cancel = p.withTimeout(c.Context(), d)
		own.total = total
	}
}

// Context returns the context of the attempt: the context that was given to Next, or a
// child of it. With a [Policy.AttemptTimeout] or Timeout, the child ends with the attempt.
// The Observer may have derived a child too. After the attempt it stays the same; before
// the first Next it is nil.
func (c *Call) Context() context.Context {
	if c.own != nil && c.own.ctx != nil {
		return c.own.ctx
	}
	return c.caller
}

// Attempt returns the number of the attempt in progress, or of the last attempt: the
// first attempt has number 1. It is 0 before the first. If State was set, its attempts
// count too.
func (c *Call) Attempt() int {
	n := c.State.attempts()
	if counted := c.phase == between || c.phase == over && c.Last != nil; !counted && n < math.MaxInt {
		n++
	}
	return n
}

// TimedOut reports whether a timeout of the policy has ended the attempt in progress
// while the caller's context is not done. If it was Policy.AttemptTimeout, the attempt is
// [Retryable], category "timeout", whatever its error says, unless a mark or the policy's
// Classifier says otherwise. If it was Policy.Timeout, the operation has ended.
func (c *Call) TimedOut() bool {
	return c.phase == attempting && c.ranOut()
}

// ranOut reports whether a timeout of the policy has ended the context of the attempt. The
// context of the caller is asked last: it ends first.
func (c *Call) ranOut() bool { return c.limited() && done.Is(c.own.ctx) && !done.Is(c.caller) }

// timeUp reports whether Policy.Timeout has ended the context of the attempt in progress.
func (c *Call) timeUp() bool { return c.ranOut() && c.own.total }

// Verdict returns the verdict about the failure err of the attempt in progress, as End
// finds it: by a mark, the policy's Classifier, the attempt's own timeout, and the
// Protocol, in this order. It is zero if err is nil or no attempt is in progress. It is
// also zero if the caller's context is done or Policy.Timeout is over: then err is not
// classified.
func (c *Call) Verdict(err error) Verdict {
	if err == nil || c.phase != attempting || done.Closed(c.ended) || c.timeUp() {
		return Verdict{}
	}
	return verdictOf(c.Policy.orZero().classify(err, c.TimedOut(), c.Protocol, c.Unknown))
}

// End ends the attempt in progress with its error; nil is a success. It decides
// what follows, updates the Budget and tells the Observer. The State of the
// Decision is also the State of the Call. If there is no retry, its Err is also
// the Err of the Call: the error itself if it is [Final], else an [*Error].
//
// The context is checked before the error: if the context is done, the operation
// ends, and a failure is not classified.
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

// Err returns how the operation ended: nil if it succeeded or has not ended, the
// unchanged error of its last attempt if that error is [Final] and the context was not
// done, and an [*Error] otherwise.
func (c *Call) Err() error {
	if c.phase != over {
		return nil
	}
	return c.Last
}

// Detach keeps the context of the attempt in progress alive after End, until the
// returned function is called. Use it for a result that is read under that context,
// such as the body of a response. The timeout goes on, but TimedOut is false from
// then on.
func (c *Call) Detach() context.CancelFunc {
	if !c.limited() {
		return func() {}
	}
	cancel := c.own.cancel
	c.own.cancel = nil
	return cancel
}

// Abort ends the attempt in progress as if it had not been begun: it is not counted,
// and there is no event. Without an attempt in progress it does nothing. If attempts may
// panic or the caller may leave the loop, defer Abort to release the timer of the
// attempt's timeout. An Observer that was told of the attempt is told that it ended, with
// [ErrLost].
func (c *Call) Abort() {
	if c.phase == attempting {
		c.drop(ErrLost)
	}
}

// Interrupt ends the attempt in progress as Abort does if its failure err counts as an effect
// of its worker's stop, and reports whether it did: leave the operation to another worker then.
// Call it after a stop that has canceled the attempt. It does nothing, and the failure is
// for End, if the attempt may have taken effect under a NonIdempotent policy, if err is a
// [*PanicError], or if a mark says that err is [Final]. Any other error may be an effect:
// "signal: interrupt", "transaction has already been rolled back", "file already closed". An
// Observer that was told of the attempt is told that it ended with err.
func (c *Call) Interrupt(err error) bool {
	_, panicked := err.(*PanicError) //nolint:errorlint // of the work itself
	v, _ := Marked(err)
	if err == nil || c.NonIdempotent || c.Policy.orZero().NonIdempotent || panicked || v.Class == Final || c.phase != attempting {
		return false
	}
	c.drop(err)
	return true
}

// drop ends the attempt in progress as if it had not been begun.
func (c *Call) drop(err error) {
	c.phase = between
	defer c.release(err)
	c.tellQuota(ErrLost, Verdict{})
}

// stop ends the context of the attempt.
func (c *Call) stop() {
	if c.limited() {
		c.own.cancel()
		c.own.cancel = nil
	}
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
		c.delay = j.delay
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

// keep makes err the last failure. That of an attempt that was cut off says only that, so it does
// not take the place of one that says more.
//
//go:noinline
func (c *Call) keep(err error) {
	last, now := byItself, byItself
	if c.own != nil {
		last = c.own.last
	}
	if _, found := explicit(c.Last); last == elsewhere && found == nothing && errtree.Is(c.Last, context.DeadlineExceeded) {
		last = cutOff
	}
	if done.Closed(c.ended) || c.TimedOut() {
		now = cutOff
	}
	if now == cutOff && last != cutOff && c.Last != nil {
		c.attempt().cut = err
		return
	}
	if c.Last = err; c.own != nil {
		c.own.last, c.own.cut = now, nil
	}
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
	e := c.Policy.orZero().giveUp(j, &c.State, c.Last)
	e.Waited, e.NotApplied = c.Waited, c.clean || e.Attempts == 0
	if c.own != nil {
		e.Cut = c.own.cut
	}
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
	c.Policy.orZero().Observer.Observe(c.caller, e)
}

// budget returns the Throttle of this operation, or nil.
func (c *Call) budget() Throttle {
	if c.Durable {
		return nil
	}
	if c.Policy != nil && c.Policy.Budget != nil {
		return c.Policy.Budget
	}
	return c.Budget
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
