package retrypool

import (
	"runtime"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// most returns how many workers there are at most.
func (p *Pool) most() int {
	if p.Workers > 0 {
		return p.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// hire starts a worker if one is needed and may be started. The lock is held.
func (p *Pool) hire() {
	if p.workers < p.most() && p.fresh.len()+p.due.len() > 0 && p.held.IsZero() {
		p.workers++
		p.goroutines++
		go p.work()
	}
}

// work runs tasks as long as there are any.
func (p *Pool) work() {
	finished := false
	defer func() {
		if !finished { // a task has ended this goroutine by runtime.Goexit
			go p.work()
		}
	}()
	for t := p.next(); t != nil; t = p.next() {
		p.attempt(t)
	}
	finished = true
}

// next returns the task to run now, or nil if the worker may end.
func (p *Pool) next() *Task {
	got, held := p.ask()
	p.mu.Lock()
	var t *Task
	if got.n > 0 {
		p.turns, got = got, p.turns // what two workers have asked for at the same time
	}
	if held > 0 && p.turns.n == 0 {
		p.hold(held)
	} else if t = p.pick(); t != nil {
		t.phase = runs
		if p.vacate(t); p.turns.n > 0 {
			p.turns.n--
			t.turn = p.turns.turn
			p.hire() // for the next turn
		}
	}
	if t == nil {
		p.workers--
		p.leave()
	}
	var left turns
	if p.fresh.len()+p.due.len() == 0 {
		left, p.turns = p.turns, left
	}
	p.mu.Unlock()
	p.giveBack(got)
	p.giveBack(left)
	return t
}

// pick takes out the task that is to run next. It returns nil if there is none. The lock
// is held.
//
// While both fresh tasks and retries are ready, they take turns, so neither can keep
// the other waiting. If the turns were always equal, retries would pile up without
// bound while most work fails, because each fresh task then adds more retries than
// are made. So if there are more retries than the queue has places, retries get more
// turns, as many as in a single line.
func (p *Pool) pick() *Task {
	if p.fresh.len() > 0 && (p.due.len() == 0 || p.retries >= max(1, p.due.len()/cap(p.slots))) {
		p.retries = 0
		return p.fresh.pop()
	}
	if p.due.len() == 0 {
		return nil
	}
	p.retries++
	return p.due.pop()
}

// leave removes a goroutine from the count. The lock is held.
func (p *Pool) leave() {
	p.goroutines--
	if p.goroutines == 0 && p.idle != nil {
		close(p.idle)
		p.idle = nil
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
