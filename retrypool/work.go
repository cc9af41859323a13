package retrypool

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/done"
)

var errGoexit = retry.MarkFinal(errors.New("retrypool: task called runtime.Goexit"))

// enlist makes a task ready, and sees to a worker. The lock is held.
func (p *Pool) enlist(t *Task) {
	t.phase = queued
	p.ready.push(t)
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
	for {
		t, ctx, cancel := p.next()
		if t == nil {
			break
		}
		p.attempt(ctx, cancel, t)
	}
	finished = true
}

// next returns the task to run now and a context for that, or nil if the worker
// may go.
func (p *Pool) next() (*Task, context.Context, context.CancelFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ready.first() == nil {
		p.workers--
		p.leave()
		return nil, nil, nil
	}
	t := p.ready.pop()
	t.phase = runs
	p.vacate(t)
	ctx, cancel := context.WithCancel(t.ctx)
	p.running[t] = cancel
	return t, ctx, cancel
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

// attempt runs a task once. Its ctx is a child of the task's, for Close to cancel.
//
//nolint:contextcheck // so there are two of them
func (p *Pool) attempt(ctx context.Context, cancel context.CancelFunc, t *Task) {
	defer cancel()
	switch {
	case done.Is(t.ctx):
		p.interrupt(t)
		return
	case done.Is(ctx): // Close wants it back
		p.again(t, time.Time{}, 0)
		return
	}
	policy := p.policy()
	var now time.Time // is asked for only if somebody wants to know
	if t.state.First.IsZero() && (policy.MaxElapsed > 0 || policy.Observer != nil) {
		now = policy.Now()
	}
	t.begins(now)
	attemptCtx, release := policy.AttemptContext(ctx)
	err := errGoexit
	defer func() { // also in runtime.Goexit
		if r := recover(); r != nil {
			err = &PanicError{r, debug.Stack()}
		}
		timedOut := done.Is(attemptCtx) && !done.Is(ctx)
		halted := done.Is(ctx) && !done.Is(t.ctx)
		release()
		p.settle(t, err, timedOut, halted)
	}()
	err = t.fn(attemptCtx)
}

// settle decides what follows an attempt: nothing, or another one. halted says
// that Close has canceled it.
func (p *Pool) settle(t *Task, err error, timedOut, halted bool) {
	if err == nil {
		p.succeed(t)
		return
	}
	var d retry.Decision
	var now time.Time
	if !p.guard(t, func() {
		var v retry.Verdict
		if !done.Is(t.ctx) { // which is asked first, and then the error is not
			v = p.classify(err, timedOut)
		}
		halted = halted && (v.Class != retry.Final || v.Category == "canceled") && !p.policy().NonIdempotent
		if halted {
			return
		}
		now = p.policy().Now()
		d = p.policy().DecideContext(t.ctx, t.state, v, now)
		t.failed(d.State, err)
		if d.Retry {
			p.observe(t, retry.Event{Kind: retry.Retrying, Delay: d.Delay, Verdict: d.Verdict, Err: err}, now)
		}
	}) {
		return
	}
	switch {
	case halted: // as if it had not been run
		t.failed(t.state, err)
		p.again(t, now, 0)
	case d.Retry:
		p.again(t, now, d.Delay)
	case d.Stop == retry.StopFinal:
		p.giveUp(t, err, d, now)
	default:
		after := d.Verdict.After
		if d.Stop == retry.StopBudget {
			after = d.Delay
		}
		p.giveUp(t, t.gaveUp(d.Stop, after), d, now)
	}
}

// classify is [retry.Policy.Classify] for an attempt whose own timeout may have
// ended it.
func (p *Pool) classify(err error, timedOut bool) retry.Verdict {
	policy := p.policy()
	if timedOut {
		q := *policy
		q.Classifier = retry.Chain(policy.Classifier, func(error) retry.Verdict {
			return retry.Verdict{Class: retry.Retryable, Category: "timeout"}
		})
		policy = &q
	}
	return policy.Classify(err)
}

func (p *Pool) succeed(t *Task) {
	if p.guard(t, func() {
		policy := p.policy()
		if policy.Budget == nil && policy.Observer == nil {
			return
		}
		now := policy.Now()
		if policy.Budget != nil {
			policy.Budget.Deposit(now)
		}
		p.observe(t, retry.Event{Kind: retry.Succeeded}, now)
	}) {
		p.end(t, nil)
	}
}

// interrupt ends a task whose context has ended.
func (p *Pool) interrupt(t *Task) {
	e := t.interrupted()
	p.giveUp(t, e, retry.Decision{Stop: e.Stop}, p.policy().Now())
}

func (p *Pool) giveUp(t *Task, err error, d retry.Decision, now time.Time) {
	if p.guard(t, func() {
		p.observe(t, retry.Event{Kind: retry.GaveUp, Verdict: d.Verdict, Stop: d.Stop, Err: err}, now)
	}) {
		p.end(t, err)
	}
}

// observe tells the Observer.
func (p *Pool) observe(t *Task, e retry.Event, now time.Time) {
	policy := p.policy()
	if policy.Observer == nil {
		return
	}
	e.Policy, e.Attempt = policy.Name, t.attempts()
	if !t.state.First.IsZero() {
		e.Elapsed = max(now.Sub(t.state.First), 0)
	}
	policy.Observer.Observe(t.ctx, e)
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
			p.end(t, err)
		}
	}()
	fn()
	return true
}

// end ends a task.
func (p *Pool) end(t *Task, err error) {
	p.mu.Lock()
	delete(p.running, t)
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
	}()
	if p.OnEnd != nil {
		p.OnEnd(t.ctx, t)
	}
}
