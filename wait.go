package retry

import (
	"context"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/done"
)

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
	if over := c.Policy.Waits(); over != nil {
		defer over()
	}
	return c.wait(c.delay)
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
	if s, ok := c.(SleepClock); ok {
		return s.SleepContext(ctx, d) == nil
	}
	select {
	case <-c.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
