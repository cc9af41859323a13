package retry

import (
	"context"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/done"
)

// Clock tells a [Policy] the time and waits for it. *clock.Mock of
// github.com/benbjohnson/clock, the fake clocks of clockwork and of Kubernetes,
// and retrytest.Clock are Clocks as they are. A Clock must be safe for
// concurrent use where the Policy is shared.
//
// A Policy calls After with a positive duration only, and looks at its context
// again when the channel has fired. If the Clock has one of these methods too, the Policy
// prefers it:
//
//	// SleepContext returns nil when d has passed, and an error when ctx is done.
//	SleepContext(ctx context.Context, d time.Duration) error
//
//	// AttemptContext returns a child of ctx that is done after d. Without it, AttemptTimeout
//	// and Timeout end the contexts of attempts by the system's clock.
//	AttemptContext(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

// Now returns the current time on p.Clock. Now and Sleep are for code that waits
// outside a [Call], such as a pool.
func (p *Policy) Now() time.Time { return p.orZero().now() }

// now returns the current time of the policy.
func (p *Policy) now() time.Time {
	if p.Clock == nil {
		return time.Now()
	}
	return p.Clock.Now()
}

// withTimeout returns the context of one attempt.
func (p *Policy) withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	type limiter interface {
		AttemptContext(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
	}
	if c, ok := p.Clock.(limiter); ok {
		return c.AttemptContext(ctx, d)
	}
	return context.WithTimeout(ctx, d)
}

// Sleep waits on p.Clock. It returns nil when d has passed, or the cause of ctx when
// ctx is done. If d is 0 or less, it returns at once.
func (p *Policy) Sleep(ctx context.Context, d time.Duration) error {
	c := Call{Policy: p}
	c.under(ctx)
	if !done.Closed(c.ended) && (d <= 0 || c.wait(d)) {
		return nil
	}
	return context.Cause(c.caller)
}

// pause is wait for the next attempt, with the Observer. It is a function of its own
// because each byte counts on the stack of a plain call that waits.
func (c *Call) pause() bool {
	if over := c.Policy.waits(); over != nil {
		defer over()
	}
	return c.wait(c.Delay)
}

// wait returns true when d has passed and false when the caller's context is done.
//
// The timer is made at the first wait and used again, because making one costs more
// than the wait. It has fired or is stopped whenever wait returns, so nothing is left
// behind. It is not kept beyond the call: a timer of one testing/synctest bubble must
// not be used in another.
func (c *Call) wait(d time.Duration) bool {
	if clock := c.Policy.orZero().Clock; clock != nil {
		return waitOn(c.caller, clock, d)
	}
	if c.timer == nil {
		c.timer = time.NewTimer(d)
	} else {
		c.timer.Reset(d)
	}
	select {
	case <-c.timer.C:
		return true
	case <-c.caller.Done():
		c.timer.Stop()
		return false
	}
}

func waitOn(ctx context.Context, c Clock, d time.Duration) bool {
	if s, ok := c.(interface {
		SleepContext(ctx context.Context, d time.Duration) error
	}); ok {
		return s.SleepContext(ctx, d) == nil
	}
	select {
	case <-c.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
