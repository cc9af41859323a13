package retrypool

import (
	"cmp"
	"context"
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
