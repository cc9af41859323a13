package retry

import (
	"context"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/done"
)

// attempt has what only some attempts need. It is not part of the Call because a Call is on the
// stack of every caller that waits.
type attempt struct {
	ctx    context.Context    //nolint:containedctx // a child of the caller's; nil if the attempt has the caller's
	cancel context.CancelFunc // ends the context; nil if it has no timeout, or is detached
	told   func(error)        // tells the Observer the end; nil if it did not ask
	began  time.Duration      // since State.First; only for ResetAfter
	total  bool               // ctx ends with Policy.Timeout
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

// TimedOut reports whether a timeout of the policy has ended the attempt in progress
// while the caller's context is not done. If it was Policy.AttemptTimeout, the attempt is
// [Retryable], category "timeout", unless a mark or the policy's Classifier says otherwise.
func (c *Call) TimedOut() bool {
	return c.phase == attempting && c.ranOut()
}

// ranOut reports whether a timeout of the policy has ended the context of the attempt. The
// context of the caller is asked last: it ends first.
func (c *Call) ranOut() bool { return c.limited() && done.Is(c.own.ctx) && !done.Is(c.caller) }

// timeUp reports whether Policy.Timeout has ended the context of the attempt in progress.
func (c *Call) timeUp() bool { return c.ranOut() && c.own.total }

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

// Abort ends the attempt in progress, if there is one, as if it had not been begun: it is not
// counted, and there is no event but its end, with [ErrLost]. If attempts may panic or the caller
// may leave the loop, defer Abort to release the timer of the attempt's timeout.
func (c *Call) Abort() {
	if c.phase == attempting {
		c.drop(ErrLost)
	}
}

// Interrupt ends the attempt in progress as Abort does if its failure err counts as an effect
// of its worker's stop, and reports whether it did: leave the operation to another worker then.
// Call it after a stop that has canceled the attempt. Any error may be an effect, such as "signal:
// interrupt", but the failure is for End if the attempt may have taken effect under a
// NonIdempotent policy, if err is a [*PanicError], or if a mark says that err is [Final].
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
