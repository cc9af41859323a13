package retrypool

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/done"
	"github.com/seed-5ff3c98e/retry/internal/stack"
)

var errGoexit = retry.MarkFinal(errors.New("retrypool: task called runtime.Goexit"))

// enlist makes a task ready, and starts a worker if one is needed. The lock is
// held.
func (p *Pool) enlist(t *Task) {
	t.phase = queued
	if t.started {
		p.due.push(t)
	} else {
		p.fresh.push(t)
	}
	p.hire()
}

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

// vacate gives back the place of a task in the queue. The lock is held.
func (p *Pool) vacate(t *Task) {
	if !t.started {
		t.started = true
		<-p.slots
	}
}

// leave removes a goroutine from the count. The lock is held.
func (p *Pool) leave() {
	p.goroutines--
	if p.goroutines == 0 && p.idle != nil {
		close(p.idle)
		p.idle = nil
	}
}

// attempt runs a task once. Its context is a child of the task's, for Close to cancel.
func (p *Pool) attempt(t *Task) {
	ctx, cancel := context.WithCancel((*taskContext)(t))
	defer cancel()
	call, begun := t.call(), false
	t.turn = 0
	if !p.guard(t, func() { begun = call.Begin(ctx) }) {
		return
	}
	if !begun {
		if err := call.Err(); err != nil {
			p.end(t, &call, err)
		} else { // its turn has not come
			p.again(t, &call, call.Delay())
		}
		return
	}
	if !p.enter(t, &call, cancel) {
		p.takeOut(t, &call)
		return
	}
	err := errGoexit
	defer func() { // also in runtime.Goexit
		if r := recover(); r != nil {
			err = &retry.PanicError{Value: r, Stack: stack.OfPanic()}
		}
		p.settle(t, &call, err, done.Is(ctx) && !done.Is(t.ctx))
	}()
	err = t.fn(call.Context())
}

// enter notes that an attempt begins, and the function that cancels it. It returns
// false if Close has canceled all attempts.
func (p *Pool) enter(t *Task, call *retry.Call, cancel context.CancelFunc) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.halted {
		return false
	}
	p.running[t] = cancel
	t.begun, t.state = true, call.State
	return true
}

// settle decides what follows an attempt: nothing, or another one. halted says
// that Close has canceled it.
func (p *Pool) settle(t *Task, call *retry.Call, err error, halted bool) {
	if halted && call.Interrupt(err) {
		call.Last = err
		p.takeOut(t, call)
		return
	}
	var d retry.Decision
	if !p.guard(t, func() {
		if halted && err != nil { // to decide as without Close
			call.Abort()
			call.Begin(t.ctx)
		}
		d = call.End(err)
	}) {
		return
	}
	if d.Retry {
		p.again(t, call, d.Delay)
	} else {
		p.end(t, call, d.Err)
	}
}

// takeOut hands back a task whose attempt Close has canceled, as if it had not been
// run.
func (p *Pool) takeOut(t *Task, call *retry.Call) {
	call.Abort()
	p.again(t, call, 0)
}

// interrupt ends a task whose context has ended while it waited.
func (p *Pool) interrupt(t *Task) {
	call := t.call()
	if p.guard(t, func() { call.Begin(t.ctx) }) {
		p.end(t, &call, call.Err())
	}
}

// guard calls a function of the caller. It returns false if the function
// panicked or called runtime.Goexit; the task has ended then.
func (p *Pool) guard(t *Task, fn func()) (ok bool) {
	err := errGoexit
	defer func() {
		if r := recover(); r != nil {
			err = &retry.PanicError{Value: r, Stack: stack.OfPanic(), In: "a function of the Policy"}
		}
		if !ok {
			p.end(t, nil, err)
		}
	}()
	fn()
	return true
}

// end ends a task. If its last attempt failed, call has counted it.
func (p *Pool) end(t *Task, call *retry.Call, err error) {
	p.mu.Lock()
	delete(p.running, t)
	if call != nil {
		t.state, t.begun = call.State, err == nil
	}
	t.phase, t.err, t.fn = ended, err, nil
	p.mu.Unlock()
	p.report(t)
}

// report calls OnEnd and wakes the goroutines that wait for the end of a task.
func (p *Pool) report(t *Task) {
	defer func() { // whatever OnEnd does
		r := recover()
		p.mu.Lock()
		defer p.mu.Unlock()
		if r != nil {
			t.err = alsoPanicked(t.err, &retry.PanicError{Value: r, Stack: stack.OfPanic(), In: "OnEnd"})
		}
		t.phase = reported
		if t.done != nil {
			close(t.done)
		}
		p.dismiss()
	}()
	if p.OnEnd != nil {
		p.OnEnd(t.ctx, t)
	}
}

// alsoPanicked returns the error of a task whose OnEnd panicked.
func alsoPanicked(err error, e *retry.PanicError) error {
	if err == nil {
		return e
	}
	return fmt.Errorf("%w; %w", err, e)
}
