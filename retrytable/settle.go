package retrytable

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/aftercommit"
	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/internal/show"
	"github.com/seed-5ff3c98e/retry/internal/sqlerr"
	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/dberr"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// untilLeaseEnds is the policy by which an outcome is stored: until the lease ends, unless the
// database refuses to have it in this row.
var untilLeaseEnds = &retry.Policy{
	MaxAttempts: retry.Unlimited,
	Backoff:     retry.Exponential{Initial: 50 * time.Millisecond, Multiplier: 2},
	MaxDelay:    2 * time.Second,
	Jitter:      retry.EqualJitter,
	Classifier:  classifyStoring,
	Overrides:   map[string]retry.Override{rowCategory: {MaxAttempts: mostTries}},
}

// mostTries is how often an outcome is tried before its job gives back its place, so that
// others can go on. That takes some seconds.
const mostTries = 8

// briefly is that policy where other rows wait for it.
var briefly = &retry.Policy{
	MaxAttempts: 3, Backoff: untilLeaseEnds.Backoff, Jitter: untilLeaseEnds.Jitter, Classifier: classifyStoring,
	Overrides: map[string]retry.Override{rowCategory: {MaxAttempts: 1}},
}

// storing is the part that stores outcomes.
type storing[ID any] struct {
	*shift[ID]

	gathering gathering    // outcomes to be stored
	groupsOff atomic.Int64 // until when, in nanoseconds since 1970; see switchGroupsOff
	back      *comebacks   // of jobs of ours
}

// storing prepares the part.
func (s *shift[ID]) storing() *storing[ID] {
	return &storing[ID]{shift: s, back: newComebacks(s.poll, sqltable.Instants(s.Table.Instants).Unit())}
}

// settle stores an outcome under a lease that does not end before ends, and tells the
// Observer and After. It returns false if the outcome could not be stored.
func (s *storing[ID]) settle(o *Outcome[ID], ends time.Time, how *retry.Policy) bool {
	o.stored.Err, o.stored.Decision = o.Err, o.Decision // FinishArgs may change the State
	err := s.storeUntil(o, ends, how)
	if failed, ok := err.(*effectError); ok && o.Err == nil { //nolint:errorlint // a Final error is returned as it is
		return s.settle(s.failed(o.Job, failed.error), ends, how)
	}
	if err != nil {
		s.reportOf(o.Job, fmt.Errorf("its end was not stored: %w", err))
		return false
	}
	if o.Decision.Retry {
		s.back.add(time.Now(), o.Decision.Delay)
	}
	if !o.Released {
		if err := o.stored.Tell(s.ctx); err != nil {
			s.reportOf(o.Job, err)
		}
	}
	s.announce(o)
	if o.hooks != nil {
		_ = s.guarded(o.Job, "AfterCommit", func() error { o.hooks.Call(s.ctx); return nil })
	}
	if s.After != nil {
		_ = s.guarded(o.Job, "After", func() error { s.After(s.ctx, o); return nil })
	}
	return true
}

// failed is the outcome of a failure beside the work. A panic of a function of the policy
// ends the job, as in an attempt.
func (s *storing[ID]) failed(job *Job[ID], err error) *Outcome[ID] {
	o := &Outcome[ID]{Job: job, Err: err, stored: retryjob.Stored{Policy: job.policy, Now: job.Now}}
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

// guarded is [engine.Guard] for a function that is called for a job. It reports the error.
func (s *storing[ID]) guarded(job *Job[ID], hook string, fn func() error) error {
	err := engine.Guard(hook, fn)
	if err != nil {
		s.reportOf(job, err)
	}
	return err
}

// announce logs the end of a job that has failed, if nobody else is told.
func (s *storing[ID]) announce(o *Outcome[ID]) {
	if o.Err == nil || o.Released || o.Decision.Retry || o.Job.policy.Observer != nil || s.OnError != nil {
		return
	}
	text := o.text
	if text == nil {
		text = textOf(o.Decision, o.Err)
	}
	attrs := []any{"table", s.Table.Name, "id", sqltable.Storable(fmt.Sprint(o.Job.ID))}
	if o.Job.Kind != "" {
		attrs = append(attrs, "kind", sqltable.Storable(o.Job.Kind))
	}
	slog.Default().ErrorContext(s.ctx, "retrytable job has failed", append(attrs,
		"attempts", o.Decision.State.Attempts(), "reason", o.Decision.Stop, "error", text)...)
}

// storeUntil tries to store an outcome until the lease ends. It also tries if the lease
// has ended already, because perhaps nobody has taken the row over.
func (s *storing[ID]) storeUntil(o *Outcome[ID], ends time.Time, how *retry.Policy) error {
	change, err := s.changeFor(o)
	if err != nil {
		return err
	}
	t := &storingTries[ID]{storing: s, outcome: o, write: write{Change: change, ends: ends}}
	var first error // the first try needs no policy if nothing is wrong
	if !s.writesMore(o) {
		if first = s.gather(&t.write); first == nil {
			return nil
		}
	}
	limit := ends
	if least := time.Now().Add(s.lease / 10); least.After(limit) {
		limit = least
	}
	ctx, cancel := context.WithDeadline(s.ctx, limit)
	defer cancel()
	return how.Execute(ctx, func(ctx context.Context) error {
		err := first
		first = nil
		return t.try(ctx, err)
	})
}

// changeFor is the update that stores an outcome.
func (s *storing[ID]) changeFor(o *Outcome[ID]) (c *sqltable.Change, err error) {
	var args []any
	failed := o.Err != nil && !o.Released
	if failed { // FinishArgs may change the State
		if args, err = s.finishArgs(o); err != nil {
			return nil, err
		}
		o.text = textFor(s.statements, o.Decision, o.Err)
	}
	switch row := o.Job.claimed(args); {
	case failed:
		c, err = fail(s.statements, row, o.Decision, o.text)
	case o.Released:
		c = s.statements.Release(row, o.Decision.Delay, o.unstarted)
	default:
		c, err = succeed(s.statements, row, cmp.Or(o.Job.status, s.statements.Statuses.Done[0]))
	}
	if err != nil {
		return nil, err
	}
	if !failed && c.NArgs > 0 {
		if c.Args, err = s.finishArgs(o); err != nil {
			return nil, err
		}
	}
	return c, c.CheckArgs(c.Args)
}

func (s *storing[ID]) finishArgs(o *Outcome[ID]) (args []any, err error) {
	if s.FinishArgs == nil {
		return nil, nil
	}
	if err := engine.Guard("FinishArgs", func() error { args = s.FinishArgs(o); return nil }); err != nil {
		return nil, &effectError{err}
	}
	return args, nil
}

// storingTries are the tries to store one outcome.
type storingTries[ID any] struct {
	*storing[ID]

	outcome *Outcome[ID]
	write   write
	n       int  // how many there were
	failed  bool // one of them did, and may have stored the outcome nevertheless
}

// try stores the outcome, unless a try before has failed with err already. If the row is
// refused, it is tried with other texts.
func (t *storingTries[ID]) try(ctx context.Context, err error) error {
	if t.n++; t.n == mostTries {
		t.outcome.Job.leave()
	}
	if err == nil {
		err = t.store(ctx, &t.write)
	}
	for _, other := range t.write.WithOtherTexts() {
		if classifyStoring(err).Category != rowCategory { // not because of the text
			break
		}
		err = t.store(ctx, &write{Change: other, ends: t.write.ends, alone: true})
	}
	if t.failed && errors.Is(err, ErrLeaseLost) { // perhaps a try that failed has stored it
		if t.writesMore(t.outcome) {
			return t.readBack(ctx)
		}
		return t.gather(&write{ends: t.write.ends, alone: true, instead: t.readBack})
	}
	if err == nil {
		return nil
	}
	t.failed = true
	if !dberr.MaybeOfRow(err) && sqlerr.Classify(err).Class == retry.Unknown {
		if unknown := t.write.UnknownArg(t.write.Args, err); unknown != nil {
			return retry.MarkFinal(unknown)
		}
	}
	return err
}

// store stores the outcome, in a transaction if there is more to be written.
func (t *storingTries[ID]) store(ctx context.Context, w *write) error {
	if t.writesMore(t.outcome) {
		return t.storeInTx(ctx, t.outcome, w.Change, t.limit(w.ends))
	}
	return t.gather(w)
}

// readBack finds out whether the outcome was stored by a try that had no answer, once
// another one has found that the lease is not ours any more. It was stored if the row
// looks as the outcome leaves it. Otherwise somebody has given the row another status,
// before or after that, and the error says what is there.
func (t *storingTries[ID]) readBack(ctx context.Context) error {
	job := t.outcome.Job
	row, err := answerWithin(ctx, t.shift, t.limit(t.write.ends), func(ctx context.Context) (*sqltable.RowState, error) {
		return t.statements.State(ctx, t.DB, job.ID)
	})
	switch {
	case err != nil:
		return err
	case row == nil:
		return fmt.Errorf("%w: the row is gone, and whether it ended like this is unknown", ErrLeaseLost)
	case *row != t.rowAfter(t.outcome, *row):
		return fmt.Errorf("%w: the status is %s now, of claim %d, and this was claim %d",
			ErrLeaseLost, show.Quote(row.Status), row.Fence, job.Fence)
	default:
		return nil
	}
}

// rowAfter is what a row must have if the outcome was stored. What the outcome does not store
// is as it was found.
func (s *storing[ID]) rowAfter(o *Outcome[ID], found sqltable.RowState) sqltable.RowState {
	statuses, columns := s.statements.Statuses, s.statements.Columns
	want, state := sqltable.RowState{Fence: o.Job.Fence}, o.Job.State
	switch {
	case o.Released && o.Decision.Delay > 0:
		want.Status, want.Due = statuses.Waiting, true
	case o.Released:
		want.Status = statuses.Ready
	case o.Err == nil:
		found.Fence, found.Status, found.Leased = o.Job.Fence, cmp.Or(o.Job.status, statuses.Done[0]), false
		return found
	case o.Decision.Retry:
		want.Status, want.Due, state = statuses.Waiting, true, o.Decision.State
	default:
		want.Status, state = statuses.Dead, o.Decision.State
		if columns.Retries != "" {
			state.Failures = found.Failures
		}
	}
	want.Failures = state.Failures
	if columns.RateLimited != "" {
		want.RateLimited = state.RateLimited
	}
	if columns.Pending != "" {
		want.Pending = state.Pending
	}
	return want
}

// writesMore reports whether there is more to be written with an outcome.
func (s *storing[ID]) writesMore(o *Outcome[ID]) bool {
	return !o.Released && (s.InTx != nil || o.Err == nil && len(o.Job.effects) > 0)
}

// storeInTx stores an outcome together with what else is written. Each statement of ours may
// take limit, and the whole transaction twice that.
func (s *storing[ID]) storeInTx(ctx context.Context, o *Outcome[ID], c *sqltable.Change, limit time.Duration) error {
	s.inTx.Store(true)
	ctx, cancel := context.WithTimeout(ctx, 2*limit)
	defer cancel() // rolls back what is still open
	tx, err := answerWithin(ctx, s.shift, limit, func(context.Context) (*sql.Tx, error) { return s.DB.BeginTx(ctx, nil) })
	if err != nil {
		return err
	}
	err = s.writeAll(ctx, tx, o, c, limit)
	finishTx := tx.Commit
	if err != nil {
		finishTx = tx.Rollback
	}
	finished := s.within(ctx, limit, func(context.Context) error { return finishTx() })
	if err == nil && dberr.RefusesRow(finished) { // by a constraint that is deferred
		return &effectError{finished}
	}
	return cmp.Or(err, finished)
}

// writeAll writes an outcome in a transaction. What we write comes first, so that a
// transaction that took effect unnoticed is recognized before the program's part fails in
// its repetition.
func (s *storing[ID]) writeAll(ctx context.Context, tx *sql.Tx, o *Outcome[ID], c *sqltable.Change, limit time.Duration) error {
	if err := s.within(ctx, limit, func(ctx context.Context) error { return exec(ctx, tx, c) }); err != nil {
		return err
	}
	err := s.effects(ctx, tx, o)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil: // package sql has rolled back, and they may have met that
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	default:
		return &effectError{err}
	}
}

// effects calls what the program has to write with an outcome.
func (s *storing[ID]) effects(ctx context.Context, tx *sql.Tx, o *Outcome[ID]) error {
	o.hooks, ctx = aftercommit.New(ctx)
	if o.Err == nil {
		for _, effect := range o.Job.effects {
			if err := engine.Guard("Job.InTx", func() error { return effect(ctx, tx) }); err != nil {
				return err
			}
		}
	}
	if s.InTx == nil {
		return nil
	}
	return engine.Guard("InTx", func() error { return s.InTx(ctx, tx, o) })
}

// rowCategory is the category of an outcome that the database refuses to have in its row.
const rowCategory = "row"

// classifyStoring classifies why an outcome could not be stored. It is tried again, whatever
// the database has answered, because that may be mended. An error of the program itself is
// tried again only if it is a passing one, such as a deadlock.
func classifyStoring(err error) retry.Verdict {
	var effect *effectError
	var leftOut *leftOutError
	switch {
	case errors.Is(err, ErrLeaseLost):
		return retry.Verdict{Class: retry.Final}
	case errors.As(err, &leftOut): // the refusal is about others of its group
		return retry.Verdict{Class: retry.Retryable}
	case errors.As(err, &effect):
		if c := sqlerr.Classify(effect.error).Class; c != retry.Retryable && c != retry.RateLimited {
			return retry.Verdict{Class: retry.Final}
		}
	case dberr.RefusesRow(err):
		return retry.Verdict{Class: retry.Retryable, Category: rowCategory}
	}
	return retry.Verdict{Class: retry.Retryable}
}

// effectError is an error of what a program writes in the transaction of an outcome, or
// of what it says about it.
type effectError struct{ error }

// Unwrap returns the program's error.
func (e *effectError) Unwrap() error { return e.error }
