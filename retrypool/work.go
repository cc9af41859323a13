package retrypool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/calls"
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

// vacate gives back the place of a task in the queue. The lock is held.
func (p *Pool) vacate(t *Task) {
	if !t.started {
		t.started = true
		<-p.slots
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
			p.again(t, &call, call.Delay)
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

// watch waits for the end of a context, for all the tasks that wait under it. If a
// million tasks share a context, its end takes one goroutine and not a million.
type watch struct {
	over  <-chan struct{} // closed when the context ends
	stop  func() bool
	tasks []*Task
}

// watch lets a task end with its context while it waits, and lets the Observer see the
// wait. The lock is held.
func (p *Pool) watch(t *Task) {
	t.over = calls.Waits(p.policy())
	over := t.ctx.Done()
	if over == nil {
		return
	}
	w := p.watches[over]
	if w == nil {
		w = &watch{over: over}
		w.stop = context.AfterFunc(t.ctx, func() { p.cancel(w) })
		p.watches[over] = w
	}
	t.watch, t.seat = w, uint32(len(w.tasks))
	w.tasks = append(w.tasks, t)
}

// unwatch undoes watch, because the task waits no more. The lock is held.
func (p *Pool) unwatch(t *Task) {
	if t.over != nil {
		t.over()
		t.over = nil
	}
	w := t.watch
	if w == nil {
		return
	}
	t.watch = nil
	end := len(w.tasks) - 1
	last := w.tasks[end]
	w.tasks[t.seat], last.seat = last, t.seat
	w.tasks[end] = nil
	w.tasks = w.tasks[:end]
	if end == 0 {
		w.stop()
		delete(p.watches, w.over)
	}
}

// cancel ends the tasks that wait under a context that has ended.
func (p *Pool) cancel(w *watch) {
	p.mu.Lock()
	p.goroutines++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(w.tasks) > 0 { // OnEnd or the Observer has called runtime.Goexit
			go p.cancel(w)
		}
		p.leave()
	}()
	for t := p.canceled(w); t != nil; t = p.canceled(w) {
		p.interrupt(t)
	}
}

// canceled takes out one of the tasks that wait under a context, if there is any.
func (p *Pool) canceled(w *watch) *Task {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(w.tasks) == 0 {
		return nil
	}
	t := w.tasks[len(w.tasks)-1]
	p.waiting.remove(t)
	p.unwatch(t)
	t.phase = runs // to its end
	if p.waiting.first() == nil {
		p.wake() // there is nothing to wait for
	}
	return t
}

// interrupt ends a task whose context has ended while it waited.
func (p *Pool) interrupt(t *Task) {
	call := t.call()
	if p.guard(t, func() { call.Begin(t.ctx) }) {
		p.end(t, &call, call.Err())
	}
}

// handBack ends a task that another pool is to continue. The lock is held, and
// report has to follow.
func (p *Pool) handBack(t *Task) {
	p.unwatch(t)
	p.vacate(t)
	t.phase = ended
	if t.err == nil {
		t.err = ErrClosed
	} else {
		t.err = &closedError{t.err}
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
