package retrypool

import (
	"context"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/sat"
)

// wakeUp wakes the goroutine that waits for what is due next, or starts it. The lock is held.
func (p *Pool) wakeUp() {
	if p.wake == nil {
		p.wake = func() {} // it looks before it sleeps
		p.goroutines++
		go p.await()
	} else {
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
	left := sat.Max // of the hold
	if !p.held.IsZero() {
		if left = p.held.Sub(now); left <= 0 {
			p.held, left = time.Time{}, sat.Max
			p.hire()
		}
	}
	for range releaseBatch {
		t := p.waiting.first()
		if t == nil && left == sat.Max {
			p.wake = nil
			p.watches = map[<-chan struct{}]*watch{} // the old map would keep its memory
			p.leave()
			return 0, false
		}
		if t == nil {
			return left, true
		}
		if due := t.at.Sub(now); due > 0 {
			return min(due, left), true
		}
		p.waiting.pop()
		p.unwatch(t)
		t.waited = sat.Add(t.waited, t.delay)
		t.at = time.Time{}
		p.enlist(t)
	}
	return 0, true
}
