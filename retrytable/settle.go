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

// storing is the policy by which an outcome is stored: until the lease ends, unless the
// database refuses to have it in this row.
var storing = &retry.Policy{
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

// storingBriefly is storing where other rows wait for it.
var storingBriefly = &retry.Policy{
	MaxAttempts: 3, Backoff: storing.Backoff, Jitter: storing.Jitter, Classifier: classifyStoring,
	Overrides: map[string]retry.Override{rowCategory: {MaxAttempts: 1}},
}

// settle stores an outcome under a lease that does not end before ends, and tells the
// Observer and After. It returns false if the outcome could not be stored.
func (s *shift[ID]) settle(o *Outcome[ID], ends time.Time, how *retry.Policy) bool {
	o.stored.Err, o.stored.Decision = o.Err, o.Decision // FinishArgs may change the State
	err := s.storeUntil(o, ends, how)
	if failed, ok := err.(*effectError); ok && o.Err == nil { //nolint:errorlint // a Final error is returned as it is
		return s.settle(s.failed(o.Job, failed.error), ends, how)
	}
	if err != nil {
		s.reportOf(o.Job, fmt.Errorf("its end was not stored: %w", err))
		return false
	}
	if o.Decision.Retry && o.Decision.Delay <= 0 {
		select {
		case s.due <- struct{}{}:
		default: // it is known already
		}
	}
	if !o.Released {
		if err := o.stored.Tell(s.ctx); err != nil {
			s.reportOf(o.Job, err)
		}
	}
	s.announce(o)
	if s.After != nil {
		_ = s.guarded(o.Job, "After", func() error { s.After(s.ctx, o); return nil })
	}
	return true
}

// storeUntil tries to store an outcome until the lease ends. It also tries if the lease
// has ended already, because perhaps nobody has taken the row over.
func (s *shift[ID]) storeUntil(o *Outcome[ID], ends time.Time, how *retry.Policy) error {
	var args []any
	if s.FinishArgs != nil {
		if err := guard("FinishArgs", func() error { args = s.FinishArgs(o); return nil }); err != nil {
			return &effectError{err}
		}
	}
	finishing, err := s.finishing(o, args)
	if err != nil {
		return err
	}
	one, more := &outcome[ID]{finishing: *finishing, ends: ends}, s.writesMore(o)
	var first error // the first try needs no policy if nothing is wrong
	if !more {
		if first = s.together(one); first == nil {
			return nil
		}
	}
	tries, failed := 0, false
	limit := ends
	if least := time.Now().Add(s.lease / 10); least.After(limit) {
		limit = least
	}
	ctx, cancel := context.WithDeadline(s.ctx, limit)
	defer cancel()
	return how.Execute(ctx, func(ctx context.Context) error {
		if tries++; tries == mostTries {
			o.Job.leave()
		}
		err := first
		switch first = nil; {
		case err != nil:
		case more:
			err = s.store(ctx, o, finishing, s.limit(ends))
		default:
			err = s.together(one)
		}
		for _, other := range finishing.others() {
			if classifyStoring(err).Category != rowCategory { // not because of the text
				break
			}
			if more {
				err = s.store(ctx, o, other, s.limit(ends))
			} else {
				err = s.together(&outcome[ID]{finishing: *other, ends: ends, alone: true})
			}
		}
		if failed && errors.Is(err, ErrLeaseLost) { // perhaps by a try that failed
			read := func(ctx context.Context) error { return s.readBack(ctx, o, s.limit(ends)) }
			if more {
				return read(ctx)
			}
			return s.together(&outcome[ID]{ends: ends, alone: true, ask: read})
		}
		failed = failed || err != nil
		return cmp.Or(finishing.unfit(args, err), err)
	})
}

// finishing returns the statement that stores an outcome.
func (s *shift[ID]) finishing(o *Outcome[ID], args []any) (*finishing[ID], error) {
	f := &finishing[ID]{lease: o.Job.Lease, users: args}
	var err error
	switch {
	case o.Released:
		f.statement, f.ours, err = s.statements.releasing(o.Decision.Delay)
	case o.Err != nil:
		f.statement, f.ours, err = s.statements.failing(o.Decision, o.Err)
	default:
		f.statement, f.ours, err = s.statements.succeeding(cmp.Or(o.Job.status, s.statements.done[0]))
	}
	if err != nil {
		return nil, err
	}
	_, err = f.arguments(args) // as many as there must be
	return f, err
}

// writesMore reports whether there is more to be written with an outcome.
func (s *shift[ID]) writesMore(o *Outcome[ID]) bool {
	return !o.Released && (s.InTx != nil || o.Err == nil && len(o.Job.effects) > 0)
}

// store stores an outcome, in a transaction if there is more to be written. Each
// statement of ours may take limit, and the whole transaction twice that.
func (s *shift[ID]) store(ctx context.Context, o *Outcome[ID], f *finishing[ID], limit time.Duration) error {
	if !s.writesMore(o) {
		return s.finish(ctx, s.DB, f, limit)
	}
	s.inTx.Store(true)
	ctx, cancel := context.WithTimeout(ctx, 2*limit)
	defer cancel() // rolls back what is still open
	tx, err := within(ctx, s, limit, func(context.Context) (*sql.Tx, error) { return s.DB.BeginTx(ctx, nil) })
	if err != nil {
		return err
	}
	err = s.write(ctx, tx, o, f, limit)
	end := tx.Commit
	if err != nil {
		end = tx.Rollback
	}
	_, ended := within(ctx, s, limit, func(context.Context) (any, error) { return nil, end() })
	if err == nil && rowFault(ended) { // by a constraint that is deferred
		return &effectError{ended}
	}
	return cmp.Or(err, ended)
}

// write writes an outcome in a transaction. What we write comes first, so that a
// transaction that took effect unnoticed is recognized before the program's part fails in
// its repetition.
func (s *shift[ID]) write(ctx context.Context, tx *sql.Tx, o *Outcome[ID], f *finishing[ID], limit time.Duration) error {
	if err := s.finish(ctx, tx, f, limit); err != nil {
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
func (s *shift[ID]) effects(ctx context.Context, tx *sql.Tx, o *Outcome[ID]) error {
	if o.Err == nil {
		for _, effect := range o.Job.effects {
			if err := guard("Job.InTx", func() error { return effect(ctx, tx) }); err != nil {
				return err
			}
		}
	}
	if s.InTx == nil {
		return nil
	}
	return guard("InTx", func() error { return s.InTx(ctx, tx, o) })
}

// finish runs the statement that stores an outcome.
func (s *shift[ID]) finish(ctx context.Context, db DB, f *finishing[ID], limit time.Duration) error {
	_, err := within(ctx, s, limit, func(ctx context.Context) (any, error) { return nil, f.exec(ctx, db) })
	return err
}
