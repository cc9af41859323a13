package retry

import (
	"context"
	"time"
)

// Clock tells a [Policy] the time and waits for it. *clock.Mock of
// github.com/benbjohnson/clock, the fake clocks of clockwork and of Kubernetes,
// and retrytest.Clock are Clocks as they are. A Clock must be safe for
// concurrent use where the Policy is shared.
//
// A Policy calls After with a positive duration only, and looks at its context
// again when the channel has fired. If the Clock is a [SleepClock] or an [AttemptClock] too,
// the Policy prefers its method.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

// SleepClock is a [Clock] that waits under a context.
type SleepClock interface {
	Clock
	// SleepContext returns nil when d has passed, and an error when ctx is done.
	SleepContext(ctx context.Context, d time.Duration) error
}

// AttemptClock is a [Clock] that limits attempts. Without it, [Policy.AttemptTimeout] and
// Policy.Timeout end the contexts of attempts by the system's clock.
type AttemptClock interface {
	Clock
	// AttemptContext returns a child of ctx that is done after d.
	AttemptContext(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
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
	if c, ok := p.Clock.(AttemptClock); ok {
		return c.AttemptContext(ctx, d)
	}
	return context.WithTimeout(ctx, d)
}
