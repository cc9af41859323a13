package retrypool

import (
	"context"

	"github.com/seed-5ff3c98e/retry"
)

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
	if o, ok := p.policy().Observer.(retry.WaitObserver); ok {
		t.over = o.Wait(p.policy().Name)
	}
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
