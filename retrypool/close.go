package retrypool

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/done"
)

// Close ends the pool and returns the unfinished tasks. All tasks that wait for a
// retry are among them; that is not an error. Call [Pool.Wait] first if every task
// is to be finished.
//
// From now on the pool takes no task. Tasks in the queue are run once; tasks that wait
// for a retry, now or after that, are handed back at once. If ctx ends first, the
// tasks that are still in the queue are handed back too, and the attempts in progress
// are canceled. Close waits until these attempts have returned, even if they ignore their
// contexts. Neither a task nor OnEnd may close its own pool: Close would
// wait for itself.
//
// A task that is handed back has ended for this pool, with an error that is
// [ErrClosed]. [Pool.ResumeTask] continues it in another pool. To continue it in another
// process, store its [Task.State] with the name of the task in OnEnd, which gets the
// context of the task, and call [Pool.Resume] in that process. An attempt that fails
// after Close has canceled its context does not count, whatever its error, unless it
// panics, the error is marked as Final, or the policy is NonIdempotent.
//
// The tasks are in order of submission. The error is the cause of ctx if ctx ended
// before the queue was empty. If Close is called several times, each task is
// returned by one of the calls.
func (p *Pool) Close(ctx context.Context) ([]*Task, error) {
	p.once.Do(p.init)
	ctx = orBackground(ctx)
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.shut)
	}
	left := p.takeBack(p.waiting.empty())
	if p.wake != nil {
		p.wake()
	}
	idle := p.untilIdle()
	p.mu.Unlock()
	p.reportAll(left)

	var err error
	select {
	case <-idle:
	case <-ctx.Done():
		if !done.Closed(idle) {
			err = context.Cause(ctx)
			left = append(left, p.halt()...)
			<-idle
		}
	}
	p.mu.Lock()
	left = append(left, p.left...)
	p.left = nil
	unused := p.turns
	p.turns = turns{}
	p.mu.Unlock()
	p.giveBack(unused)
	slices.SortFunc(left, func(a, b *Task) int { return cmp.Compare(a.number, b.number) })
	return left, err
}

// halt hands back the queued tasks and cancels the attempts in progress.
func (p *Pool) halt() []*Task {
	p.mu.Lock()
	p.halted, p.held = true, time.Time{}
	if p.wake != nil {
		p.wake()
	}
	left := p.takeBack(append(p.fresh.empty(), p.due.empty()...))
	for _, cancel := range p.running {
		cancel()
	}
	p.mu.Unlock()
	p.reportAll(left)
	return left
}

// takeBack hands back tasks that have been taken out of a queue. The lock is held.
func (p *Pool) takeBack(tasks []*Task) []*Task {
	for _, t := range tasks {
		p.handBack(t)
	}
	return tasks
}

func (p *Pool) reportAll(tasks []*Task) {
	told := 0
	defer func() {
		if told < len(tasks) { // OnEnd has called runtime.Goexit
			go p.reportAll(tasks[told:])
		}
	}()
	for _, t := range tasks {
		told++
		p.report(t)
	}
}

// untilIdle returns a channel that is closed when no goroutine is left. The lock
// is held.
func (p *Pool) untilIdle() <-chan struct{} {
	if p.goroutines == 0 {
		return closed()
	}
	if p.idle == nil {
		p.idle = make(chan struct{})
	}
	return p.idle
}

var errWaitInside = errors.New("retrypool: Wait was called by a task of the pool, and would wait for itself")

// Wait waits until there is an instant at which the pool has nothing to do: no task is
// queued, runs, or waits for a retry, and OnEnd has returned for every task. It returns
// nil then, and at once if the pool has nothing to do now. If ctx ends first, Wait
// returns its cause. A nil ctx is context.Background(). The error of Wait says nothing
// about how the tasks ended; [Task.Err] does.
//
// Tasks and other goroutines may submit tasks meanwhile. Wait waits for all tasks that
// are submitted before the instant, and for no task that is submitted later. With a
// steady flow of new tasks the instant may never come. A Submit that still blocks has
// not submitted its task yet. A task that Close hands back has ended, so Wait also
// returns during Close, and at once after it.
//
// A task must not wait for its own pool, and OnEnd must not either. If ctx is the
// context of a running task of the pool, or is derived from it, Wait returns an error
// at once. With any other context such a Wait lasts until ctx ends.
//
// Wait may be called any number of times, and by several goroutines at once.
func (p *Pool) Wait(ctx context.Context) error {
	ctx = orBackground(ctx)
	if p.runsUnder(ctx) {
		return errWaitInside
	}
	rest := p.untilRest()
	select {
	case <-rest:
	case <-ctx.Done():
		if !done.Closed(rest) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// untilRest returns a channel that is closed when no task is left.
func (p *Pool) untilRest() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.open == 0:
		return closed()
	case p.rest == nil:
		p.rest = make(chan struct{})
	}
	return p.rest
}

// closed returns a channel that is closed.
func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// dismiss removes an ended task from the count. The lock is held.
func (p *Pool) dismiss() {
	p.open--
	if p.open == 0 && p.rest != nil {
		close(p.rest)
		p.rest = nil
	}
}

// runsUnder reports whether a task of the pool runs under ctx.
func (p *Pool) runsUnder(ctx context.Context) bool {
	t, ok := ctx.Value(taskOf{p}).(*Task)
	if !ok {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return t.phase == runs
}

// taskContext is the context of a task, and in addition has the task as a value, for
// Wait to find. It is the Task itself because any other value would cost an allocation
// for each attempt.
type taskContext Task

// taskOf is the key under which the context of an attempt has the task. It names the
// pool because a task may run under the context of another pool's task.
type taskOf struct{ pool *Pool }

func (c *taskContext) Deadline() (time.Time, bool) { return c.ctx.Deadline() }

func (c *taskContext) Done() <-chan struct{} { return c.ctx.Done() }

func (c *taskContext) Err() error { return c.ctx.Err() }

func (c *taskContext) Value(key any) any {
	if key == any(taskOf{c.pool}) {
		return (*Task)(c)
	}
	return c.ctx.Value(key)
}

// Package context calls AfterFunc if the task's context is of a type that it does not
// know. That type may have the method too.
func (c *taskContext) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(c.ctx, f) }
