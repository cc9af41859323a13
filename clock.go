package retry

import (
	"context"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/done"
)

// Clock is the time that a [Policy] lives in. *clock.Mock of
// github.com/benbjohnson/clock, the fake clocks of clockwork and of Kubernetes,
// and retrytest.Clock are Clocks as they are. It must be safe for concurrent use
// where the Policy is shared.
//
// A Policy calls After with a positive duration only, and looks at its context
// again when the channel has fired. A Clock may have two more methods, which a
// Policy then prefers:
//
//	SleepContext(ctx context.Context, d time.Duration) error
//	AttemptContext(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
//
// SleepContext waits until d has passed or ctx is done. AttemptContext returns
// a child of ctx that is done after d, for [Policy.AttemptTimeout]; without it
// the system's clock governs that timeout.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

type sleeper interface {
	SleepContext(ctx context.Context, d time.Duration) error
}

type attemptTimer interface {
	AttemptContext(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
}

// Now returns the current time on p.Clock. It is for drivers of your own, as are
// Sleep and AttemptContext: all that Execute does with the clock.
func (p *Policy) Now() time.Time { return p.orZero().now() }

// Sleep waits on p.Clock until d has passed, and returns nil, or until ctx is done,
// and returns its cause. A d of 0 or less has passed already.
func (p *Policy) Sleep(ctx context.Context, d time.Duration) error {
	p = p.orZero()
	ctx = orBackground(ctx)
	if !done.Is(ctx) && (d <= 0 || p.wait(ctx, d, p.start(nil, d))) {
		return nil
	}
	return context.Cause(ctx)
}

// AttemptContext returns the context for one attempt: a child of ctx that ends
// after p.AttemptTimeout, by p.Clock if that can tell; ctx itself if there is no
// timeout. Call the function when the attempt is over.
func (p *Policy) AttemptContext(ctx context.Context) (context.Context, context.CancelFunc) {
	p = p.orZero()
	ctx = orBackground(ctx)
	if p.AttemptTimeout <= 0 {
		return ctx, func() {}
	}
	return p.withTimeout(ctx)
}

// now returns the current time of the policy.
func (p *Policy) now() time.Time {
	if p.Clock == nil {
		return time.Now()
	}
	return p.Clock.Now()
}

// withTimeout returns the context of one attempt.
func (p *Policy) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if c, ok := p.Clock.(attemptTimer); ok {
		return c.AttemptContext(ctx, p.AttemptTimeout)
	}
	return context.WithTimeout(ctx, p.AttemptTimeout)
}

// wait returns true when d has passed and false when ctx is done. The timer is
// the one of this call, running, where the system's clock is used. It has fired
// or is stopped whenever wait returns, so nothing is left behind.
func (p *Policy) wait(ctx context.Context, d time.Duration, timer *time.Timer) bool {
	if p.Clock != nil {
		return waitOn(ctx, p.Clock, d)
	}
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		timer.Stop()
		return false
	}
}

// start returns the timer of a call, running: made at the first wait and used
// again, because making one is dearer than the wait. It must not outlive the
// call, in a pool or elsewhere: a timer from one testing/synctest bubble must
// not be used in another.
func (p *Policy) start(timer *time.Timer, d time.Duration) *time.Timer {
	switch {
	case p.Clock != nil:
		return nil
	case timer == nil:
		return time.NewTimer(d)
	default:
		timer.Reset(d)
		return timer
	}
}

func waitOn(ctx context.Context, c Clock, d time.Duration) bool {
	if s, ok := c.(sleeper); ok {
		return s.SleepContext(ctx, d) == nil
	}
	select {
	case <-c.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
