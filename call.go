package retry

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/done"
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
// A literal with a Policy is ready to use. The exported fields are set before the first attempt, and
// the Call is not copied after it. A Call serves one operation, is not safe for concurrent use, and
// starts no goroutine.
//
// Next waits as the last decision says, and begins an attempt; End ends the attempt
// and decides what follows. If a heap or a database does the waiting, call Begin
// instead of Next; the [Decision] that End returns says when. Next and Begin return
// false when the operation has ended; Err then says how. For a job whose State is
// kept elsewhere, use package retryjob.
//
// An attempt that was begun and not ended is lost: the next call of Next or Begin ends
// it with an error that says so and wraps [ErrLost]. So a loop that forgets End is not
// endless. End without an attempt in progress decides nothing. If an attempt panics, nothing is
// counted; see [Call.Abort].
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

	// Last is the last failure, and Waited is the sum of the waits. An [Error] contains them. Set
	// them with State to continue an operation. If a limit has cut the last attempt off, Last wraps
	// its error and the last one of an attempt that was not cut off.
	Last   error
	Waited time.Duration

	// Delay is how long to wait before the next attempt.
	Delay time.Duration

	// Now, if not nil, tells the time in place of the Policy's Clock, which still waits and
	// limits attempts.
	Now func() time.Time

	caller context.Context //nolint:containedctx // of the operation
	ended  <-chan struct{} // the Done of caller
	own    *attempt        // nil unless the policy wants to know or to limit attempts
	timer  *time.Timer     // of the waits
}

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
	if c.Delay > 0 && c.pause() {
		c.Waited = sat.Add(c.Waited, c.Delay)
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
	if c.phase, c.Delay = attempting, 0; c.own != nil {
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
	if o := p.Observer; o != nil && o.Attempt != nil {
		ctx, told := o.Attempt(c.caller, c.Attempt())
		c.attempt().told = told
		if ctx != nil {
			c.attempt().ctx = ctx
		}
	}
	c.limit()
	return true
}

// Attempt returns the number of the attempt in progress, or of the last one, from 1; 0 before the
// first. If State was set, its attempts count too.
func (c *Call) Attempt() int {
	n := c.State.attempts()
	if counted := c.phase == between || c.phase == over && c.Last != nil; !counted && n < math.MaxInt {
		n++
	}
	return n
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
