package retrytable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Worker works on the jobs of a [Table] until it is told to stop:
//
//	w := &retrytable.Worker[int64]{Table: jobs, DB: db, Policy: policy, Work: work}
//	err := w.Run(ctx)
//
// It claims what is due, asks [retry.Policy.Exhausted], calls Work, extends the lease
// meanwhile, and stores how that ended as the Policy decides. It also takes over the
// jobs of workers that died, whose attempt has failed with [retry.ErrLost].
//
// A literal with a Table, a DB and Work is ready to use; [Worker.Run] reports what is
// wrong with it. Any number of Workers, in any number of processes, may work on the
// same table. The fields must not be changed while Run or Once is running.
//
// # Storing what happened
//
// When an attempt has ended, that is stored until it succeeds or the lease ends: an
// outage of the database that is shorter than two thirds of the lease does not repeat
// work that is done. The fence makes it safe to store it twice. With [Job.InTx], or the
// field InTx, other writes are committed together with it.
//
// A statement may take a quarter of what is left of the lease. So a connection that has
// become silent costs one try, and idle ones that do not answer a ping then are closed. If
// the end may have been stored by a try that had no answer, the row is read: only what is
// there is told. Where the row has been claimed or changed meanwhile, OnError is told that
// the lease is lost.
//
// # What is in the way
//
// A row that cannot be written, because of a constraint or a trigger, does not stop
// others. Claims and sweeps go past up to 10 of them at a time. An end that is refused for
// such a reason is tried for some seconds, and the lease then runs out. The lost attempt
// of a job whose end cannot be stored, or for which InTx returns an error, comes back
// later each time, by a lease that is extended up to 10 minutes. OnError is told each
// time.
//
// A function of the program that panics does not end the process. It is an error of the
// job, a [PanicError], which is Final:
//
//   - Work, Job.InTx, and for a success InTx and FinishArgs: the attempt has failed with it.
//   - InTx and FinishArgs for a failure, and the functions of the Policy (Classifier,
//     Backoff, Jitter, and Observer.Attempt): OnError is told, and the lease runs out.
//   - After, and the Observer: OnError is told. What is stored stays.
//   - BeforeClaim: it takes the place of the claim.
//   - OnError: slog.Default() has the panic and the error.
//
// # Losing the lease
//
// If the lease is lost, because it could not be extended in time or the row was given
// another status by hand, the context of the work is canceled with [ErrLeaseLost] as
// its cause, and nothing is stored about its failure.
//
// # Stopping
//
// When the context of Run is done, no more jobs are claimed. Work goes on for Grace;
// after that its context is canceled, with the cause of Run's. What then returns an
// error is given back to be due at once, and the attempt is not counted. If the policy
// is NonIdempotent, or the error is marked as Final, it is a failure like others. Run
// returns when all work has returned and its end is stored, which takes a lease more at
// most if the database does not answer. Work that ignores its context keeps Run from
// returning.
type Worker[ID any] struct {
	Table *Table[ID]

	// DB should keep as many connections as the Worker uses, Concurrency and two: package
	// sql closes all but two when they are idle, unless it is told otherwise by
	// [sql.DB.SetMaxIdleConns]. With two, a Worker of 16 did a seventh of the jobs that it
	// did with 18, on PostgreSQL. OnError is told once if 100 connections were closed for
	// that within a minute.
	DB *sql.DB

	// Policy decides about failures; nil means the zero Policy. Its Observer is told
	// about every retry, give-up and success once that is stored, on the goroutine of
	// the job, and of attempts if it wants to know. Its Clock only limits attempts: what
	// time it is, the database says. Its Budget is not asked, because a job waits in
	// the database and not in a call.
	Policy *retry.Policy

	// Work does a job. A nil error is a success. The context ends with the attempt, by
	// Policy.AttemptTimeout, with the lease, or when the Worker has to stop. A panic is
	// a failure with a [PanicError]. Where the DB has one connection, as SQLite should,
	// work that keeps it keeps the lease from being extended too.
	Work func(ctx context.Context, job *Job[ID]) error

	// Concurrency is how many jobs are worked on at a time; 0 means 1. As many are
	// claimed as can be begun at once.
	Concurrency int

	// Heartbeat is the time between two extensions of a lease; 0 means a third of
	// Table.Lease, which it must be less than.
	Heartbeat time.Duration

	// Poll is the pause when there are no more jobs due, and between two looks for
	// leases that have run out; 0 means 1 second. A retry may be as late as that, but for
	// one without a delay. It is drawn anew each time, from ±25 % around it. After an error
	// of the database it doubles each time, up to 30 seconds or Poll if that is longer.
	Poll time.Duration

	// Wake ends a pause early with each value received, as from a trigger's NOTIFY or
	// from whoever inserts jobs in this process. Give it a buffer of 1 and send without
	// blocking. Closing it ends that.
	Wake <-chan struct{}

	// Grace is how long work goes on when the Worker has to stop. 0 means not at all.
	Grace time.Duration

	// Lost is the error of an attempt whose lease has run out; nil means
	// [retry.ErrLost]. [retry.Mark] gives that a category.
	Lost error

	// BeforeClaim, if not nil, is called before every claim, which an error takes the
	// place of: for [Table.Promote] in a table with NoPromote.
	BeforeClaim func(ctx context.Context) error

	// ClaimArgs are the args of [Table.Claim]. Sweep gets the first of them, those of
	// Table.Where.
	ClaimArgs []any

	// FinishArgs, if not nil, returns the args of Set.Succeed, Set.Fail or Set.Release,
	// whichever it is. It is called once for each outcome, before that is stored, and
	// may change Decision.State, which is what is stored.
	FinishArgs func(o *Outcome[ID]) []any

	// InTx, if not nil, writes what else there is to say about a success or a failure,
	// in the transaction that stores it. It is called again if the transaction has to
	// be repeated, so it must do nothing outside of it. See [Job.InTx] for its errors, and
	// the time that it has; an error beside a failure leaves that to the next worker, when
	// the lease has run out.
	InTx func(ctx context.Context, tx *sql.Tx, o *Outcome[ID]) error

	// After, if not nil, is told of every outcome once it is stored, after the Observer
	// and on the goroutine of the job.
	After func(ctx context.Context, o *Outcome[ID])

	// OnError is told what could not be done: the database failed, a lease was lost, an
	// outcome was not stored, a function panicked; and, once, that the DB keeps too few
	// connections. It may be called by several goroutines at once. nil means
	// slog.Default().
	OnError func(ctx context.Context, err error)
}

const (
	defaultPoll = time.Second
	longestPoll = 30 * time.Second // after errors
	sweepSize   = 100              // leases at a time
)

// Validate reports everything that is wrong with w, each with the field and its value.
func (w *Worker[ID]) Validate() error {
	var f faults
	if w.Table == nil {
		f.add("Worker.Table", nil, "must be there")
	} else {
		if err := w.Table.Validate(); err != nil {
			f = append(f, err)
		}
		if lease := w.Table.definition().lease; w.Heartbeat >= lease && lease > 0 {
			f.add("Worker.Heartbeat", w.Heartbeat, fmt.Sprintf("must be less than Table.Lease, %v", lease))
		}
	}
	if w.DB == nil {
		f.add("Worker.DB", nil, "must be there")
	}
	if w.Work == nil {
		f.add("Worker.Work", nil, "must be there")
	}
	if w.Policy != nil {
		if err := w.Policy.Validate(); err != nil {
			f = append(f, fmt.Errorf("retrytable: Worker.Policy: %w", err))
		}
	}
	if w.Concurrency < 0 {
		f.add("Worker.Concurrency", w.Concurrency, "must not be negative")
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"Heartbeat", w.Heartbeat}, {"Poll", w.Poll}, {"Grace", w.Grace}} {
		if d.value < 0 {
			f.add("Worker."+d.field, d.value, "must not be negative")
		}
	}
	return errors.Join(f...)
}

// Run works until ctx is done, and returns the cause of that. It returns another error
// at once, and has done nothing, if the Worker is not valid, or if the table is not by
// [Table.Check]. A database that does not answer is reported and asked again. It starts
// goroutines, all of which have ended when it returns, but for those in which a driver
// still waits for a connection that is silent.
func (w *Worker[ID]) Run(ctx context.Context) error {
	r, err := w.shift(ctx)
	if err != nil {
		return err
	}
	r.tell = r.log
	if w.OnError != nil {
		r.tell = func(err error) { w.OnError(r.ctx, err) }
	}
	if err := r.check(ctx); err != nil {
		return err
	}
	end := r.attend(ctx)
	var sweeper sync.WaitGroup
	sweeper.Go(func() { r.sweepAll(ctx) })
	r.claimAll(ctx)
	sweeper.Wait()
	end()
	return context.Cause(ctx)
}

// Once takes one round: it takes over the leases that have run out, claims as many jobs
// as are worked on at a time, and returns when they have ended, with how many it
// claimed. It is for tests, and for programs that are started by a timer. The error is
// all that OnError would have been told; that a job failed is none.
//
//nolint:contextcheck // what is claimed and stored is not canceled
func (w *Worker[ID]) Once(ctx context.Context) (claimed int, err error) {
	r, err := w.shift(ctx)
	if err != nil {
		return 0, err
	}
	var mu sync.Mutex
	var errs []error
	r.tell = func(err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	}
	end := r.attend(ctx)
	defer end()
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	if _, err := r.sweep(); err != nil {
		r.report(err)
	}
	rows, ends, err := r.claim(r.concurrency)
	if err != nil {
		r.report(err)
	}
	var jobs sync.WaitGroup
	for _, row := range rows {
		jobs.Go(func() { r.work(ctx, row, ends) })
	}
	jobs.Wait()
	return len(rows), errors.Join(errs...)
}
