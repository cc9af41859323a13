package retrypool

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/done"
)

var errGoexit = retry.MarkFinal(errors.New("retrypool: task called runtime.Goexit"))

// enlist makes a task ready, and sees to a worker. The lock is held.
func (p *Pool) enlist(t *Task) {
	t.phase = queued
	if t.started {
		p.due.push(t)
	} else {
		p.fresh.push(t)
	}
	limit := p.Workers
	if limit <= 0 {
		limit = runtime.GOMAXPROCS(0)
	}
	if p.workers < limit {
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

// next returns the task to run now, or nil if the worker may go.
func (p *Pool) next() *Task {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.turn()
	if t == nil {
		p.workers--
		p.leave()
		return nil
	}
	t.phase = runs
	p.vacate(t)
	return t
}

// turn takes out the task whose turn it is. It returns nil if there is none. The lock
// is held.
//
// While both fresh tasks and retries are ready, they take turns, so neither can keep
// the other waiting. Turns that are always equal would let retries pile up without
// bound while most work fails, since each fresh task then adds more retries than are
// made. So retries get more turns when they are more than the queue has places, as
// many as in a single line.
func (p *Pool) turn() *Task {
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

// leave counts a goroutine out. The lock is held.
func (p *Pool) leave() {
	p.goroutines--
	if p.goroutines == 0 && p.idle != nil {
		close(p.idle)
		p.idle = nil
	}
}

// attempt runs a task once. Its context is a child of the task's, for Close to cancel.
//
//nolint:contextcheck // tasks run under their own
func (p *Pool) attempt(t *Task) {
	ctx, cancel := context.WithCancel((*taskContext)(t))
	defer cancel()
	call, begun := t.call(), false
	if !p.guard(t, func() { begun = call.Begin(ctx) }) {
		return
	}
	if !begun {
		p.end(t, &call, call.Err())
		return
	}
	if !p.enter(t, &call, cancel) {
		p.takeOut(t, &call)
		return
	}
	err := errGoexit
	defer func() { // also in runtime.Goexit
		if r := recover(); r != nil {
			err = &PanicError{r, debug.Stack()}
		}
		p.settle(t, &call, err, done.Is(ctx) && !done.Is(t.ctx))
	}()
	err = t.fn(call.Context())
}

// enter notes that an attempt begins, and how Close can cancel it. It returns false if
// Close has canceled all attempts.
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
	var d retry.Decision
	if !p.guard(t, func() {
		if halted && err != nil {
			if halted = !p.policy().NonIdempotent && !p.isOwn(err); halted {
				return
			}
			call.Abort()
			call.Begin(t.ctx) // to be judged as if Close had not interfered
		}
		d = call.End(err)
	}) {
		return
	}
	switch {
	case halted && err != nil:
		call.Last = err
		p.takeOut(t, call)
	case d.Retry:
		p.again(t, call, d.Delay)
	default:
		p.end(t, call, d.Err)
	}
}

// isOwn reports whether the failure of an attempt that Close has canceled is the
// task's own: it panicked, or it marked the error. Other errors may well be what the
// cancellation has made of it: "signal: interrupt", "transaction has already been
// rolled back", "file already closed".
func (p *Pool) isOwn(err error) bool {
	if _, panicked := err.(*PanicError); panicked { //nolint:errorlint // made here
		return p.policy().Classify(err).Class == retry.Final
	}
	return marks.Classify(err).Class == retry.Final
}

// marks knows nothing but marks, which are asked before a Classifier.
var marks = &retry.Policy{Classifier: func(error) retry.Verdict { return retry.Verdict{Category: "unmarked"} }}

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

// guard calls functions of the caller's. It returns false if they panicked or
// called runtime.Goexit; the task has ended then.
func (p *Pool) guard(t *Task, fn func()) (ok bool) {
	err := errGoexit
	defer func() {
		if r := recover(); r != nil {
			err = &PanicError{r, debug.Stack()}
		}
		if !ok {
			p.end(t, nil, err)
		}
	}()
	fn()
	return true
}

// end ends a task. A call that ended it has counted its last attempt, if that failed.
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

// report tells those who wait for the end of a task.
func (p *Pool) report(t *Task) {
	defer func() { // whatever OnEnd does
		p.mu.Lock()
		defer p.mu.Unlock()
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
