package retrypool

import (
	"context"
	"errors"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/sat"
)

var errNotLeft = errors.New("retrypool: only a task that Close has returned can be resumed, and only once")

// ResumeTask continues a task that [Pool.Close] of another pool has returned: with its
// function, its context and its state, when it is due, without a place in the queue. It
// returns the task of this pool; the old task has ended.
//
// It returns the errors of [Pool.Resume]. After an error the old task may be given to
// yet another pool. After a success ResumeTask refuses it, so that no task runs twice.
func (p *Pool) ResumeTask(left *Task) (*Task, error) {
	var fn func(context.Context) error
	if left != nil && left.pool != nil {
		fn = left.take()
	}
	if fn == nil {
		return nil, errNotLeft
	}
	t, err := p.newTask(left.ctx, fn)
	if err == nil {
		now := p.Policy.Now()
		err = p.readmit(t, left.handOver(t, now), now)
	}
	if err != nil {
		left.putBack(fn)
		return nil, err
	}
	return t, nil
}

// readmit takes a task that has its state, and is due at a time.
func (p *Pool) readmit(t *Task, at, now time.Time) error {
	if d, exhausted := p.Policy.Exhausted(t.state, now); exhausted {
		return d.Err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	t.started = true
	p.admit(t)
	p.postpone(t, now, at.Sub(now))
	return nil
}

// take takes the function out of a task that was handed back. It returns nil if there is
// none: the task has not ended, has ended otherwise, or was resumed before.
func (t *Task) take() func(context.Context) error {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	if t.phase < ended {
		return nil
	}
	fn := t.fn
	t.fn = nil
	return fn
}

// putBack undoes take.
func (t *Task) putBack(fn func(context.Context) error) {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	t.fn = fn
}

// handOver copies to next what is known about a task that was handed back, and returns
// when it is due.
func (t *Task) handOver(next *Task, now time.Time) (at time.Time) {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	next.state, next.waited = t.state, t.waited
	if failed := (*closedError)(nil); errors.As(t.err, &failed) {
		next.err = failed.last
	}
	if !t.at.IsZero() { // of its wait, the next pool counts what is left
		next.waited = sat.Add(next.waited, t.delay-max(t.at.Sub(now), 0))
	}
	return t.at
}
