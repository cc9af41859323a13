package retrypool

import (
	"context"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/sat"
)

// again lets a task wait for its next attempt, or hands it back if the pool is
// closed.
func (p *Pool) again(t *Task, now time.Time, delay time.Duration) {
	p.mu.Lock()
	if !p.closed {
		p.postpone(t, now, delay)
		p.mu.Unlock()
		return
	}
	t.at = now.Add(delay)
	p.handBack(t)
	p.left = append(p.left, t)
	p.mu.Unlock()
	p.finish(t)
}

// postpone has a task wait for its next attempt. The lock is held.
func (p *Pool) postpone(t *Task, now time.Time, delay time.Duration) {
	if delay <= 0 {
		p.enlist(t)
		return
	}
	t.phase, t.at, t.delay = waits, now.Add(delay), delay
	p.waiting.push(t)
	if t.ctx.Done() != nil {
		t.unwatch = context.AfterFunc(t.ctx, func() { p.cancel(t) })
	}
	switch {
	case !p.watched:
		p.watched = true
		p.goroutines++
		go p.watch()
	case p.waiting.first() == t && p.wake != nil:
		p.wake()
	}
}

// watch makes tasks ready when they are due, until none waits.
func (p *Pool) watch() {
	for {
		now := p.policy().Now()
		ctx, wake := context.WithCancel(context.Background())
		next, ok := p.release(now, wake)
		if ok {
			_ = p.policy().Sleep(ctx, next)
		}
		wake()
		if !ok {
			return
		}
	}
}

// release makes ready what is due at now. It returns how long the next task still
// has to wait, or false if there is none.
func (p *Pool) release(now time.Time, wake context.CancelFunc) (next time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for t := p.waiting.first(); t != nil; t = p.waiting.first() {
		if left := t.at.Sub(now); left > 0 {
			p.wake = wake
			return left, true
		}
		p.waiting.pop()
		t.rise()
		t.waited = sat.Add(t.waited, t.delay)
		t.at = time.Time{}
		p.enlist(t)
	}
	p.watched, p.wake = false, nil
	p.leave()
	return 0, false
}

// cancel ends a task that waits, because its context has ended.
func (p *Pool) cancel(t *Task) {
	p.mu.Lock()
	if t.phase != waits {
		p.mu.Unlock()
		return
	}
	p.waiting.remove(t)
	t.rise()
	t.phase = runs // to its end
	p.goroutines++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.leave()
	}()
	p.giveUp(t, t.interrupted())
}

// rise ends the watch over the context of a task that waits no more.
func (t *Task) rise() {
	if t.unwatch != nil {
		t.unwatch()
		t.unwatch = nil
	}
}
