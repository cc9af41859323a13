package retrytable

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Job is what a [Worker] works on: a claimed row. Its methods are for Work, and are not
// safe for concurrent use.
type Job[ID any] struct {
	Row[ID]

	// Data is for what Work wants FinishArgs, InTx and After to know. It is not stored.
	Data any

	status  string
	effects []func(context.Context, *sql.Tx) error
}

// Attempt returns the number of this attempt; the first has number 1. Attempts that cost
// none of the policy's count.
func (j *Job[ID]) Attempt() int { return attempts(j.State) + 1 }

// SucceedAs has the job end, if Work returns nil, with another word for the status, one
// of Statuses.Done. Any other is reported to OnError, and the job is not finished.
func (j *Job[ID]) SucceedAs(word string) { j.status = word }

// InTx has fn run if Work returns nil, in the transaction that ends the job, after what
// was given to InTx before: either all of it takes effect and the job is done, or
// nothing and it is not. fn runs again if the transaction has to be repeated, so it must
// do nothing outside of it.
//
// An error of fn is a failure of the attempt, about which the policy decides, and so is a
// constraint that refuses the commit. Only if the error is one that passes, the transaction
// is repeated instead, for as long as the lease holds: if it is Retryable or RateLimited by
// [retry.Classify], or by what package retrysql knows about databases, as a lost
// connection, a deadlock or a serialization failure is. Return the errors of statements: in
// MySQL, those that follow a deadlock are in no transaction any more.
//
// All of it together has half of the time that is left of the lease: with the default
// Heartbeat, a third of Table.Lease. fn should pass its ctx to every statement.
func (j *Job[ID]) InTx(fn func(ctx context.Context, tx *sql.Tx) error) {
	j.effects = append(j.effects, fn)
}

// Outcome is how an attempt ended.
type Outcome[ID any] struct {
	Job *Job[ID]

	// Err is nil if the job is done. Otherwise it is what Work has returned, or
	// [retry.ErrLost], or the Decision's Err if the job was not run again because no
	// attempt was left.
	Err error

	// Decision is what the policy has decided about Err.
	Decision retry.Decision

	// Released says that the job was given back, because the Worker has to stop. Err is
	// then why, and nothing was decided.
	Released bool
}

// work sees to a claimed job, whose lease ends then at the earliest.
//
//nolint:contextcheck // what is stored is not canceled
func (s *shift[ID]) work(ctx context.Context, row Row[ID], ends time.Time) {
	job := &Job[ID]{Row: row}
	s.guarded(job, func() {
		if ctx.Err() != nil {
			s.settle(&Outcome[ID]{Job: job, Err: context.Cause(ctx), Released: true}, ends, storing)
			return
		}
		if d, exhausted := s.policy.Exhausted(row.State, row.Now()); exhausted {
			s.settle(&Outcome[ID]{Job: job, Err: d.Err, Decision: d}, ends, storing)
			return
		}
		if o, ends := s.attempt(job, ends); o != nil {
			s.settle(o, ends, storing)
		}
	})
}

// guarded calls fn, which sees to a job, and reports if a function of the policy panics in
// it. Nothing is stored then: the lease runs out.
func (s *shift[ID]) guarded(job *Job[ID], fn func()) {
	err := guard("a function of the Policy", func() error {
		fn()
		return nil
	})
	if err != nil {
		s.report(fmt.Errorf("retrytable: job %v: %w", job.ID, err))
	}
}

// attempt does a job once under its lease. There is no outcome if the lease was lost.
func (s *shift[ID]) attempt(job *Job[ID], ends time.Time) (*Outcome[ID], time.Time) {
	ctx, cancel := context.WithCancelCause(s.working)
	defer cancel(nil)
	stop := s.beat(job.Lease, ends, cancel)
	defer stop() // also in runtime.Goexit
	policy := s.policyFor(job)
	call := retry.Call{Policy: &policy, State: job.State, Stored: true}
	defer call.Abort()
	o := &Outcome[ID]{Job: job}
	if !call.Begin(ctx) {
		o.Err, o.Released = cmp.Or(call.Err(), context.Cause(ctx)), true
		return o, stop()
	}
	o.Err = guard("work", func() error { return s.Work(call.Context(), job) })
	if cause := context.Cause(ctx); o.Err != nil && errors.Is(cause, ErrLeaseLost) {
		s.report(fmt.Errorf("retrytable: job %v: %w", job.ID, cause))
		return nil, stop()
	}
	reason := o.Err
	if _, panicked := o.Err.(*PanicError); panicked { //nolint:errorlint // made here
		reason = retry.MarkFinal(o.Err) // is never what the cancellation has made of the work
	}
	if o.Released = call.Interrupted(reason); !o.Released {
		o.Decision = call.End(o.Err)
	}
	return o, stop()
}

// policyFor returns the policy for one attempt: in the time of the database, without a
// budget, and with an observer of attempts alone, because the outcome is told when it is
// stored.
func (s *shift[ID]) policyFor(job *Job[ID]) retry.Policy {
	p := *s.policy
	p.Budget = nil
	p.Clock = &rowClock{p.Clock, job.Now}
	if seer, ok := p.Observer.(attemptObserver); ok {
		p.Observer = attemptsOnly{seer}
	} else {
		p.Observer = nil
	}
	return p
}

// attemptObserver is an observer of attempts; see [retry.Observer].
type attemptObserver interface {
	Attempt(ctx context.Context, n int) (context.Context, func(error))
}

type attemptsOnly struct{ attemptObserver }

// Observe implements [retry.Observer].
func (attemptsOnly) Observe(context.Context, retry.Event) {}

// rowClock is a clock on which it is as late as in the database.
type rowClock struct {
	clock retry.Clock // nil for that of the system
	now   func() time.Time
}

// Now implements [retry.Clock].
func (c *rowClock) Now() time.Time { return c.now() }

// After implements [retry.Clock]. Nobody waits by it.
func (c *rowClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// AttemptContext limits an attempt as the clock of the policy does; see [retry.Clock].
func (c *rowClock) AttemptContext(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if timer, ok := c.clock.(interface {
		AttemptContext(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
	}); ok {
		return timer.AttemptContext(ctx, d)
	}
	return context.WithTimeout(ctx, d)
}
