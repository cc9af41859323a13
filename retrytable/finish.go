package retrytable

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// finishing is a statement about one claimed row, with its arguments.
type finishing[ID any] struct {
	*statement

	lease Lease[ID]
	users []any // those of the user's SQL
	ours  []any // those of ours, before the ID and the fence
}

// exec runs f. It returns [ErrLeaseLost] if the row is not the caller's any more.
func (f *finishing[ID]) exec(ctx context.Context, db DB) error {
	return exec(ctx, db, f.statement, f.users, append(slices.Clip(f.ours), f.lease.ID, f.lease.Fence)...)
}

// others returns f with texts that the database may rather have.
func (f *finishing[ID]) others() (all []*finishing[ID]) {
	if !f.text {
		return nil
	}
	before := f.ours[:len(f.ours)-1]
	if text, ok := f.ours[len(before)].(string); ok {
		for _, instead := range []any{plain(text), nil} {
			all = append(all, &finishing[ID]{f.statement, f.lease, f.users, append(slices.Clone(before), instead)})
		}
	}
	return all
}

// Succeed ends a job that is done. Like Fail, Extend and Release, it returns
// [ErrLeaseLost] if the caller has lost the lease. A lease that has run out is lost only
// when somebody sweeps it.
func (t *Table[ID]) Succeed(ctx context.Context, db DB, lease Lease[ID], args ...any) error {
	return t.finish(ctx, db, lease, args, func(s *statements) (*statement, []any, error) {
		return s.succeeding(s.done[0])
	})
}

// SucceedAs is Succeed with another word for the status, one of Statuses.Done: for
// jobs that may succeed in several ways.
func (t *Table[ID]) SucceedAs(ctx context.Context, db DB, lease Lease[ID], word string, args ...any) error {
	return t.finish(ctx, db, lease, args, func(s *statements) (*statement, []any, error) {
		return s.succeeding(word)
	})
}

// Fail stores d.State, and lets the job wait for d.Delay or ends it. The decision d comes
// from [retry.Policy.Next] or [retry.Policy.Exhausted] with the State of the claimed
// [Row]. A hint of a server that is longer than MaxRetryAfter ends the job too, so let a
// stored job wait for long.
//
// In a table with Columns.Error, Fail stores the text of d.Err. A decision to retry has
// none: use [Table.FailWith], or the text is NULL.
//
// Fail refuses a decision that says nothing about the job: a decision about a success, or
// one of a [retry.Call] that ended because of its caller. In the second case use
// [Table.Release].
func (t *Table[ID]) Fail(ctx context.Context, db DB, lease Lease[ID], d retry.Decision, args ...any) error {
	return t.FailWith(ctx, db, lease, d, nil, args...)
}

// FailWith is Fail with the failure that d is about, for Columns.Error. Fail knows it only
// if it ends the job.
func (t *Table[ID]) FailWith(
	ctx context.Context, db DB, lease Lease[ID], d retry.Decision, failure error, args ...any,
) error {
	return t.finish(ctx, db, lease, args, func(s *statements) (*statement, []any, error) {
		return s.failing(d, failure)
	})
}

// Extend makes the lease end in d, or in Table.Lease if d is 0 or less. It is the
// heartbeat of work that may take longer than its lease; stop the work if it returns
// [ErrLeaseLost].
func (t *Table[ID]) Extend(ctx context.Context, db DB, lease Lease[ID], d time.Duration) error {
	return t.finish(ctx, db, lease, nil, func(s *statements) (*statement, []any, error) {
		return s.extending(d)
	})
}

// Release gives back a row that was not worked on, for example when a worker stops: the
// row is due at once, and its attempt does not count.
func (t *Table[ID]) Release(ctx context.Context, db DB, lease Lease[ID], args ...any) error {
	return t.finish(ctx, db, lease, args, func(s *statements) (*statement, []any, error) {
		return s.releasing(0)
	})
}

// finish runs one of the statements for one row.
func (t *Table[ID]) finish(
	ctx context.Context, db DB, lease Lease[ID], args []any, which func(*statements) (*statement, []any, error),
) error {
	s, err := t.prepared()
	if err != nil {
		return err
	}
	statement, ours, err := which(s)
	if err != nil {
		return err
	}
	return (&finishing[ID]{statement, lease, args, ours}).exec(ctx, db)
}

// succeeding returns the statement of a success, and its arguments.
func (s *statements) succeeding(word string) (*statement, []any, error) {
	if !slices.Contains(s.done, word) {
		return nil, nil, refused("succeed: status: %q: must be one of Statuses.Done: %q", word, s.done)
	}
	return &s.succeed, []any{word}, nil
}

// failing returns the statement of a failure, and its arguments.
func (s *statements) failing(d retry.Decision, failure error) (*statement, []any, error) {
	var ours []any
	if d.Retry || s.columns.Attempts != "" {
		ours = append(ours, int64(d.State.Failures))
	}
	if s.columns.RateLimited != "" {
		ours = append(ours, int64(d.State.RateLimited))
	}
	if s.columns.Pending != "" {
		ours = append(ours, int64(d.State.Pending))
	} else if d.State.Pending > 0 {
		return nil, nil, refused("fail: State.Pending: %d: the table has no column for it: name one in Columns.Pending", d.State.Pending)
	}
	if s.columns.First != "" {
		ours = append(ours, sql.NullInt64{Int64: d.State.First.UnixMicro(), Valid: !d.State.First.IsZero()})
	}
	which := &s.end
	switch {
	case d.Retry:
		which, ours = &s.retry, append(ours, microseconds(d.Delay))
	case d.Stop == retry.StopNone, d.Stop == retry.StopDeadline, d.Stop == retry.StopCanceled, d.Stop == retry.StopBudget:
		return nil, nil, refused("fail: Stop: %v: does not end a job", d.Stop)
	}
	if which.text {
		ours = append(ours, textOf(d, failure))
	}
	return which, ours, nil
}

// extending returns the statement of a longer lease, and its arguments.
func (s *statements) extending(d time.Duration) (*statement, []any, error) {
	micros := s.lease
	if d > 0 {
		micros = microseconds(d)
	}
	return &s.extend, []any{micros}, nil
}

// releasing returns the statement that gives back a row, which is due in d, and its
// arguments.
func (s *statements) releasing(d time.Duration) (*statement, []any, error) {
	if d > 0 {
		return &s.postpone, []any{microseconds(d)}, nil
	}
	return &s.release, nil, nil
}
