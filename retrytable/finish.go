package retrytable

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Succeed ends a job that is done. Like Fail, Extend and Release, it returns
// [ErrLeaseLost] if the caller has lost the lease. A lease that has run out is lost only
// when somebody sweeps it.
func (t *Table[ID]) Succeed(ctx context.Context, db DB, lease Lease[ID], args ...any) error {
	s, err := t.prepared()
	if err != nil {
		return err
	}
	return exec(ctx, db, &s.succeed, args, s.done[0], lease.ID, lease.Fence)
}

// SucceedAs is Succeed with another word for the status, one of Statuses.Done: for
// jobs that may succeed in several ways.
func (t *Table[ID]) SucceedAs(ctx context.Context, db DB, lease Lease[ID], word string, args ...any) error {
	s, err := t.prepared()
	if err != nil {
		return err
	}
	if !slices.Contains(s.done, word) {
		return refused("succeed: status: %q: must be one of Statuses.Done: %q", word, s.done)
	}
	return exec(ctx, db, &s.succeed, args, word, lease.ID, lease.Fence)
}

// Fail stores d.State, and lets the job wait for d.Delay or ends it. The decision d comes
// from [retry.Policy.Next] or [retry.Policy.Exhausted] with the State of the claimed
// [Row]. A hint of a server that is longer than MaxRetryAfter ends the job too, so let a
// stored job wait for long.
//
// Fail refuses a decision that says nothing about the job: a decision about a success, or
// one of a [retry.Call] that ended because of its caller. In the second case use
// [Table.Release].
func (t *Table[ID]) Fail(ctx context.Context, db DB, lease Lease[ID], d retry.Decision, args ...any) error {
	s, err := t.prepared()
	if err != nil {
		return err
	}
	ours := []any{int64(d.State.Failures)}
	if s.columns.RateLimited != "" {
		ours = append(ours, int64(d.State.RateLimited))
	}
	if s.columns.Pending != "" {
		ours = append(ours, int64(d.State.Pending))
	} else if d.State.Pending > 0 {
		return refused("fail: State.Pending: %d: the table has no column for it: name one in Columns.Pending", d.State.Pending)
	}
	if s.columns.First != "" {
		ours = append(ours, sql.NullInt64{Int64: d.State.First.UnixMicro(), Valid: !d.State.First.IsZero()})
	}
	statement := &s.end
	switch {
	case d.Retry:
		statement = &s.retry
		ours = append(ours, microseconds(d.Delay))
	case d.Stop == retry.StopNone, d.Stop == retry.StopDeadline, d.Stop == retry.StopCanceled, d.Stop == retry.StopBudget:
		return refused("fail: Stop: %v: does not end a job", d.Stop)
	}
	return exec(ctx, db, statement, args, append(ours, lease.ID, lease.Fence)...)
}

// Extend makes the lease end in d, or in Table.Lease if d is 0 or less. It is the
// heartbeat of work that may take longer than its lease; stop the work if it returns
// [ErrLeaseLost].
func (t *Table[ID]) Extend(ctx context.Context, db DB, lease Lease[ID], d time.Duration) error {
	s, err := t.prepared()
	if err != nil {
		return err
	}
	micros := s.lease
	if d > 0 {
		micros = microseconds(d)
	}
	return exec(ctx, db, &s.extend, nil, micros, lease.ID, lease.Fence)
}

// Release gives back a row that was not worked on, for example when a worker stops: the
// row is due at once, and its attempt does not count.
func (t *Table[ID]) Release(ctx context.Context, db DB, lease Lease[ID], args ...any) error {
	return t.release(ctx, db, lease, 0, args)
}

// release is Release of a row that is due in d.
func (t *Table[ID]) release(ctx context.Context, db DB, lease Lease[ID], d time.Duration, args []any) error {
	s, err := t.prepared()
	if err != nil {
		return err
	}
	if d > 0 {
		return exec(ctx, db, &s.postpone, args, microseconds(d), lease.ID, lease.Fence)
	}
	return exec(ctx, db, &s.release, args, lease.ID, lease.Fence)
}
