package retrytable

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// Succeed ends a job that is done. Like Fail, Extend and Release, it returns
// [ErrLeaseLost] if the caller has lost the lease. A lease that has run out is lost only
// when somebody sweeps it.
func (t *Table[ID]) Succeed(ctx context.Context, db DB, lease Lease[ID], args ...any) error {
	return t.finish(ctx, db, lease, args, func(s *sqltable.Statements, row sqltable.Claimed) (*sqltable.Change, error) {
		return succeed(s, row, s.Statuses.Done[0])
	})
}

// SucceedAs is Succeed with another word for the status, one of Statuses.Done: for
// jobs that may succeed in several ways.
func (t *Table[ID]) SucceedAs(ctx context.Context, db DB, lease Lease[ID], word string, args ...any) error {
	return t.finish(ctx, db, lease, args, func(s *sqltable.Statements, row sqltable.Claimed) (*sqltable.Change, error) {
		return succeed(s, row, word)
	})
}

// Fail stores d.State, and lets the job wait for d.Delay or ends it. The decision d comes
// from [retry.Policy.Next] or [retry.Policy.Exhausted] with the State of the claimed
// [Row]. A hint of a server that is longer than MaxRetryAfter, a day by default here, ends
// the job too.
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
	return t.finish(ctx, db, lease, args, func(s *sqltable.Statements, row sqltable.Claimed) (*sqltable.Change, error) {
		return fail(s, row, d, textFor(s, d, failure))
	})
}

// Extend makes the lease end in d, or in Table.Lease if d is 0 or less. It is the
// heartbeat of work that may take longer than its lease; stop the work if it returns
// [ErrLeaseLost].
func (t *Table[ID]) Extend(ctx context.Context, db DB, lease Lease[ID], d time.Duration) error {
	return t.finish(ctx, db, lease, nil, func(s *sqltable.Statements, row sqltable.Claimed) (*sqltable.Change, error) {
		return s.Extend(row, d), nil
	})
}

// Release gives back a row that was not worked on, for example when a worker stops: the
// row is due at once, and its attempt does not count.
func (t *Table[ID]) Release(ctx context.Context, db DB, lease Lease[ID], args ...any) error {
	return t.finish(ctx, db, lease, args, func(s *sqltable.Statements, row sqltable.Claimed) (*sqltable.Change, error) {
		return s.Release(row, 0, false), nil
	})
}

// finish runs an update of one row, which change chooses.
func (t *Table[ID]) finish(
	ctx context.Context, db DB, lease Lease[ID], args []any,
	change func(*sqltable.Statements, sqltable.Claimed) (*sqltable.Change, error),
) error {
	s, err := t.sql()
	if err != nil {
		return err
	}
	c, err := change(s, lease.claimed(args))
	if err == nil {
		err = c.CheckArgs(args)
	}
	if err != nil {
		return retry.MarkFinal(err)
	}
	return exec(ctx, db, c)
}

func (l Lease[ID]) claimed(args []any) sqltable.Claimed {
	return sqltable.Claimed{ID: l.ID, Fence: l.Fence, Args: args}
}

// exec runs c. It returns [ErrLeaseLost] if the row is not the caller's any more.
func exec(ctx context.Context, db DB, c *sqltable.Change) error {
	held, err := c.Exec(ctx, db)
	if err == nil && !held {
		return ErrLeaseLost
	}
	return err
}

// succeed is the update of a success, with this word for the status.
func succeed(s *sqltable.Statements, row sqltable.Claimed, word string) (*sqltable.Change, error) {
	if !slices.Contains(s.Statuses.Done, word) {
		return nil, fmt.Errorf("retrytable: succeed: status: %q: must be one of Statuses.Done: %q", word, s.Statuses.Done)
	}
	return s.Succeed(row, word), nil
}

// fail is the update of a failure, about which d was decided, and which has the text.
func fail(s *sqltable.Statements, row sqltable.Claimed, d retry.Decision, text any) (*sqltable.Change, error) {
	f := sqltable.Failure{
		Retry: d.Retry, Delay: d.Delay,
		Failures: d.State.Failures, RateLimited: d.State.RateLimited, Pending: d.State.Pending, First: d.State.First,
	}
	switch {
	case d.Retry && f.Pending > 0 && s.Columns.Pending == "":
		return nil, fmt.Errorf("retrytable: fail: State.Pending: %d: the table has no column for it: name one in Columns.Pending", f.Pending)
	case d.Retry:
	case d.Stop == retry.StopNone, d.Stop == retry.StopDeadline, d.Stop == retry.StopCanceled, d.Stop == retry.StopBudget:
		return nil, fmt.Errorf("retrytable: fail: Stop: %w: does not end a job", d.Stop)
	}
	f.Category, f.Text = d.Verdict.Category, text
	return s.Fail(row, f), nil
}

// textFor is textOf if the table has a column for it.
func textFor(s *sqltable.Statements, d retry.Decision, failure error) any {
	if s.Columns.Error == "" {
		return nil
	}
	return textOf(d, failure)
}

// textOf is what Columns.Error has after a decision about a failure: nil if the failure is
// not known. Columns.Attempts tells already that no attempt is left.
func textOf(d retry.Decision, failure error) any {
	if !d.Retry && d.Err != nil {
		failure = d.Err
		gaveUp, ok := d.Err.(*retry.Error) //nolint:errorlint // that of the job, unless the failure is Final
		if ok && d.Stop == retry.StopAttempts && gaveUp.Err != nil && gaveUp.Cut == nil {
			failure = gaveUp.Err
		}
	}
	if failure == nil {
		return nil
	}
	return sqltable.Storable(fmt.Sprint(failure)) // fmt survives an Error method that panics
}

// refused is the error of a call that another attempt does not make better.
func refused(format string, args ...any) error {
	return retry.MarkFinal(fmt.Errorf("retrytable: "+format, args...))
}
