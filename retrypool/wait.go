package retrypool

import (
	"context"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/sat"
)

// again lets a task wait for its next attempt, or hands it back if the pool is
// closed.
func (p *Pool) again(t *Task, call *retry.Call, delay time.Duration) {
	now := p.Policy.Now()
	p.mu.Lock()
	delete(p.running, t)
	t.begun, t.state, t.err, t.waited = false, call.State, call.Last, call.Waited
	if !p.closed {
		p.postpone(t, now, delay)
		p.mu.Unlock()
		return
	}
	if delay > 0 {
		t.at, t.delay = now.Add(delay), delay
	}
	p.handBack(t)
	p.left = append(p.left, t)
	p.mu.Unlock()
	p.report(t)
}

// postpone lets a task wait for its next attempt. The lock is held.
func (p *Pool) postpone(t *Task, now time.Time, delay time.Duration) {
	if delay <= 0 {
		p.enlist(t)
		return
	}
	t.phase, t.at, t.delay = waits, now.Add(delay), delay
	p.waiting.push(t)
	p.watch(t)
	switch {
	case p.wake == nil:
		p.wake = func() {} // it looks before it sleeps
		p.goroutines++
		go p.await()
	case p.waiting.first() == t:
		p.wake()
	}
}

// await makes tasks ready when they are due, until none waits.
func (p *Pool) await() {
	for {
		ctx, wake := context.WithCancel(context.Background())
		next, ok := p.release(p.policy().Now(), wake)
		if ok {
			_ = p.policy().Sleep(ctx, next)
		}
		wake()
		if !ok {
			return
		}
	}
}

// releaseBatch bounds how long the lock is held when very many tasks are due.
const releaseBatch = 1000

// release makes the tasks ready that are due at now. It returns how long the next
// task still has to wait, or false if there is none.
func (p *Pool) release(now time.Time, wake context.CancelFunc) (next time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wake = wake
	for range releaseBatch {
		t := p.waiting.first()
		if t == nil {
			p.wake = nil
			p.watches = map[<-chan struct{}]*watch{} // the old map would keep its memory
			p.leave()
			return 0, false
		}
		if left := t.at.Sub(now); left > 0 {
			return left, true
		}
		p.waiting.pop()
		p.unwatch(t)
		t.waited = sat.Add(t.waited, t.delay)
		t.at = time.Time{}
		p.enlist(t)
	}
	return 0, true
}
