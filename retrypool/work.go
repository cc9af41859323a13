package retrypool

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/seed-5ff3c98e/retry"
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
	for t := p.next(); t != nil; t = p.next() {
		p.attempt(t)
	}
	finished = true
}

// next returns the task to run now, or nil if the worker may go.
func (p *Pool) next() *Task {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ready.first() == nil {
		p.workers--
		p.leave()
		return nil
	}
	t := p.ready.pop()
	t.phase = runs
	p.vacate(t)
	return t
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

// attempt runs a task once.
func (p *Pool) attempt(t *Task) {
	if done(t.ctx) {
		p.giveUp(t, t.interrupted())
		return
	}
	ctx, cancel := context.WithCancel(t.ctx)
	if !p.start(t, cancel) {
		cancel()
		return
	}
	attemptCtx, release := p.policy().AttemptContext(ctx)
	err := errGoexit
	defer func() { // also in runtime.Goexit
		if r := recover(); r != nil {
			err = &PanicError{r, debug.Stack()}
		}
		timedOut := done(attemptCtx) && !done(ctx)
		halted := done(ctx) && !done(t.ctx)
		release()
		cancel()
		p.settle(t, err, timedOut, halted)
	}()
	err = t.fn(attemptCtx)
}

// start notes that a task runs, unless Close wants it back.
func (p *Pool) start(t *Task, cancel context.CancelFunc) bool {
	policy, first := p.policy(), t.state.First
	if first.IsZero() && (policy.MaxElapsed > 0 || policy.Observer != nil) {
		first = policy.Now()
	}
	p.mu.Lock()
	if !p.halted {
		t.state.First = first
		p.running[t] = cancel
		p.mu.Unlock()
		return true
	}
	p.handBack(t)
	p.left = append(p.left, t)
	p.mu.Unlock()
	p.finish(t)
	return false
}

// settle decides what follows an attempt: nothing, or another one. halted says
// that Close has canceled it.
func (p *Pool) settle(t *Task, err error, timedOut, halted bool) {
	p.mu.Lock()
	delete(p.running, t)
	p.mu.Unlock()
	if err == nil {
		p.succeed(t)
		return
	}
	var d retry.Decision
	var now time.Time
	if problem := contain(func() {
		v := p.classify(err, timedOut)
		halted = halted && (v.Class != retry.Final || v.Category == "canceled") && !p.policy().NonIdempotent
		if halted {
			return
		}
		now = p.policy().Now()
		d = p.policy().DecideContext(t.ctx, t.state, v, now)
		t.failed(d.State, err)
		if d.Retry {
			p.observe(t, retry.Event{Kind: retry.Retrying, Delay: d.Delay, Verdict: v, Err: err}, now)
		}
	}); problem != nil {
		p.end(t, problem)
		return
	}
	switch {
	case halted: // as if it had not been run
		t.failed(t.state, err)
		p.again(t, now, 0)
	case d.Retry:
		p.again(t, now, d.Delay)
	case d.Stop == retry.StopFinal:
		p.giveUpOn(t, err, d, now)
	default:
		after := d.Verdict.After
		if d.Stop == retry.StopBudget {
			after = d.Delay
		}
		p.giveUpOn(t, t.gaveUp(d.Stop, after), d, now)
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
	problem := contain(func() {
		policy := p.policy()
		if policy.Budget == nil && policy.Observer == nil {
			return
		}
		now := policy.Now()
		if policy.Budget != nil {
			policy.Budget.Deposit(now)
		}
		p.observe(t, retry.Event{Kind: retry.Succeeded, Attempt: 1}, now)
	})
	p.end(t, problem)
}

// giveUp ends a task whose context has ended.
func (p *Pool) giveUp(t *Task, e *retry.Error) {
	p.giveUpOn(t, e, retry.Decision{Stop: e.Stop}, p.policy().Now())
}

func (p *Pool) giveUpOn(t *Task, err error, d retry.Decision, now time.Time) {
	if problem := contain(func() {
		p.observe(t, retry.Event{Kind: retry.GaveUp, Verdict: d.Verdict, Stop: d.Stop, Err: err}, now)
	}); problem != nil {
		err = problem
	}
	p.end(t, err)
}

// observe tells the Observer. Attempt is what has to be added to the failures.
func (p *Pool) observe(t *Task, e retry.Event, now time.Time) {
	policy := p.policy()
	if policy.Observer == nil {
		return
	}
	e.Policy = policy.Name
	e.Attempt += t.attempts()
	if !t.state.First.IsZero() {
		e.Elapsed = max(now.Sub(t.state.First), 0)
	}
	policy.Observer.Observe(t.ctx, e)
}

// contain runs a function of the caller's, and returns its panic.
func contain(fn func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &PanicError{r, debug.Stack()}
		}
	}()
	fn()
	return nil
}

// end ends a task.
func (p *Pool) end(t *Task, err error) {
	p.mu.Lock()
	t.phase, t.err, t.fn = ended, err, nil
	p.mu.Unlock()
	p.finish(t)
}

// finish tells those who wait for the end of a task.
func (p *Pool) finish(t *Task) {
	if p.OnEnd != nil {
		p.OnEnd(t.ctx, t)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t.over = true
	if t.done != nil {
		close(t.done)
	}
}
