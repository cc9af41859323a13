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
	if p.wake == nil || p.waiting.first() == t {
		p.wakeUp()
	}
}

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

// turns are what the Quota of a pool has granted, for tasks that have not begun.
type turns struct {
	turn retry.Turn
	n    int
}

// ask asks the Quota for turns for the tasks that can begin. Without one, held is how long to wait.
func (p *Pool) ask() (got turns, held time.Duration) {
	quota, n := p.policy().Quota, p.wants()
	if quota == nil || n == 0 {
		return got, 0
	}
	defer func() { _ = recover() }() // of a Pacer: it ends the task whose attempt begins
	turn, granted, wait := quota.Take(p.policy(), n)
	if granted > 0 {
		return turns{turn, granted}, 0
	}
	return got, max(wait, time.Millisecond)
}

// wants returns how many tasks are ready for which there are workers, and no turns yet.
func (p *Pool) wants() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turns.n > 0 {
		return 0
	}
	return min(p.fresh.len()+p.due.len(), p.most()-p.workers+1)
}

// giveBack returns turns for which there is no task.
func (p *Pool) giveBack(t turns) {
	if t.n > 0 {
		defer func() { _ = recover() }() // a Pacer that panics harms no task
		p.policy().Quota.Return(p.policy(), t.turn, t.n)
	}
}

// hold lets no task begin for a time. The lock is held.
func (p *Pool) hold(d time.Duration) {
	if p.fresh.len()+p.due.len() > 0 {
		p.held = p.policy().Now().Add(d)
		p.wakeUp()
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
