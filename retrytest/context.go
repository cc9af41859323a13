package retrytest

import (
	"context"
	"time"
)

// WithTimeout is [context.WithTimeout] on this clock; see [Clock.WithDeadline].
func (c *Clock) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return c.WithDeadline(parent, c.Now().Add(d))
}

// AttemptContext is WithTimeout, by the name that a [retry.Policy] looks for.
func (c *Clock) AttemptContext(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return c.WithTimeout(parent, d)
}

// WithDeadline is [context.WithDeadline] on this clock: the context ends when
// the clock reaches t, with context.DeadlineExceeded as error and as cause, and
// its Deadline is in the time of this clock.
//
// A child of it that package context made ends together with it and with the
// same cause, but says context.Canceled in its Err, because that package lets
// nobody else's deadlines end its contexts.
func (c *Clock) WithDeadline(parent context.Context, t time.Time) (context.Context, context.CancelFunc) {
	child, cancel := context.WithCancelCause(parent)
	ctx := &deadlineContext{child, t}
	if earlier, ok := parent.Deadline(); ok && earlier.Before(t) {
		ctx.deadline = earlier
	}
	expire := func() { cancel(context.DeadlineExceeded) }
	e := c.schedule(t, expire)
	if e == nil {
		expire()
	}
	return ctx, func() {
		c.remove(e)
		cancel(nil)
	}
}

// deadlineContext makes a context with a deadline of one that can be canceled.
// Done stays that of the latter, so that package context links children to it
// without a goroutine, and they end in the same instant.
type deadlineContext struct {
	context.Context
	deadline time.Time
}

// Deadline implements [context.Context].
func (c *deadlineContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Err implements [context.Context]. It goes by the cause, which arrives from the
// deadline of a parent too, whatever contexts are in between.
func (c *deadlineContext) Err() error {
	err := c.Context.Err()
	if err != nil && context.Cause(c.Context) == context.DeadlineExceeded { //nolint:errorlint // itself, not one that wraps it
		return context.DeadlineExceeded
	}
	return err
}

func isDone(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}
