package retry

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/done"
	"github.com/seed-5ff3c98e/retry/internal/sat"
)

// Pacer gives the attempts of all calls that share a limit their turns, as package retryquota
// does. The methods get the policy of the call, which tells the time by its clock; a nil Policy
// is the zero one. They must be safe for concurrent use, and but for Wait they must not block.
// A panic in them passes through the call.
type Pacer interface {
	// Wait blocks until the turn of one attempt has come, and returns it. It returns at once,
	// and waited is 0, if nothing has to be waited for. The error is a [*HeldError] if the turn
	// comes too late for the call, as soon as that is known, and the cause of ctx if that ends.
	// A Pacer that has the caller wait tells the policy, by [Policy.Waits]. Any other error
	// ends the call with it.
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

// HeldError says that a turn has not come: to a [Pacer]'s caller that it comes too late for the call,
// and in the Err of a job of package retryjob that the job is due again when it may ask once more.
type HeldError struct {
	For time.Duration // until the turn may come; 0 if that is not known
}

// Error returns the form "retry: the turn has not come, and may come in 30s".
func (e *HeldError) Error() string {
	const text = "retry: the turn has not come"
	if e.For <= 0 {
		return text
	}
	return fmt.Sprintf("%s, and may come in %v", text, e.For)
}

// Waits tells the Observer of p, if that is a [WaitObserver], that a wait begins. It returns how to
// tell its end, which is nil if nobody wants to know.
func (p *Policy) Waits() (over func()) {
	p = p.orZero()
	if o, ok := p.Observer.(WaitObserver); ok {
		return o.Wait(p.Name)
	}
	return nil
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
	if c.Turn = turn; waited > 0 {
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
	late, ok := err.(*HeldError) //nolint:errorlint // as Wait promises
	if !ok {
		if _, ends := c.deadline(); ends { // as golang.org/x/time/rate says it
			c.expire(StopDeadline, 0, nil)
		} else {
			c.phase, c.Last = over, err
		}
		return
	}
	now, stop := c.now(), StopRetryAfter
	switch held := late.For; {
	case held > p.maxRetryAfter(c.Durable):
	case held > p.elapsedLeft(&c.State, now):
		stop = StopElapsed
	case held >= p.timeLeft(&c.State, now):
		stop = StopTimeout
	case held >= c.room(now):
		stop = StopDeadline
	}
	c.expire(stop, late.For, nil)
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
		c.delay = max(wait, shortestAsk)
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

// tellQuota tells the Quota how the attempt in progress has ended, and the Observer of a hold.
func (c *Call) tellQuota(err error, v Verdict) {
	p, turn := c.Policy.orZero(), c.Turn
	if turn == 0 {
		return
	}
	c.Turn = 0
	if held := p.Quota.Tell(p, turn, err, v); held > 0 && p.Observer != nil {
		n := c.State.Attempts() // without this one
		p.Observer.Observe(c.caller, Event{Kind: Held, Policy: p.Name, Attempt: max(n, n+1), Delay: held, Verdict: v, Err: err})
	}
}
