package retrytable

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// job returns the job of a row. If there is no policy for its kind, that is reported.
func (s *shift[ID]) job(row Row[ID]) (*Job[ID], error) {
	p, err := s.Policy.For(row.Kind, s.PolicyFor)
	job := &Job[ID]{Row: row, policy: cmp.Or(p, &retry.Policy{}), leave: func() {}}
	if err != nil {
		s.reportOf(job, err)
	}
	return job, err
}

// work handles a claimed job, whose lease does not end before ends. It may call leave when
// the work is done, and its outcome cannot be stored.
func (s *shift[ID]) work(ctx context.Context, row Row[ID], ends time.Time, leave func()) {
	job, err := s.job(row)
	job.leave = leave
	o := &Outcome[ID]{Job: job, Err: err, Released: true, Decision: retry.Decision{Delay: s.lease}}
	switch {
	case ctx.Err() != nil:
		o.Err, o.Decision.Delay = context.Cause(ctx), 0
	case err == nil:
		o, ends = s.attempt(job, ends)
	}
	if o != nil {
		s.settle(o, ends, storing)
	}
}

// attempt does a job once under its lease. There is no outcome if the lease was lost.
func (s *shift[ID]) attempt(job *Job[ID], ends time.Time) (*Outcome[ID], time.Time) {
	ctx, cancel := context.WithCancelCause(s.working)
	defer cancel(nil)
	stop := func() time.Time { return ends }
	defer func() { stop() }() // also in runtime.Goexit
	before := s.granted(job)
	o := &Outcome[ID]{Job: job, stored: retry.Stored{Policy: job.policy, State: before, Now: job.Now}}
	one := &o.stored
	outcome := one.Attempt(stopping{ctx}, func(ctx context.Context) error {
		stop = s.beat(job.Lease, ends, cancel)
		return s.Work(ctx, job)
	})
	switch o.Err = cmp.Or(one.Err, one.Decision.Err); {
	case outcome == retry.Handed:
		o.Released = true
	case outcome == retry.Refused && s.statements.columns.Pending == "": // its wait cannot grow
		o.Released, o.Decision.Delay = true, s.lease
	default:
		o.Decision = one.Decision
		if after := &o.Decision.State; after.Failures == before.Failures { // it costs nothing
			after.Failures = job.State.Failures
		}
	}
	if outcome == retry.Refused {
		s.reportOf(job, o.Err)
	}
	if panicked, ok := o.Err.(*retry.PanicError); ok && panicked.In != "" { //nolint:errorlint // of the policy itself
		s.reportOf(job, panicked)
	}
	if cause := context.Cause(ctx); o.Err != nil && errors.Is(cause, ErrLeaseLost) {
		s.reportOf(job, cause)
		return nil, stop()
	}
	return o, stop()
}

// granted is the state before an attempt. In a table that counts retries, a row that is due
// has been granted its attempt, also if the limit is lower now or the row was made ready by
// hand.
func (s *shift[ID]) granted(job *Job[ID]) retry.State {
	state := job.State
	if s.statements.columns.Retries == "" {
		return state
	}
	if d, exhausted := job.policy.Exhausted(state, job.Now()); exhausted && d.Stop == retry.StopAttempts {
		state.Failures = d.Limit - 1
	}
	return state
}

// stopping is a context whose deadline limits no attempt, but stops the worker.
type stopping struct{ context.Context }

// Deadline implements [context.Context].
func (stopping) Deadline() (at time.Time, ok bool) { return at, false }

// Err implements [context.Context].
func (c stopping) Err() error {
	if c.Context.Err() != nil {
		return context.Canceled
	}
	return nil
}

// failed is the outcome of a failure beside the work. A panic of a function of the policy
// ends the job, as in an attempt.
func (s *shift[ID]) failed(job *Job[ID], err error) *Outcome[ID] {
	o := &Outcome[ID]{Job: job, Err: err, stored: retry.Stored{Policy: job.policy, Now: job.Now}}
	panicked := s.guarded(job, "a function of the Policy", func() error {
		o.Decision = job.policy.Next(job.State, err, job.Now())
		return nil
	})
	if panicked != nil {
		o.Err = retry.MarkFinal(panicked)
		o.Decision = new(retry.Policy).Next(job.State, o.Err, job.Now())
	}
	return o
}
