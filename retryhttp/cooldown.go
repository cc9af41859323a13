package retryhttp

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// held reports whether the host wants no requests. Then it has aborted the attempt in
// progress, if there is one, and waited; or it has ended the attempt, because the wait is
// too long.
func (c *call) held(ctx context.Context) bool {
	now := c.Policy.Now()
	cooling := c.t.host(c.req).cooling(now)
	if cooling == 0 {
		return false
	}
	if c.State.First.IsZero() {
		c.State.First = now // the wait is part of the call
	}
	if wait, ok := c.patience(ctx, cooling, now); ok {
		c.Abort()
		_ = c.Policy.Sleep(ctx, wait) // Next asks the context
		return true
	}
	c.End(retry.Mark(fmt.Errorf("retryhttp: %s is rate limited: not sent", address(c.req.URL)), retry.Verdict{
		Class: retry.RateLimited, NotApplied: true, After: cooling, Category: "cooldown",
	}))
	return true
}

// freeCooldowns is the FreeRateLimits of a Transport with a Cooldown: enough for a hundred
// requests that wait for a quota of five, and an end if a server never keeps its word.
const freeCooldowns = 100

// decideCooling is decide for a rate limit after which the host cools down. The retry waits with
// all other requests until the host takes them, so it is no load that a budget has to limit;
// and whoever comes next is a matter of luck, so it costs no attempt.
func (c *call) decideCooling(err error, v retry.Verdict) retry.Decision {
	own, budget := c.Policy, c.Budget
	defer func() { c.Policy, c.Budget = own, budget }()
	c.Budget = nil
	if own.FreeRateLimits == 0 && limit(own, v) > 1 {
		free := *own
		free.FreeRateLimits = freeCooldowns
		c.Policy = &free
	}
	return c.decide(err, v)
}

// limit returns how many attempts p allows for failures of a kind. No attempt is left in
// this State, so that Decide draws no random word.
func limit(p *retry.Policy, v retry.Verdict) int {
	return p.Decide(retry.State{Failures: retry.Unlimited}, v, time.Time{}).Limit
}

// patience returns how long to wait for a host: as long as for a hint of its own. It
// returns false if the policy or the deadline does not allow that. It is a function of its
// own because a Policy is large, and the caller waits.
//
//go:noinline
func (c *call) patience(ctx context.Context, cooling time.Duration, now time.Time) (time.Duration, bool) {
	p := *c.Policy
	p.MaxAttempts, p.NonIdempotent, p.Overrides = retry.Unlimited, false, nil // nothing has failed
	d := p.Decide(
		retry.State{First: c.State.First, Key: c.State.Key},
		retry.Verdict{Class: retry.RateLimited, After: cooling}, now,
	)
	if deadline, ok := ctx.Deadline(); ok {
		left := deadline.Sub(now)
		return min(d.Delay, left-1), d.Retry && cooling < left
	}
	return d.Delay, d.Retry
}
