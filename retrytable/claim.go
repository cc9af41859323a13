package retrytable

import (
	"context"
	"database/sql"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// Lease is the right to a row for a while. [Table.Claim] and [Table.Sweep] give it, and
// the methods that finish a job need it. It may be stored, or sent to the process that
// does the work and ends the job by a call: the example of internal/test/real/tabletest does so, for a
// job that it claims by its ID, with a ClaimWhere of "id = $1".
type Lease[ID any] struct {
	ID    ID    // of the row
	Fence int64 // the number of the claim; a later claim has another
}

// Row is a row whose lease is the caller's.
type Row[ID any] struct {
	Lease[ID]

	// State is the state before the attempt for which the row was claimed, or which was
	// lost. Pass it to [retry.Policy.Next] with the failure of that attempt. Key is empty.
	State retry.State

	// Kind is the value of Columns.Kind. It is "" for NULL, and if there is no such column.
	Kind string

	// Key is the value of Columns.Key, as a text. It is "" for NULL, and if there is no such column.
	Key string

	// Claimed is the time of the claim, by the clock of the database.
	Claimed time.Time

	received time.Time // by the clock of this process, for what has passed since
}

// Now returns the time by the clock of the database: the time of the claim, plus the time
// that has passed since then in this process. Pass it as now to [retry.Policy.Next] and
// [retry.Policy.Exhausted], which compare it with State.First, so that one clock decides.
func (r *Row[ID]) Now() time.Time {
	if r.received.IsZero() {
		return r.Claimed
	}
	return r.Claimed.Add(time.Since(r.received))
}

// Claim takes up to n rows that are due, and counts an attempt for each. No row
// is claimed twice, whatever the number of workers. There may be fewer rows than are due,
// if another transaction holds some of them. The order of the returned rows
// is not defined. An n of 0 or less claims nothing.
//
// Claim only rows that are begun at once: when a worker dies, the rows that it had not
// begun have lost an attempt too.
//
// With an OrderBy, Claim is two statements: it first promotes the retries that are due,
// see [Table.Promote].
//
// An error does not mean that nothing was claimed; see the package comment.
func (t *Table[ID]) Claim(ctx context.Context, db DB, n int, args ...any) ([]Row[ID], error) {
	s, err := t.sql()
	if err != nil {
		return nil, err
	}
	if s.Promotes && n > 0 && len(args) == s.Claim.NArgs {
		if _, err := t.Promote(ctx, db, max(n, promotions), args[:s.Promote.NArgs]...); err != nil {
			return nil, err
		}
	}
	return picked(ctx, t, db, func(s *sqltable.Statements) *sqltable.Pick { return s.Claim }, n, args, scanRow[ID])
}

// promotions is how many rows a claim promotes at most, if it claims fewer: enough to be
// quicker than the claims, and few enough not to be felt.
const promotions = 100

// Sweep takes over up to n rows whose lease has run out, oldest first. Their
// attempts failed with [retry.ErrLost]: pass each to [Table.Fail], with the policy's
// decision about that error. Until then the caller has the lease, the status stays, and
// nothing is counted anew, so a sweeper may die too. Every worker may
// sweep.
func (t *Table[ID]) Sweep(ctx context.Context, db DB, n int, args ...any) ([]Row[ID], error) {
	return picked(ctx, t, db, func(s *sqltable.Statements) *sqltable.Pick { return s.Sweep }, n, args, scanRow[ID])
}

// Promote makes up to n due rows Ready, removes their due time, and returns their IDs,
// oldest first. In a table with an OrderBy, [Table.Claim] does that with 100 rows, or as
// many as it claims if that is more, unless NoPromote is set.
func (t *Table[ID]) Promote(ctx context.Context, db DB, n int, args ...any) ([]ID, error) {
	return picked(ctx, t, db, func(s *sqltable.Statements) *sqltable.Pick { return s.Promote }, n, args, scanID[ID])
}

// picked runs one of the statements for n rows, with the args of the user.
func picked[ID, T any](
	ctx context.Context, t *Table[ID], db DB, which func(*sqltable.Statements) *sqltable.Pick, n int, args []any,
	scan func(*sql.Rows) (T, error),
) ([]T, error) {
	s, err := t.sql()
	if err != nil || n <= 0 {
		return nil, err
	}
	p := which(s)
	if err := p.CheckArgs(args); err != nil {
		return nil, retry.MarkFinal(err)
	}
	return sqltable.Rows(ctx, db, p, sqltable.Some{N: n}, args, scan)
}

func scanID[ID any](rows *sql.Rows) (id ID, err error) {
	err = rows.Scan(&id)
	return id, err
}

func scanRow[ID any](rows *sql.Rows) (r Row[ID], err error) {
	var attempts, rateLimited, pending, now int64
	var first sql.NullInt64
	var kind, key sql.NullString
	if err := rows.Scan(&r.ID, &r.Fence, &attempts, &rateLimited, &pending, &first, &kind, &key, &now); err != nil {
		return r, err
	}
	r.Kind, r.Key = kind.String, key.String
	// The attempt that the claim has counted is not one before it. A row that
	// was not counted at all may be swept too.
	r.State = retry.State{
		Failures: int(max(attempts-1, 0)), RateLimited: int(max(rateLimited, 0)), Pending: int(max(pending, 0)),
	}
	if first.Valid {
		r.State.First = time.UnixMicro(first.Int64).UTC()
	}
	r.Claimed, r.received = time.UnixMicro(now).UTC(), time.Now()
	return r, nil
}
