package retrypool

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/done"
	"github.com/seed-5ff3c98e/retry/internal/sat"
)

// Task is a function that was submitted to a [Pool]. Its methods are safe for
// concurrent use.
type Task struct {
	pool *Pool
	ctx  context.Context //nolint:containedctx // a task outlives the call that submits it
	fn   func(context.Context) error

	number uint64 // in the order of submission
	watch  *watch // of its context, while it waits; nil if the context cannot end
	seat   uint32 // in its watch
	place  uint32 // in the agenda; 32 bits are enough, and a waiting task stays small
	over   func() // tells the Observer that it waits no more; nil if nobody wants to know

	// Written under the pool's lock. While the task runs, only its worker writes.
	phase   phase
	started bool // it has left its place in the queue
	begun   bool // an attempt has begun that state does not count yet
	turn    retry.Turn
	state   retry.State
	at      time.Time     // when it is due; zero if it does not wait
	delay   time.Duration // how long it waits until then
	waited  time.Duration // the sum of the waits before
	err     error         // the last failure; the result once it has ended
	done    chan struct{} // nil until Done or Wait needs it
}

// phase is the current phase of a task.
type phase uint8

const (
	queued phase = iota
	waits
	runs
	ended
	reported // OnEnd has returned
)

// Done returns a channel that is closed when the task has ended, and OnEnd has
// returned.
func (t *Task) Done() <-chan struct{} {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	if t.done == nil {
		t.done = make(chan struct{})
		if t.phase == reported {
			close(t.done)
		}
	}
	return t.done
}

// Err returns how the task has ended: nil after a success, the error of fn as it
// is if that is Final, a [*retry.PanicError], an [*retry.Error], or an error that is
// [ErrClosed] if Close has handed the task back. If OnEnd panicked, the error is also a
// [*retry.PanicError], even after a success. It is nil before the end, too.
func (t *Task) Err() error {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	if t.phase < ended {
		return nil
	}
	return t.err
}

// Wait waits until the task has ended, and returns its error. If ctx is done
// first, it returns the cause of ctx.
func (t *Task) Wait(ctx context.Context) error {
	ctx = orBackground(ctx)
	end := t.Done()
	select {
	case <-end:
	case <-ctx.Done():
		if !done.Closed(end) {
			return context.Cause(ctx)
		}
	}
	return t.Err()
}

// Attempts returns the number of calls of the task's function since it last made
// progress, in all pools, like Attempts of a [retry.Error]: the call in progress counts,
// and calls that ended in a free rate limit count too. A call that Close has canceled to
// hand the task back does not count: the Attempts of such a task are the sum of Failures,
// RateLimited and Pending of its [Task.State].
func (t *Task) Attempts() int {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	return t.attempts()
}

// State returns the state of the task, and when it is due. [Pool.Resume] takes
// both, also in another process. The time is zero if the task did not wait.
func (t *Task) State() (retry.State, time.Time) {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	return t.state, t.at.Round(0)
}

// call returns a Call in the current state of the task, for its next attempt or
// its end.
func (t *Task) call() retry.Call {
	return retry.Call{Policy: t.pool.Policy, State: t.state, Last: t.err, Waited: t.waited, Turn: t.turn}
}

// attempts is Attempts with the lock held, or for the task's worker.
func (t *Task) attempts() int {
	n := t.state.Attempts()
	if t.begun && n < math.MaxInt {
		n++
	}
	return n
}

// closedError is the error of a task that was handed back after a failure.
type closedError struct{ last error }

func (e *closedError) Error() string {
	return fmt.Sprintf("%v; the last failure: %v", ErrClosed, e.last)
}

func (e *closedError) Unwrap() []error { return []error{ErrClosed, e.last} }

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
