package retry

import (
	"container/list"
	"context"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/done"
	"github.com/seed-5ff3c98e/retry/internal/sat"
)

// queue waits for the turn of the next attempt. The call ends if the limit holds for longer
// than the call may last.
//
//go:noinline
func (c *Call) queue() {
	p := c.Policy.orZero()
	if c.Turn != 0 || c.phase == over || done.Closed(c.ended) || c.free() {
		return
	}
	began := c.now()
	if c.State.First.IsZero() {
		c.State.First = began // the wait is part of the call
	}
	if o, ok := p.Observer.(WaitObserver); ok {
		if over := o.Wait(p.Name); over != nil {
			defer over()
		}
	}
	if q, ok := p.Quota.(*Quota); ok {
		c.line(q, began)
	} else {
		c.poll(p.Quota, began)
	}
	c.Waited = sat.Add(c.Waited, max(c.now().Sub(began), 0))
}

// poll asks a Pacer for a turn until there is one.
func (c *Call) poll(q Pacer, now time.Time) {
	for {
		turn, granted, wait := q.Take(now, 1)
		if granted > 0 {
			c.Turn = turn
			return
		}
		wait = max(wait, shortestAsk)
		if c.tooLate(now, wait) || !c.wait(wait) {
			return
		}
		now = c.now()
	}
}

// line waits in the line of a Quota. Only the first of the line has a timer.
func (c *Call) line(q *Quota, now time.Time) {
	turn, place := q.enter(now)
	if place == nil {
		c.Turn = turn
		return
	}
	defer func() {
		if c.Turn == 0 { // the context has ended, or the clock has panicked
			q.leave(place)
		}
	}()
	if c.tooLate(now, q.held(now)) {
		return
	}
	select {
	case <-place.Value.(*waiter).first: //nolint:forcetypeassert // there is nothing else
	case <-c.ended:
		return
	}
	for {
		now = c.now()
		var wait time.Duration
		if c.Turn, wait = q.ask(place, now); wait == 0 || c.tooLate(now, q.held(now)) {
			return
		}
		c.waitFirst(q, place, wait)
		if done.Closed(c.ended) {
			return
		}
	}
}

// waitFirst is wait for the first of a line, which may be woken.
func (c *Call) waitFirst(q *Quota, place *list.Element, wait time.Duration) {
	caller := c.caller
	ctx, again := context.WithCancel(caller)
	defer func() {
		again()
		c.caller = caller
	}()
	q.lead(place, again)
	c.caller = ctx
	c.wait(wait)
}

// tooLate ends the call if nobody may go for longer than it waits for a hint, or until its
// time is over.
func (c *Call) tooLate(now time.Time, held time.Duration) bool {
	p, stop := c.Policy.orZero(), StopNone
	switch {
	case held <= 0:
	case held > p.maxRetryAfter():
		stop = StopRetryAfter
	case held > p.elapsedLeft(&c.State, now):
		stop = StopElapsed
	case held >= p.timeLeft(&c.State, now):
		stop = StopTimeout
	case held >= c.room(now):
		stop = StopDeadline
	}
	if stop != StopNone {
		c.expire(stop, held, nil)
	}
	return stop != StopNone
}

// take takes a turn for the next attempt, without a wait. If its turn has not come, it returns
// false, and sets how long to wait.
func (c *Call) take() bool {
	p := c.Policy.orZero()
	if c.Turn != 0 || c.phase == over || done.Closed(c.ended) || c.free() {
		return true
	}
	turn, granted, wait := p.Quota.Take(p.now(), 1)
	if granted > 0 {
		c.Turn = turn
		return true
	}
	spread := wait / 100 * hintSpread
	if q, ok := p.Quota.(*Quota); ok {
		spread = q.spread()
	}
	wait = max(wait, shortestAsk)
	c.delay = uniform(wait, sat.Add(wait, spread), p.word(&c.State))
	return false
}

// open returns the turn of everybody, if the Quota knows no limit.
func (p *Policy) open() Turn {
	if q, ok := p.Quota.(*Quota); ok && q != nil {
		return Turn(q.open.Load())
	}
	return 0
}

// free takes a turn if there is nothing to ask for: there is no Quota, or it knows no limit.
func (c *Call) free() bool {
	p := c.Policy.orZero()
	c.Turn = p.open()
	q, ok := p.Quota.(*Quota)
	return c.Turn != 0 || ok && q == nil || p.Quota == nil
}

// giveBack returns a turn that is not used.
func (c *Call) giveBack() {
	if c.Turn != 0 {
		p := c.Policy.orZero()
		p.Quota.Return(p.now(), c.Turn, 1)
		c.Turn = 0
	}
}

// tellQuota tells the Quota how the attempt in progress has ended, and the Observer of a hold.
func (c *Call) tellQuota(now time.Time, err error, v Verdict) {
	p, turn := c.Policy.orZero(), c.Turn
	c.Turn = 0
	if c.clock != nil { // of an engine; the calls and workers that share the Quota have this one
		now = p.now()
	}
	if held := p.Quota.Tell(now, turn, err, v); held > 0 && p.Observer != nil {
		n := c.State.Attempts() // without this one
		p.Observer.Observe(c.caller, Event{Kind: Held, Policy: p.Name, Attempt: max(n, n+1), Delay: held, Verdict: v, Err: err})
	}
}
