package retrytable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// Worker works on the jobs of a [Table] until it is told to stop:
//
//	w := &retrytable.Worker[int64]{Table: jobs, DB: db, Policy: policy, Work: work}
//	err := w.Run(ctx)
//
// It claims jobs that are due, calls Work if the Policy has an attempt left, extends the
// lease meanwhile, and stores the outcome as the Policy decides. It also takes over the
// jobs of workers that died: their attempt has failed with [retry.ErrLost].
//
// A literal with a Table, a DB and Work is ready to use; [Worker.Run] reports what is
// wrong with it. Any number of Workers, in any number of processes, may work on the
// same table. The fields must not be changed while Run or Once is running.
//
// # Storing what happened
//
// When an attempt has ended, the Worker tries to store its outcome until that succeeds or
// the lease ends: an outage of the database that is shorter than two thirds of the lease
// does not repeat finished work. The fence makes it safe to store an outcome twice. With
// [Job.InTx], or the field InTx, other writes are committed together with it.
//
// An outcome that is alone is stored at once. Those that come meanwhile are stored together:
// in PostgreSQL by one statement, unless Set has parameters, elsewhere in one transaction.
// In PostgreSQL and MySQL a row that somebody else has locked holds up no other one. If the
// database refuses a group, it is stored in parts, without the rows that are at fault. InTx
// is never called for a group. If PostgreSQL does not understand the statement for a group
// and does understand those for its rows, each outcome has one of its own for a minute.
//
// A statement may take a quarter of the rest of the lease. So a connection that has
// become silent costs one try. Idle connections that do not answer a ping then are
// closed. If a try without an answer may have stored the outcome, the Worker reads the
// row, and reports only what is stored there. If the row has been claimed or changed
// meanwhile, OnError is told that the lease is lost.
//
// # What is in the way
//
// A row that cannot be written does not stop others, whatever the database answers about
// it: because of a constraint, a trigger, row-level security, or an index. If the database
// refuses a statement, or does not answer it in time, the Worker tries the next rows
// before it takes that for an outage. The rows that are refused are left out, up
// to 1000 of them, and tried again every few seconds. OnError is told once of each, or of
// several at once. If no row can be written, the Worker tries again every 5 seconds, or Poll
// if that is longer, so that it goes on soon after that is mended.
//
// An outcome that is refused is tried again as well, and its job gives back its place after
// some seconds. If the error says that the row is at fault, that is all, and the lease runs
// out; if it may be an outage, the outcome is tried until the lease ends.
//
// If the outcome of a lost attempt cannot be stored, or InTx returns an error for it, the
// job is swept again later each time: its lease is extended, by up to 10 minutes or
// Table.Lease, whichever is longer. OnError is told each time.
//
// A panic of a function of the program does not end the process. It is an error of the
// job, a [retry.PanicError], which is Final:
//
//   - Work, Job.InTx, and for a success InTx and FinishArgs: the attempt has failed with it.
//   - The functions of the Policy (Classifier, Backoff, Jitter, and Observer.Attempt): the
//     job has ended with it, and OnError is told.
//   - PolicyFor: there is no policy for the job.
//   - InTx and FinishArgs for a failure: OnError is told, and the lease runs out.
//   - After, and the Observer: OnError is told. What is stored stays.
//   - Turn: there is no claim, and OnError is told.
//   - OnError: slog.Default() logs the panic and the error.
//
// # Dead jobs
//
// With Columns.Error, the row of a job says why its last attempt failed. A job that has
// failed for good is told to the Observer of its Policy. If there is no Observer and no
// OnError, slog.Default() has one line with its ID, kind, attempts, reason and error.
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
// after that its context is canceled, with the cause of Run's context. If Work then
// returns an error, the job is given back, is due at once, and the attempt is not
// counted. If the policy is NonIdempotent, or the error is marked as Final, the error is
// a failure like others. Run returns when all work has returned and its outcome is
// stored. If the database does not answer, this takes at most a lease longer. Work that
// ignores its context keeps Run from returning.
type Worker[ID any] struct {
	Table *Table[ID]

	// DB needs four connections at most, whatever the Concurrency and whatever fails: one to
	// claim and to sweep, one to extend leases, and two to store outcomes. It needs one more
	// for each outcome that is being stored with InTx. Connections that have become silent do
	// not count: nobody knows when they end. Package sql keeps only two idle connections,
	// unless [sql.DB.SetMaxIdleConns] says otherwise: raise that to 4, and further for jobs
	// with InTx. OnError is told once if 100 connections were closed for that reason within a
	// minute.
	DB *sql.DB

	// Policy decides about failures; nil means the zero Policy. Its Observer is told
	// about every retry, give-up and success once it is stored, on the goroutine of the job,
	// and about attempts if its Attempt is set. Its Clock only limits attempts: the
	// time is that of the database. Its Budget is not asked, because a job waits in
	// the database and not in a call.
	Policy *retry.Policy

	// PolicyFor, if not nil, returns the policy for a kind of jobs, which is [Row].Kind: see
	// [retryjob.PolicyFor]. For a kind without one, Policy decides. PolicyFor is called when
	// an attempt begins and for a lost attempt, so that a new policy counts from the next
	// attempt on.
	//
	// If a kind has no policy at all, OnError is told of each of its jobs. These jobs are
	// given back, are not counted, and are due again after a Table.Lease, so that they do
	// not hold up other jobs. A lost attempt of such a job stays lost, and is looked at
	// again later each time, in the end every 10 minutes or Table.Lease, whichever is
	// longer.
	PolicyFor func(kind string) (*retry.Policy, error)

	// QuotaFor, if not nil, returns the Quota of the jobs with a key, which is [Row].Key, if their
	// policy has none: that of a tenant. [retryquota.Keys] has one for each key, and its method Of
	// is such a function. nil means no Quota.
	//
	// While jobs of a key, or of a kind whose policy has a Quota, have to wait for their turns, they
	// are left out of the claims, and claimed apart: as many as there are turns. They keep their
	// order, and are claimed once. Up to 1000 kinds and keys are known to wait; the jobs of more
	// are claimed again and again.
	QuotaFor func(key string) retry.Pacer

	// Work does a job. A nil error is a success. The context ends with the attempt, by
	// Policy.AttemptTimeout, with the lease, or when the Worker has to stop. A panic is
	// a failure with a [retry.PanicError]. If the DB has one connection, as SQLite should,
	// the lease cannot be extended while Work uses it. The goroutine does other jobs afterwards, and so
	// does its thread if it is locked.
	Work func(ctx context.Context, job *Job[ID]) error

	// Concurrency is how many jobs are worked on at a time; 0 means 1. The Worker claims
	// only as many as can begin at once.
	Concurrency int

	// Heartbeat is the time between two extensions of a lease; 0 means a third of
	// Table.Lease. It must be less than Table.Lease. One statement extends all leases that
	// are to be extended in the next half of that time.
	Heartbeat time.Duration

	// Poll is the pause when no more jobs are due, and between two searches for leases that
	// have run out; 0 means 1 second. A retry is late by a tenth of it at most, or of its wait
	// if that is longer than 10 Polls, while the Worker that has stored it runs, and by such a
	// pause otherwise. Each pause is random, within ±25 % of Poll. After an error of the database
	// the pause doubles each time, up to 30 seconds, or Poll if that is longer.
	Poll time.Duration

	// Wake ends a pause early with each value received. In PostgreSQL, Table.Notify and
	// retrypgx.Listen send one when jobs are committed. A process that inserts jobs itself sends one
	// after the commit, with retrysql.AfterCommit for example; that is the way in other databases, besides
	// Poll. Give it a buffer of 1 and send without blocking. A closed Wake ends no pauses.
	Wake <-chan struct{}

	// Grace is how long work goes on when the Worker has to stop. 0 means not at all.
	Grace time.Duration

	// Overtime is how long the lease is extended when Work goes on after its context has ended:
	// because of a limit of the Policy, or because the Worker has to stop. 0 means Table.Lease.
	// After that OnError is told, the lease runs out, and any worker may take the job, whose
	// attempt is lost. Work keeps its place of the Concurrency until it returns, and its outcome
	// is stored if nobody has taken the job by then.
	Overtime time.Duration

	// Lost is the error of an attempt whose lease has run out; nil means
	// [retry.ErrLost]. [retry.Mark] gives it a category.
	Lost error

	// Turn, if not nil, makes a limit in Table.ClaimWhere exact: the claims of all workers
	// take turns. A claim is then of one job, in a transaction in which Turn is called first.
	// Turn locks something in the database: "SELECT pg_advisory_xact_lock(1)". In SQLite, a
	// transaction that begins as a writer has its turn already.
	Turn func(ctx context.Context, db DB) error

	// ClaimArgs are the args of [Table.Claim]. Sweep gets the first of them, which are the
	// args of Table.Where.
	ClaimArgs []any

	// FinishArgs, if not nil, returns the args of Set.Fail for a failure. It may change
	// Decision.State, which is then stored. It is called for a success or a release only if
	// Set.Succeed or Set.Release has parameters, and returns the args of that then. It is
	// called once for each outcome, before the outcome is stored. An error is no arg: pass its
	// text. With args of a type that the driver does not take, the outcome is not stored, and
	// OnError is told which arg it is.
	FinishArgs func(o *Outcome[ID]) []any

	// InTx, if not nil, makes other writes for a success or a failure, in the transaction
	// that stores it. It is called again if the transaction is repeated, so it must do
	// nothing outside of the transaction; retrysql.AfterCommit, with its ctx, calls a function
	// once the outcome is stored. See [Job.InTx] for its errors and its time limit.
	// If InTx returns an error for a failure, the failure is not stored: the lease runs out,
	// and the next worker takes over.
	InTx func(ctx context.Context, tx *sql.Tx, o *Outcome[ID]) error

	// After, if not nil, is called with every outcome once it is stored, after the Observer
	// and on the goroutine of the job.
	After func(ctx context.Context, o *Outcome[ID])

	// OnError is told what went wrong: the database failed, a lease was lost, an outcome was not
	// stored, a function panicked, a kind has no policy; once for each attempt, that its Overtime
	// is over; and, once, that the DB keeps too few connections. It may be called by several
	// goroutines at once. nil means slog.Default(), which then also has a line about each job that
	// has failed for good, unless the Policy of the job has an Observer.
	OnError func(ctx context.Context, err error)
}

const (
	defaultPoll = time.Second
	longestPoll = 30 * time.Second // after errors

	longestRefusal = 5 * time.Second // after those that the database has answered
	sweepSize      = 100             // leases at a time
)

// Validate reports everything that is wrong with w, each with the field and its value.
func (w *Worker[ID]) Validate() error {
	var p sqltable.Problems
	if w.Table == nil {
		p.Add("Worker.Table", nil, "must be there")
	} else {
		if err := w.Table.Validate(); err != nil {
			p = append(p, err)
		}
		if lease := w.Table.lower().Lease; w.Heartbeat >= lease && lease > 0 {
			p.Add("Worker.Heartbeat", w.Heartbeat, fmt.Sprintf("must be less than Table.Lease, %v", lease))
		}
	}
	if w.DB == nil {
		p.Add("Worker.DB", nil, "must be there")
	}
	if w.Work == nil {
		p.Add("Worker.Work", nil, "must be there")
	}
	if w.PolicyFor != nil && w.Table != nil && w.Table.Columns.Kind == "" {
		p = append(p, errors.New("retrytable: Worker.PolicyFor: the table has no column for kinds: name one in Table.Columns.Kind"))
	}
	if w.QuotaFor != nil && w.Table != nil && w.Table.Columns.Key == "" {
		p = append(p, errors.New("retrytable: Worker.QuotaFor: the table has no column for keys: name one in Table.Columns.Key"))
	}
	if w.Policy != nil {
		if err := w.Policy.Validate(); err != nil {
			p = append(p, fmt.Errorf("retrytable: Worker.Policy: %w", err))
		}
		if w.Policy.MaxElapsed > 0 && w.Table != nil && w.Table.Columns.First == "" {
			p.Add("Worker.Policy.MaxElapsed", w.Policy.MaxElapsed,
				"needs a column that says when the first attempt was: name one in Table.Columns.First")
		}
	}
	if w.Concurrency < 0 {
		p.Add("Worker.Concurrency", w.Concurrency, "must not be negative")
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"Heartbeat", w.Heartbeat}, {"Poll", w.Poll}, {"Grace", w.Grace}, {"Overtime", w.Overtime}} {
		if d.value < 0 {
			p.Add("Worker."+d.field, d.value, "must not be negative")
		}
	}
	return errors.Join(p...)
}

// Run works until ctx is done, and returns the cause of ctx. If the Worker is not valid,
// or [Table.Check] finds a fault, Run returns that error at once and does nothing. If the
// database does not answer, Run reports that and asks again. All goroutines that Run
// starts have ended when it returns, except those in which a driver still waits for a
// silent connection.
func (w *Worker[ID]) Run(ctx context.Context) error {
	s, err := w.shift(ctx)
	if err != nil {
		return err
	}
	s.tell = s.log
	if w.OnError != nil {
		s.tell = func(err error) { w.OnError(s.ctx, err) }
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	r := s.storing().running(ctx).claiming()
	leave := r.attend(ctx)
	var sweeper sync.WaitGroup
	sweeper.Go(func() { r.sweepAll(ctx) })
	r.claimAll(ctx)
	sweeper.Wait()
	leave()
	return context.Cause(ctx)
}

// Once makes one round: it takes over up to 100 leases that have run out, claims up to
// Concurrency jobs, and returns the number of claimed jobs when they have ended. It is for
// tests, and for programs that are started by a timer. The error has all errors that
// OnError would have been told. A job that fails is not an error.
func (w *Worker[ID]) Once(ctx context.Context) (claimed int, err error) {
	s, err := w.shift(ctx)
	if err != nil {
		return 0, err
	}
	var mu sync.Mutex
	var errs []error
	s.tell = func(err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	}
	r := s.storing().running(ctx).claiming()
	defer r.attend(ctx)()
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	if _, err := r.sweep(); err != nil {
		r.report(err)
	}
	r.more = true
	b, err := r.claim(r.concurrency)
	if err != nil {
		r.report(err)
	}
	var jobs sync.WaitGroup
	for i := range b.rows {
		jobs.Go(func() { r.work(ctx, &b.rows[i], nil) })
	}
	jobs.Wait()
	return len(b.rows), errors.Join(errs...)
}
