package retrytable

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/show"
)

// end is how a row looks after a finish.
type end struct {
	fence       int64
	status      string
	due, leased bool
	state       retry.State // what the columns have of it; First is left out
}

// readBack finds out whether an outcome was stored by a try that had no answer, once
// another one has found that the lease is not ours any more. It was stored if the row
// looks as the outcome leaves it. Otherwise somebody has given the row another status,
// before or after that, and the error says what is there.
func (s *shift[ID]) readBack(ctx context.Context, o *Outcome[ID], limit time.Duration) error {
	q := s.statements.ended
	found, err := within(ctx, s, limit, func(ctx context.Context) ([]end, error) {
		return queryAll(ctx, s.DB, q.sql, q.ordered([]any{o.Job.ID}), scanEnd)
	})
	switch {
	case err != nil:
		return q.failed(err)
	case len(found) == 0:
		return fmt.Errorf("%w: the row is gone, and whether it ended like this is unknown", ErrLeaseLost)
	case found[0] != s.endOf(o, found[0]):
		return fmt.Errorf("%w: the status is %s now, of claim %d, and this was claim %d",
			ErrLeaseLost, show.Quote(found[0].status), found[0].fence, o.Job.Fence)
	default:
		return nil
	}
}

// endOf is how a row must look if the outcome was stored. Columns that the outcome does
// not store are as they were found.
func (s *shift[ID]) endOf(o *Outcome[ID], found end) end {
	statuses := s.statements.statuses
	want := end{fence: o.Job.Fence, state: o.Job.State}
	switch {
	case o.Released && o.Decision.Delay > 0:
		want.status, want.due = statuses.Waiting, true
	case o.Released:
		want.status = statuses.Ready
	case o.Err == nil:
		want.status, want.due, want.state = statuses.Done[0], found.due, found.state
		if o.Job.status != "" {
			want.status = o.Job.status
		}
	default:
		want.status, want.state = statuses.Dead, o.Decision.State
		if o.Decision.Retry {
			want.status, want.due = statuses.Waiting, true
		} else if s.statements.columns.Retries != "" {
			want.state.Failures = found.state.Failures
		}
	}
	want.state.First, want.state.Key = time.Time{}, ""
	if s.statements.columns.RateLimited == "" {
		want.state.RateLimited = 0
	}
	if s.statements.columns.Pending == "" {
		want.state.Pending = 0
	}
	return want
}

func scanEnd(rows *sql.Rows) (e end, err error) {
	var due, leased int64
	var attempts, rateLimited, pending int64
	var id, first, kind, now any
	err = rows.Scan(&e.status, &due, &leased, &id, &e.fence, &attempts, &rateLimited, &pending, &first, &kind, &now)
	e.due, e.leased = due == 1, leased == 1
	e.state = retry.State{Failures: int(attempts), RateLimited: int(rateLimited), Pending: int(pending)}
	return e, err
}
