package retrytable

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/sat"
)

// storing is the policy by which an outcome is stored: until the lease ends.
var storing = &retry.Policy{
	MaxAttempts: retry.Unlimited,
	Backoff:     retry.Exponential{Initial: 50 * time.Millisecond, Multiplier: 2},
	MaxDelay:    2 * time.Second,
	Jitter:      retry.EqualJitter,
	Classifier:  classifyStoring,
}

// classifyStoring judges why an outcome could not be stored. Whatever the database says
// may pass. What the program itself says is left to its own policy.
func classifyStoring(err error) retry.Verdict {
	var effect *effectError
	switch {
	case errors.Is(err, ErrLeaseLost):
		return retry.Verdict{Class: retry.Final}
	case !errors.As(err, &effect), errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone):
		return retry.Verdict{Class: retry.Retryable}
	}
	if c := retry.Classify(effect.error).Class; c == retry.Retryable || c == retry.RateLimited {
		return retry.Verdict{Class: retry.Retryable}
	}
	return retry.Verdict{Class: retry.Final}
}

// effectError is an error of what a program writes in the transaction of an outcome.
type effectError struct{ error }

// Unwrap returns the program's error.
func (e *effectError) Unwrap() error { return e.error }

// settle stores an outcome under a lease that ends then at the earliest, and tells
// about it. It reports false if it could not be stored.
func (s *shift[ID]) settle(o *Outcome[ID], ends time.Time) bool {
	e := s.event(o)
	var args []any
	if s.FinishArgs != nil {
		args = s.FinishArgs(o)
	}
	err := s.storeUntil(o, args, ends)
	if failed, ok := err.(*effectError); ok && o.Err == nil { //nolint:errorlint // a Final error is returned as it is
		failure := &Outcome[ID]{Job: o.Job, Err: failed.error}
		failure.Decision = s.policy.Next(o.Job.State, failure.Err, o.Job.Now())
		return s.settle(failure, ends)
	}
	if err != nil {
		s.report(fmt.Errorf("retrytable: job %v: its end was not stored: %w", o.Job.ID, err))
		return false
	}
	if o.Decision.Retry && o.Decision.Delay <= 0 && !o.Released {
		select {
		case s.due <- struct{}{}:
		default: // it is known already
		}
	}
	if e.Kind != 0 && s.policy.Observer != nil {
		s.policy.Observer.Observe(s.ctx, e)
	}
	if s.After != nil {
		s.After(s.ctx, o)
	}
	return true
}

// storeUntil stores an outcome, and again if that fails, until the lease ends. What ended
// before is tried all the same, because nobody may have taken it over.
func (s *shift[ID]) storeUntil(o *Outcome[ID], args []any, ends time.Time) error {
	limit := ends
	if least := time.Now().Add(s.lease / 10); least.After(limit) {
		limit = least
	}
	ctx, cancel := context.WithDeadline(s.ctx, limit)
	defer cancel()
	unknown := false // whether a failed try took effect
	return storing.Execute(ctx, func(ctx context.Context) error {
		err := s.store(ctx, o, args)
		if unknown && errors.Is(err, ErrLeaseLost) && time.Now().Before(ends) {
			return nil // it did: nobody else could take the lease
		}
		unknown = unknown || err != nil
		return err
	})
}

// store stores an outcome, in a transaction if there is more to be written. What we
// write comes first, so that a transaction that took effect unnoticed is recognized
// before the program's part fails in its repetition.
func (s *shift[ID]) store(ctx context.Context, o *Outcome[ID], args []any) (err error) {
	if o.Released || s.InTx == nil && (o.Err != nil || len(o.Job.effects) == 0) {
		return s.finish(ctx, s.DB, o, args)
	}
	tx, err := s.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := s.finish(ctx, tx, o, args); err != nil {
		return err
	}
	if o.Err == nil {
		for _, effect := range o.Job.effects {
			if err := effect(ctx, tx); err != nil {
				return &effectError{err}
			}
		}
	}
	if s.InTx != nil {
		if err := s.InTx(ctx, tx, o); err != nil {
			return &effectError{err}
		}
	}
	return tx.Commit()
}

// finish calls the method of the Table.
func (s *shift[ID]) finish(ctx context.Context, db DB, o *Outcome[ID], args []any) error {
	lease := o.Job.Lease
	switch {
	case o.Released:
		return s.Table.Release(ctx, db, lease, args...)
	case o.Err != nil:
		return s.Table.Fail(ctx, db, lease, o.Decision, args...)
	case o.Job.status != "":
		return s.Table.SucceedAs(ctx, db, lease, o.Job.status, args...)
	default:
		return s.Table.Succeed(ctx, db, lease, args...)
	}
}

// event is what the Observer is told about an outcome; of one that was released,
// nothing.
func (s *shift[ID]) event(o *Outcome[ID]) (e retry.Event) {
	before, now := o.Job.State, o.Job.Now()
	if o.Released {
		return e
	}
	e.Policy, e.Verdict = s.policy.Name, o.Decision.Verdict
	switch {
	case o.Err == nil:
		e.Kind, e.Attempt = retry.Succeeded, o.Job.Attempt()
	case o.Decision.Retry:
		e.Kind, e.Attempt, e.Delay, e.Err = retry.Retrying, attempts(o.Decision.State), o.Decision.Delay, o.Err
	default:
		e.Kind, e.Attempt, e.Stop, e.Err = retry.GaveUp, attempts(o.Decision.State), o.Decision.Stop, o.Decision.Err
	}
	if !before.First.IsZero() {
		e.Elapsed = max(now.Sub(before.First), 0)
	}
	return e
}

// attempts returns how many attempts have ended.
func attempts(s retry.State) int {
	return int(sat.Add(sat.Add(time.Duration(s.Failures), time.Duration(s.RateLimited)), time.Duration(s.Pending)))
}
