package retrytable

import (
	"context"
	"database/sql"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Lease is the right to a row for a while, as [Table.Claim] and [Table.Sweep] give
// it: what the methods that finish a job ask for. It may be stored, or sent to
// whoever does the work.
type Lease[ID any] struct {
	ID    ID    // of the row
	Fence int64 // the number of the claim; a later one has another
}

// Row is a row whose lease is the caller's.
type Row[ID any] struct {
	Lease[ID]

	// State is that before the attempt that the row was claimed for, or that was
	// lost: what [retry.Policy.Next] takes for its failure. Key is empty.
	State retry.State

	// Claimed is when, by the clock of the database.
	Claimed time.Time

	received time.Time // by the clock of this process, for what has passed since
}

// Now is the time by the clock of the database: the time of the claim, and what has
// passed since in this process. It is the now for [retry.Policy.Next] and
// [retry.Policy.Exhausted], which compare it with State.First, so that no other
// clock plays a part.
func (r *Row[ID]) Now() time.Time {
	if r.received.IsZero() {
		return r.Claimed
	}
	return r.Claimed.Add(time.Since(r.received))
}

// Claim takes up to n rows that are due, and counts an attempt for each. No row
// is claimed twice, by however many workers. There may be fewer rows than are
// due, where another transaction holds some of them. The order of those returned
// is not defined. An n of 0 or less claims nothing.
//
// Claim what is begun at once, and no more: when a worker dies, the rows that
// it had not come to have lost an attempt too.
//
// With an OrderBy, Claim is two statements: it promotes the retries that are due first,
// see [Table.Promote].
//
// An error does not mean that nothing was claimed; see the package comment.
func (t *Table[ID]) Claim(ctx context.Context, db DB, n int, args ...any) ([]Row[ID], error) {
	s, err := t.prepared()
	if err != nil {
		return nil, err
	}
	if s.promotes && n > 0 && len(args) == s.claim.args {
		if _, err := t.Promote(ctx, db, max(n, promotions), args[:s.promote.args]...); err != nil {
			return nil, err
		}
	}
	return pick[ID](ctx, db, &s.claim, n, 0, args, scanRow[ID])
}

// promotions is how many rows a claim promotes at most, if it claims fewer: enough to be
// quicker than the claims, and few enough not to be felt.
const promotions = 100

// Sweep takes over up to n rows whose lease has run out, oldest first. Their
// attempts failed with [retry.ErrLost]: hand each to [Table.Fail], with what the
// policy makes of that. Until then the lease is the caller's, the status is what
// it was, and nothing is counted anew, so a sweeper may die too. Every worker may
// sweep.
func (t *Table[ID]) Sweep(ctx context.Context, db DB, n int, args ...any) ([]Row[ID], error) {
	s, err := t.prepared()
	if err != nil {
		return nil, err
	}
	return pick[ID](ctx, db, &s.sweep, n, 0, args, scanRow[ID])
}

// Promote makes up to n rows that are due Ready without a due time, oldest first,
// and returns their IDs. In a table with an OrderBy, [Table.Claim] does so with 100 rows
// or as many as it claims, unless there is NoPromote.
func (t *Table[ID]) Promote(ctx context.Context, db DB, n int, args ...any) ([]ID, error) {
	s, err := t.prepared()
	if err != nil {
		return nil, err
	}
	return pick[ID](ctx, db, &s.promote, n, 0, args, scanID[ID])
}

func scanID[ID any](rows *sql.Rows) (id ID, err error) {
	err = rows.Scan(&id)
	return id, err
}

func scanRow[ID any](rows *sql.Rows) (r Row[ID], err error) {
	var attempts, rateLimited, pending, now int64
	var first sql.NullInt64
	if err := rows.Scan(&r.ID, &r.Fence, &attempts, &rateLimited, &pending, &first, &now); err != nil {
		return r, err
	}
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
