package retrytable

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Row is a row whose lease is the caller's.
type Row[ID any] struct {
	ID    ID
	Fence int64 // of the lease: what the methods that finish it ask for

	// State is that before the attempt that the row was claimed for, or that was
	// lost: what [retry.Policy.Next] takes for its failure. Key is empty.
	State retry.State

	// Claimed is when, by the clock of the database.
	Claimed time.Time

	received time.Time // by the clock of this process, for what has passed since
}

// Now is the time by the clock of the database: that of the claim, and what has
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
// An error does not mean that nothing was claimed; see the package comment.
func (t *Table[ID]) Claim(ctx context.Context, db DB, n int, args ...any) ([]Row[ID], error) {
	s, err := t.prepared()
	if err != nil {
		return nil, err
	}
	return queryAll(ctx, db, &s.claim, n, args, scanRow[ID])
}

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
	return queryAll(ctx, db, &s.sweep, n, args, scanRow[ID])
}

// Promote makes up to n rows that are due Ready without a due time, oldest first,
// and returns their IDs. It is for tables with an OrderBy; see there.
func (t *Table[ID]) Promote(ctx context.Context, db DB, n int, args ...any) ([]ID, error) {
	s, err := t.prepared()
	if err != nil {
		return nil, err
	}
	return queryAll(ctx, db, &s.promote, n, args, func(rows *sql.Rows) (id ID, err error) {
		err = rows.Scan(&id)
		return id, err
	})
}

func scanRow[ID any](rows *sql.Rows) (r Row[ID], err error) {
	var attempts, rateLimited, now int64
	var first sql.NullInt64
	if err := rows.Scan(&r.ID, &r.Fence, &attempts, &rateLimited, &first, &now); err != nil {
		return r, err
	}
	// The attempt that the claim has counted is not one before it. A row that
	// was not counted at all may be swept too.
	r.State = retry.State{Failures: int(max(attempts-1, 0)), RateLimited: int(max(rateLimited, 0))}
	if first.Valid {
		r.State.First = time.UnixMicro(first.Int64).UTC()
	}
	r.Claimed, r.received = time.UnixMicro(now).UTC(), time.Now()
	return r, nil
}

// queryAll runs s for n rows and reads all that it returns: SQLite ends a
// statement only then.
func queryAll[T any](
	ctx context.Context, db DB, s *statement, n int, args []any, scan func(*sql.Rows) (T, error),
) (all []T, err error) {
	if n <= 0 {
		return nil, nil
	}
	if args, err = s.arguments(args, int64(n)); err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, s.sql, args...)
	if err != nil {
		return nil, s.failed(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		one, scanErr := scan(rows)
		err = cmp.Or(err, scanErr)
		all = append(all, one)
	}
	if err := cmp.Or(err, rows.Err()); err != nil {
		return nil, s.failed(err)
	}
	return all, nil
}

// arguments returns the arguments of the user's, if they are as many as its SQL
// has parameters, and ours.
func (s *statement) arguments(users []any, ours ...any) ([]any, error) {
	if len(users) != s.args {
		return nil, fmt.Errorf("retrytable: %s: args: %d given, %d wanted by the SQL of the Table",
			s.name, len(users), s.args)
	}
	return append(slices.Clip(users), ours...), nil
}

func (s *statement) failed(err error) error { return fmt.Errorf("retrytable: %s: %w", s.name, err) }
