package retrytable

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/aftercommit"
	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

// Job is what a [Worker] works on: a claimed row. Its methods are for Work, and are not
// safe for concurrent use.
type Job[ID any] struct {
	Row[ID]

	// Data is for what Work wants FinishArgs, InTx and After to know. It is not stored.
	Data any

	policy  *retry.Policy // for its kind
	quota   retry.Pacer   // of its key, if the policy has none
	turn    retry.Turn    // of the attempt, if it was taken before the claim
	place   chan struct{} // has its place of the Concurrency; nil if it has none any more
	status  string
	effects []func(context.Context, *sql.Tx) error
}

// Attempt returns the number of this attempt; the first has number 1. Attempts that do
// not count towards MaxAttempts are included.
func (j *Job[ID]) Attempt() int { return j.State.Attempts() + 1 }

// SucceedAs sets the status with which the job ends if Work returns nil: one of
// Statuses.Done. Any other word is reported to OnError, and the job is not finished.
func (j *Job[ID]) SucceedAs(word string) { j.status = word }

// InTx adds fn to the transaction that ends the job if Work returns nil, after the
// functions that were added before: either all of them take effect and the job is done,
// or nothing takes effect. fn runs again if the transaction is repeated, so it must do
// nothing outside of the transaction.
//
// An error of fn is a failure of the attempt, about which the policy decides. A
// constraint that refuses the commit is such a failure too. But if the error is Retryable
// or RateLimited, the transaction is repeated for as long as the lease holds.
// [retry.Classify] and package retrysql decide that: a lost connection, a deadlock and a
// serialization failure are such errors. Return the errors of statements: in MySQL,
// statements after a deadlock are in no transaction any more.
//
// retrysql.AfterCommit, with the ctx of fn, calls a function once all that is stored.
//
// The whole transaction has half of the rest of the lease: with the default
// Heartbeat, a third of Table.Lease. fn should pass its ctx to every statement.
func (j *Job[ID]) InTx(fn func(ctx context.Context, tx *sql.Tx) error) {
	j.effects = append(j.effects, fn)
}

// Outcome is how an attempt ended.
type Outcome[ID any] struct {
	Job *Job[ID]

	// Err is nil if the job is done. Otherwise it is the error of Work, or
	// [retry.ErrLost], or the Decision's Err if the job was not run again because no
	// attempt was left.
	Err error

	// Decision is what the policy has decided about Err.
	Decision retry.Decision

	// Released says that the job was given back: because the Worker has to stop, because
	// there is no policy for its kind, see Worker.PolicyFor, because its turn has not come, see
	// Policy.Quota, or because its attempt could not start or found nothing yet and the table has
	// no Columns.Pending, see [retryjob.MarkNotStarted] and [retry.MarkPending]: such a job ends by
	// MaxElapsed or Timeout, if the table has Columns.First. Err is the reason, and of the
	// Decision only the Delay is set.
	Released bool

	unstarted bool               // given back because its attempt could not start, or found nothing yet
	text      any                // of a failure, for Columns.Error
	stored    retryjob.Stored    // what the Observer is told when it is stored
	hooks     *aftercommit.Hooks // of the last transaction
}

// leave gives back the place of a job. Only its own goroutine calls it.
func (j *Job[ID]) leave() {
	if j.place != nil {
		<-j.place
		j.place = nil
	}
}

var zeroPolicy = &retry.Policy{}

// equip gives a job its policy and its Quota, which are those of from if its turn was taken there.
// If there is no policy for its kind, that is reported.
func (s *shift[ID]) equip(job *Job[ID], from *turns) (err error) {
	if from != nil && from.owner != nil && !from.owner.Key {
		job.policy = from.policy
	} else {
		job.policy, err = retryjob.PolicyFor(job.Kind, s.Policy, s.PolicyFor)
	}
	job.policy = cmp.Or(job.policy, zeroPolicy)
	switch {
	case err != nil || from == nil || job.policy.Quota != nil || s.QuotaFor == nil:
	case from.owner != nil:
		job.quota = from.quota
	default:
		err = engine.Guard("QuotaFor", func() error { job.quota = s.QuotaFor(job.Key); return nil })
	}
	if err != nil {
		s.reportOf(job, err)
	}
	return err
}

// running is the part that does jobs.
type running[ID any] struct {
	*storing[ID]

	working context.Context // of the work: canceled in the second stage of stopping
	cancel  context.CancelCauseFunc
	limits  limits // that have jobs wait for turns

	heart   heart // of the leases of jobs at work
	hearts  sync.WaitGroup
	beating context.Context // done when there are no more jobs
}

// running prepares the part, whose context is that of Run.
func (s *storing[ID]) running(ctx context.Context) *running[ID] {
	r := &running[ID]{storing: s, working: s.ctx}
	if s.Grace == 0 { // at the same moment, and not by way of a goroutine
		r.working = ctx
	}
	r.working, r.cancel = context.WithCancelCause(r.working)
	return r
}

// attend cancels the work when ctx is done and the grace is over. leave ends that, and waits
// for all goroutines.
func (s *running[ID]) attend(ctx context.Context) (leave func()) {
	var attendant sync.WaitGroup
	attending, stop := context.WithCancel(s.ctx)
	s.beating = attending
	attendant.Go(func() {
		select {
		case <-ctx.Done():
			sleep(attending, s.Grace)
			s.cancel(context.Cause(ctx))
		case <-attending.Done():
		}
	})
	return func() {
		stop()
		attendant.Wait()
		s.gathering.wait()
		s.hearts.Wait()
		s.cancel(nil)
	}
}

// work handles a claimed job, which has a place.
func (s *running[ID]) work(ctx context.Context, c *claimed[ID], place chan struct{}) {
	job := &Job[ID]{Row: c.Row, turn: c.turn, place: place}
	defer job.leave()
	err := s.equip(job, c.of)
	keyed := c.of.owner != nil && c.of.owner.Key
	if err != nil || ctx.Err() != nil || keyed && job.quota == nil { // its kind has a Quota
		s.giveBack(c.of, c.turn, 1)
		job.turn = 0
	}
	var o *Outcome[ID]
	ends := c.ends
	switch {
	case ctx.Err() != nil:
		o = &Outcome[ID]{Job: job, Err: context.Cause(ctx), Released: true}
	case err != nil:
		o = &Outcome[ID]{Job: job, Err: err, Released: true, Decision: retry.Decision{Delay: s.lease}}
	default:
		o, ends = s.attempt(job, ends)
	}
	if o != nil {
		s.settle(o, ends, untilLeaseEnds)
	}
}

// attempt does a job once under its lease. There is no outcome if the lease was lost.
func (s *running[ID]) attempt(job *Job[ID], ends time.Time) (*Outcome[ID], time.Time) {
	ctx, cancel := context.WithCancelCause(s.working)
	defer cancel(nil)
	stopBeat := func() time.Time { return ends }
	defer func() { stopBeat() }() // also in runtime.Goexit
	before := s.granted(job)
	o := &Outcome[ID]{Job: job, stored: retryjob.Stored{Policy: job.policy, State: before, Quota: job.quota, Turn: job.turn, Now: job.Now}}
	one := &o.stored
	result := one.Attempt(stopping{ctx}, func(ctx context.Context) error {
		stopBeat = s.beat(ctx, job, ends, cancel)
		return s.Work(ctx, job)
	})
	switch o.Err = cmp.Or(one.Err, one.Decision.Err); {
	case result == retryjob.Handed:
		if o.Released = true; one.Cause == retryjob.Held {
			o.Decision.Delay = s.limited(job, one.Decision.Delay)
		}
	case s.statements.Columns.Pending == "" && (result == retryjob.Refused || result == retryjob.Again && one.State.Pending > 0):
		// Its wait cannot grow.
		o.Released, o.unstarted, o.Decision.Delay = true, true, s.lease
	default:
		o.Decision = one.Decision
		if after := &o.Decision.State; after.Failures == before.Failures { // it costs nothing
			after.Failures = job.State.Failures
		}
	}
	switch {
	case result == retryjob.Refused:
		s.reportOf(job, o.Err)
	case o.unstarted:
		s.reportOf(job, fmt.Errorf("pending, and the table has no column for that: name one in Columns.Pending: due in %v: %w", s.lease, o.Err))
	}
	if panicked, ok := o.Err.(*retry.PanicError); ok && panicked.In != "" { //nolint:errorlint // of the policy itself
		s.reportOf(job, panicked)
	}
	if cause := context.Cause(ctx); o.Err != nil && errors.Is(cause, ErrLeaseLost) {
		s.reportOf(job, cause)
		return nil, stopBeat()
	}
	return o, stopBeat()
}

// granted is the state before an attempt. In a table that counts retries, a row that is due
// has been granted its attempt, also if the limit is lower now or the row was made ready by
// hand.
func (s *running[ID]) granted(job *Job[ID]) retry.State {
	state := job.State
	if s.statements.Columns.Retries == "" {
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
