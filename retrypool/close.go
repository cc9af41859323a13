package retrypool

import (
	"cmp"
	"context"
	"slices"

	"github.com/seed-5ff3c98e/retry/internal/done"
)

// Close ends the pool: no task is taken any more, those in the queue are run, and
// those that wait for a retry, now or later, are handed back at once. When ctx
// ends before all that is done, what is still in the queue is handed back too, and
// the attempts in progress are canceled. Close returns when they have returned, so
// it waits for a function that ignores its context.
//
// What is handed back has ended for this pool, with an error that is [ErrClosed].
// [Task.State] has what [Pool.Resume] needs to go on, in another process if it has
// to be. An attempt that fails after Close has canceled its context does not count,
// whatever its error, unless it panics, the error is marked as Final, or the policy is
// NonIdempotent.
//
// The tasks come in order of submission. The error is the cause of ctx if it has
// ended before the queue was empty. Each task is handed back by one Close, if there
// are several.
func (p *Pool) Close(ctx context.Context) ([]*Task, error) {
	p.once.Do(p.init)
	ctx = orBackground(ctx)
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.shut)
	}
	left := p.takeBack(&p.waiting)
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
	p.mu.Unlock()
	slices.SortFunc(left, func(a, b *Task) int { return cmp.Compare(a.number, b.number) })
	return left, err
}

// halt stops what goes on.
func (p *Pool) halt() []*Task {
	p.mu.Lock()
	p.halted = true
	left := p.takeBack(&p.ready)
	for _, cancel := range p.running {
		cancel()
	}
	p.mu.Unlock()
	p.reportAll(left)
	return left
}

// takeBack empties a queue. The lock is held.
func (p *Pool) takeBack(q *queue) []*Task {
	left := q.tasks
	q.tasks = nil
	for _, t := range left {
		p.handBack(t)
	}
	return left
}

// handBack ends a task that somebody else is to go on with. The lock is held, and
// report has to follow.
func (p *Pool) handBack(t *Task) {
	p.unwatch(t)
	p.vacate(t)
	t.phase, t.err, t.fn = ended, t.closedError(), nil
}

func (p *Pool) reportAll(tasks []*Task) {
	for _, t := range tasks {
		p.report(t)
	}
}

// untilIdle returns a channel that is closed when no goroutine is left. The lock
// is held.
func (p *Pool) untilIdle() <-chan struct{} {
	if p.goroutines == 0 {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	if p.idle == nil {
		p.idle = make(chan struct{})
	}
	return p.idle
}
