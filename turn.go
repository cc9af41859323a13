package retry

import (
	"context"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/done"
	"github.com/seed-5ff3c98e/retry/internal/sat"
)

// queue asks for the turn of the next attempt. It returns true if the call has to stand in line
// until it asks again. It ends the call if the limit holds for longer than the call may last.
//
// The loop over a Call calls queue and stand one after the other, because a frame that stays on
// the stack while the caller waits costs memory, and so do those that were there before.
//
//go:noinline
func (c *Call) queue() (stands bool) {
	q, ok := c.Policy.orZero().Quota.(*Quota)
	switch {
	case c.rare != nil && c.rare.line != nil:
		defer c.leave(&stands)
		return c.ask(c.rare.line)
	case c.Turn != 0, c.phase == over, done.Closed(c.ended), c.free():
		return false
	case !ok:
		c.poll()
		return false
	}
	now := c.now()
	if c.Turn = q.enter(now, nil); c.Turn != 0 {
		return false
	}
	w := &waiter{quota: q, first: make(chan struct{}), began: now}
	c.rare = &rare{line: w}
	defer c.leave(&stands)
	w.end = c.Policy.orZero().tellWait()
	if c.State.First.IsZero() {
		c.State.First = now // the wait is part of the call
	}
	c.Turn = q.enter(now, w)
	return c.Turn == 0 && !c.tooLate(now, q.held(now))
}

// ask takes a turn for the first of the line.
func (c *Call) ask(w *waiter) (stands bool) {
	if done.Closed(c.ended) {
		return false
	}
	now := c.now()
	c.Turn, w.wait = w.quota.ask(w, now)
	return c.Turn == 0 && !c.tooLate(now, w.quota.held(now))
}

// leave ends a wait, unless the caller still stands in line. A clock that panics ends it too.
func (c *Call) leave(stands *bool) {
	if *stands {
		return
	}
	w := c.rare.line
	c.rare = nil
	if c.Turn == 0 {
		w.quota.leave(w)
	}
	if w.end != nil {
		defer w.end()
	}
	c.waitedSince(w.began)
}

// stand waits in the line. Only the first of it has a timer.
//
//go:noinline
func (c *Call) stand() {
	if c.rare.line.wait > 0 {
		c.waitFirst()
		return
	}
	select {
	case <-c.rare.line.first:
	case <-c.ended:
	}
}

// waitFirst is wait for the first of a line, which may be woken.
//
//go:noinline
func (c *Call) waitFirst() {
	w, caller, stands := c.rare.line, c.caller, false
	ctx, again := context.WithCancel(caller)
	defer func() {
		again()
		c.caller = caller
		c.leave(&stands)
	}()
	w.quota.lead(w, again)
	c.caller = ctx
	c.wait(w.wait)
	stands = true
}

// tellWait tells the Observer that a wait for a turn begins, and returns how to tell its end.
func (p *Policy) tellWait() (end func()) {
	if o, ok := p.Observer.(WaitObserver); ok {
		if end := o.Wait(p.Name); end != nil {
			return end
		}
	}
	return func() {}
}

// poll asks a Pacer for a turn until there is one.
//
//go:noinline
func (c *Call) poll() {
	p, began := c.Policy.orZero(), c.now()
	if c.State.First.IsZero() {
		c.State.First = began
	}
	defer p.tellWait()()
	defer c.waitedSince(began)
	for now := began; ; now = c.now() {
		turn, granted, wait := p.Quota.Take(now, 1)
		if granted > 0 {
			c.Turn = turn
			return
		}
		wait = max(wait, shortestAsk)
		if c.tooLate(now, wait) || !c.wait(wait) {
			return
		}
	}
}

// waitedSince counts a wait.
func (c *Call) waitedSince(began time.Time) {
	c.Waited = sat.Add(c.Waited, max(c.now().Sub(began), 0))
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
	if c.rare != nil && c.rare.clock != nil { // of an engine; the calls and workers that share the Quota have this one
		now = p.now()
	}
	if held := p.Quota.Tell(now, turn, err, v); held > 0 && p.Observer != nil {
		n := c.State.Attempts() // without this one
		p.Observer.Observe(c.caller, Event{Kind: Held, Policy: p.Name, Attempt: max(n, n+1), Delay: held, Verdict: v, Err: err})
	}
}
