package retry

import (
	"context"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/done"
	"github.com/seed-5ff3c98e/retry/internal/sat"
)

// Pacer gives the attempts of all calls that share a limit their turns, as package retryquota
// does. The methods get the policy of the call, which tells the time; nil is the zero one. They must
// be safe for concurrent use, and but for Wait must not block. A panic passes through the call.
type Pacer interface {
	// Wait blocks until the turn of one attempt has come, and returns it. It returns at once,
	// and waited is 0, if nothing has to be waited for. If the turn comes too late for
	// the call, the error is as soon as that is known an [*Error] with [StopRetryAfter], without an Err,
	// whose RetryAfter is how late; 0 if that is not known. If ctx ends, the error is its cause.
	// A Pacer that has the caller wait tells the Observer of the policy, by its Wait. Any other
	// error ends the call with it.
	Wait(ctx context.Context, p *Policy, w Waiting) (turn Turn, waited time.Duration, err error)

	// Take asks for n turns without a wait. It returns the turn, and how many attempts may
	// go with it. If they are fewer than n, the caller has a place among those that wait, and
	// keeps it by asking again after wait, for as many. With n = 0, Take only looks: wait is 0 if
	// there is a turn.
	Take(p *Policy, n int) (turn Turn, granted int, wait time.Duration)

	// Return gives back n turns that were not used.
	Return(p *Policy, turn Turn, n int)

	// Tell tells how an attempt with this turn has ended. err is nil after a success, and
	// [ErrLost] after an attempt without an outcome. v is the verdict about err; after a success
	// it has the class RateLimited if the server has said that nothing is left for the time of
	// After. held is how long nobody may go, if this attempt is the first to say so.
	Tell(p *Policy, turn Turn, err error, v Verdict) (held time.Duration)
}

// Turn is the permission of a [Pacer] for an attempt. 0 is none.
type Turn uint32

// Waiting says what a [Pacer] has to know about a call that waits for its turn.
type Waiting struct {
	Since   time.Time     // when the call began, which is its place in the order; zero means now
	Until   time.Time     // no attempt begins at this time or later; zero means no limit
	Longest time.Duration // the call waits for no hold that is longer
}

// shortestAsk is the shortest wait before a Pacer is asked again.
const shortestAsk = time.Millisecond

// await waits for the turn of the next attempt. It ends the call if the turn comes too late.
//
//go:noinline
func (c *Call) await() {
	p := c.Policy.orZero()
	if !c.needsTurn(p) {
		return
	}
	turn, waited, err := p.Quota.Wait(c.caller, p, Waiting{c.State.First, c.until(p), p.maxRetryAfter(c.Durable)})
	if c.Turn = turn; waited > 0 || err != nil {
		c.awaited(p, waited, err)
	}
}

// awaited counts a wait for a turn, and ends the call if there is none. It is apart because await
// is on the stack of every caller that waits.
//
//go:noinline
func (c *Call) awaited(p *Policy, waited time.Duration, err error) {
	if waited > 0 {
		c.Waited = sat.Add(c.Waited, waited)
		if c.State.First.IsZero() { // the wait is part of the call
			c.State.First = c.now().Add(-waited)
		}
	}
	if err != nil && !done.Closed(c.ended) {
		c.tooLate(p, err)
	}
}

// needsTurn reports whether the next attempt needs a turn, and has none.
func (c *Call) needsTurn(p *Policy) bool {
	return p.Quota != nil && c.Turn == 0 && c.phase != over && !done.Closed(c.ended)
}

// until is when the limits of the call end it, on the clock of the policy.
func (c *Call) until(p *Policy) (end time.Time) {
	end, _ = c.deadline()
	if p.Timeout <= 0 && p.MaxElapsed <= 0 {
		return end
	}
	if c.State.First.IsZero() {
		c.State.First = c.now()
	}
	for _, d := range []time.Duration{p.Timeout, sat.Add(p.MaxElapsed, 1)} { // an attempt may begin at MaxElapsed
		if at := c.State.First.Add(d); d > 1 && (end.IsZero() || at.Before(end)) {
			end = at
		}
	}
	return end
}

// tooLate ends a call that has no turn in time.
func (c *Call) tooLate(p *Policy, err error) {
	late, ok := err.(*Error)                                   //nolint:errorlint // as Wait promises
	if !ok || late.Stop != StopRetryAfter || late.Err != nil { // a Pacer may itself have retried
		if _, ends := c.deadline(); ends { // as golang.org/x/time/rate says it
			c.expire(StopDeadline, 0, nil)
		} else {
			c.phase, c.Last = over, err
		}
		return
	}
	now, stop := c.now(), StopRetryAfter
	switch held := late.RetryAfter; {
	case held > p.maxRetryAfter(c.Durable):
	case held > p.elapsedLeft(&c.State, now):
		stop = StopElapsed
	case held >= p.timeLeft(&c.State, now):
		stop = StopTimeout
	case held >= c.room(now):
		stop = StopDeadline
	}
	c.expire(stop, late.RetryAfter, nil)
}

// take takes a turn for the next attempt, without a wait. If its turn has not come, it returns
// false, and sets how long to wait.
func (c *Call) take() bool {
	p := c.Policy.orZero()
	if !c.needsTurn(p) {
		return true
	}
	turn, granted, wait := p.Quota.Take(p, 1)
	if granted > 0 {
		c.Turn = turn
	} else {
		c.Delay = max(wait, shortestAsk)
	}
	return granted > 0
}

// giveBack returns a turn that is not used.
func (c *Call) giveBack() {
	if turn := c.Turn; turn != 0 {
		p := c.Policy.orZero()
		c.Turn = 0
		p.Quota.Return(p, turn, 1)
	}
}
