package retry

import (
	"context"
	"math"

	"github.com/seed-5ff3c98e/retry/internal/done"
	"github.com/seed-5ff3c98e/retry/internal/known"
)

// Exhausted ends a stored operation that has no attempt left, as [Policy.Exhausted] says,
// and tells the Observer. Ask it before the first attempt in this process. It returns the
// decision to end the operation with; false changes nothing. During an attempt, or when
// the operation has ended, it is false.
func (c *Call) Exhausted(ctx context.Context) (Decision, bool) {
	p := c.Policy.orZero()
	d, exhausted := p.Exhausted(c.State, p.now())
	if c.phase != between || !exhausted {
		return Decision{}, false
	}
	c.under(ctx)
	c.expire(d.Stop, nil)
	d.Err = c.Last
	return d, true
}

// Lost is Exhausted for a stored operation of which n attempts have begun since its State
// was stored and have no outcome, because their workers died. Each is a failure with
// [ErrLost], which the State then has. If the operation is not idempotent, it ends,
// because the last of them may have taken effect.
func (c *Call) Lost(ctx context.Context, n int) (Decision, bool) {
	if c.phase != between || n <= 0 {
		return c.Exhausted(ctx)
	}
	c.State.normalize()
	c.State.Failures += min(n-1, math.MaxInt-1-c.State.Failures)
	if !c.restricted() {
		c.State.Failures++
		return c.Exhausted(ctx)
	}
	c.under(ctx)
	c.Begin(context.WithoutCancel(c.caller)) //nolint:contextcheck // ctx, or context.Background
	return c.End(ErrLost), true
}

// Interrupted reports whether the attempt in progress failed because the worker of a
// stored operation stops: err is not nil, and the context is canceled. The attempt then
// has ended as if it had not been begun, as by [Call.Abort]: have the operation go on
// elsewhere, with its State.
//
// Four failures are left to End, which does not ask the context after this question: one
// before the context was canceled, one by the context's deadline, one of an operation
// that is not idempotent, since the attempt may have taken effect, and one that a mark
// says is [Final]. Of an operation that is not Stored, no attempt is interrupted.
func (c *Call) Interrupted(err error) bool {
	if !c.Stored || c.phase != attempting || err == nil {
		return false
	}
	timedOut := c.TimedOut()
	if done.Closed(c.ended) && contextStop(c.caller) == StopCanceled && !c.restricted() && !markedFinal(err) {
		c.phase = between
		c.release(err)
		return true
	}
	if !timedOut { // and must not look like it when the context ends now
		c.stop()
	}
	c.ended = nil
	return false
}

// restricted reports whether the operation is not idempotent.
func (c *Call) restricted() bool { return c.NonIdempotent || c.Policy.orZero().NonIdempotent }

// markedFinal reports whether a mark says that err is Final.
func markedFinal(err error) bool {
	f, found := explicit(err)
	return found == mark && f.Class == known.Final
}
