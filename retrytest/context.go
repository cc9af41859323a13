package retrytest

import (
	"context"
	"time"
)

// WithTimeout is [context.WithTimeout] on this clock; see [Clock.WithDeadline].
func (c *Clock) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return c.WithDeadline(parent, c.Now().Add(d))
}

// AttemptContext is WithTimeout, with the name that a [retry.Policy] looks for.
func (c *Clock) AttemptContext(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return c.WithTimeout(parent, d)
}

// WithDeadline is [context.WithDeadline] on this clock: the context ends when
// the clock reaches t, with context.DeadlineExceeded as error and as cause, and
// its Deadline is in the time of this clock.
//
// A child of it made by package context ends together with it and with the same
// cause. Err of such a child is context.Canceled, because package context knows
// only its own deadlines.
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

// deadlineContext adds a deadline to a context that can be canceled. It keeps
// the Done of that context, so that package context links children to it
// without a goroutine, and they end in the same instant.
type deadlineContext struct {
	context.Context
	deadline time.Time
}

// Deadline implements [context.Context].
func (c *deadlineContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Err implements [context.Context]. It is derived from the cause, because the
// cause also comes from the deadline of a parent, through any contexts between.
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
