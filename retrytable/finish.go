package retrytable

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Succeed ends a job that is done. It returns [ErrLeaseLost] if the lease of the
// row is not the caller's any more, as do Fail, Extend and Release; a lease that
// has run out still is, until somebody sweeps it.
func (t *Table[ID]) Succeed(ctx context.Context, db DB, id ID, fence int64, args ...any) error {
	s, err := t.prepared()
	if err != nil {
		return err
	}
	return exec(ctx, db, &s.succeed, args, s.done[0], id, fence)
}

// SucceedAs is Succeed with another word for the status, one of Statuses.Done: for
// jobs that may succeed in several ways.
func (t *Table[ID]) SucceedAs(ctx context.Context, db DB, id ID, fence int64, word string, args ...any) error {
	s, err := t.prepared()
	if err != nil {
		return err
	}
	if !slices.Contains(s.done, word) {
		return fmt.Errorf("retrytable: succeed: status: %q: must be one of Statuses.Done: %q", word, s.done)
	}
	return exec(ctx, db, &s.succeed, args, word, id, fence)
}

// Fail does what d says, which comes from [retry.Policy.Next] or
// [retry.Policy.Exhausted] with the State of the claimed [Row]: it stores
// d.State, and has the job wait for d.Delay or ends it. A hint of a server that
// is longer than MaxRetryAfter ends it too, so let a stored job wait for long.
//
// A decision that says nothing about the job is refused: one about a success, and
// one of a [retry.Call] whose reason is in the caller, which is a case for
// [Table.Release].
func (t *Table[ID]) Fail(ctx context.Context, db DB, id ID, fence int64, d retry.Decision, args ...any) error {
	s, err := t.prepared()
	if err != nil {
		return err
	}
	ours := []any{int64(d.State.Failures)}
	if s.rateLimited {
		ours = append(ours, int64(d.State.RateLimited))
	}
	statement := &s.end
	switch {
	case d.Retry:
		statement = &s.retry
		ours = append(ours, microseconds(d.Delay))
	case d.Stop == retry.StopNone, d.Stop == retry.StopDeadline, d.Stop == retry.StopCanceled, d.Stop == retry.StopBudget:
		return fmt.Errorf("retrytable: fail: Stop: %v: does not end a job", d.Stop)
	}
	return exec(ctx, db, statement, args, append(ours, id, fence)...)
}

// Extend has the lease end in d, or in Table.Lease if d is 0 or less. It is the
// heartbeat of work that may take longer than that; stop the work if it returns
// [ErrLeaseLost].
func (t *Table[ID]) Extend(ctx context.Context, db DB, id ID, fence int64, d time.Duration) error {
	s, err := t.prepared()
	if err != nil {
		return err
	}
	lease := s.lease
	if d > 0 {
		lease = microseconds(d)
	}
	return exec(ctx, db, &s.extend, nil, lease, id, fence)
}

// Release gives a row back that was not worked on, as when a worker is told to
// stop: it is due at once, and its attempt does not count.
func (t *Table[ID]) Release(ctx context.Context, db DB, id ID, fence int64, args ...any) error {
	s, err := t.prepared()
	if err != nil {
		return err
	}
	return exec(ctx, db, &s.release, args, id, fence)
}

// exec runs s for one row.
func exec(ctx context.Context, db DB, s *statement, users []any, ours ...any) error {
	args, err := s.arguments(users, ours...)
	if err != nil {
		return err
	}
	result, err := db.ExecContext(ctx, s.sql, args...)
	if err != nil {
		return s.failed(err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return s.failed(err)
	}
	if n == 0 {
		return ErrLeaseLost
	}
	return nil
}
