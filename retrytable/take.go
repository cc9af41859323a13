package retrytable

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// claim claims up to n jobs, and returns when their leases end at the earliest, by the
// clock of this process. It is not canceled: rows that a canceled statement has claimed
// would be lost until their leases run out.
func (s *shift[ID]) claim(n int) (rows []Row[ID], ends time.Time, err error) {
	if s.BeforeClaim != nil {
		ctx, cancel := context.WithTimeout(s.ctx, s.patience())
		defer cancel()
		if err := guard("BeforeClaim", func() error { return s.BeforeClaim(ctx) }); err != nil {
			return nil, ends, err
		}
	}
	if p := &s.statements.promote; s.statements.promotes {
		if _, err := take(s, &s.promoting, p, max(n, promotions), s.ClaimArgs[:p.args], scanID[ID]); err != nil {
			return nil, ends, err
		}
	}
	ends = time.Now().Add(s.lease)
	rows, err = take(s, &s.claiming, &s.statements.claim, s.atOnce(n), s.ClaimArgs, scanRow[ID])
	return rows, ends, err
}

// atOnce is how many of n jobs one claim takes: those that it takes do not see each other.
func (s *shift[ID]) atOnce(n int) int {
	if s.Turn == nil {
		return n
	}
	return min(n, 1)
}

// inTurn runs a statement that takes rows, after Turn if it claims them.
func inTurn[ID, T any](
	ctx context.Context, s *shift[ID], from *statement, n, behind int, args []any, scan func(*sql.Rows) (T, error),
) (all []T, err error) {
	if s.Turn == nil || from != &s.statements.claim {
		return pick[ID](ctx, s.DB, from, n, behind, args, scan)
	}
	err = inTx(ctx, s.DB, func(db DB) error {
		if err := guard("Turn", func() error { return s.Turn(ctx, db) }); err != nil {
			return err
		}
		all, err = pick[ID](ctx, db, from, n, behind, args, scan)
		return err
	})
	if err != nil { // of the commit too: what was claimed is lost until its lease runs out
		return nil, err
	}
	return all, nil
}

// obstacle is one or several rows that the database lets nobody take, because of a
// trigger or a constraint. They are first in the order of a statement; for a while, it
// takes the rows behind them.
type obstacle struct {
	rows  int
	times int       // that they were met in a row
	until time.Time // when they are tried again
}

// mostObstacles is how many rows may be in the way. If more of them in a row cannot be
// taken, the rows are not at fault.
const mostObstacles = 10

// take runs a statement that takes up to n rows. If the database refuses that because of
// one of them, they are taken one by one.
func take[ID, T any](
	s *shift[ID], o *obstacle, from *statement, n int, args []any, scan func(*sql.Rows) (T, error),
) ([]T, error) {
	some := func(n, behind int) ([]T, error) {
		return within(s.ctx, s, s.patience(), func(ctx context.Context) ([]T, error) {
			return inTurn(ctx, s, from, n, behind, args, scan)
		})
	}
	behind := 0
	if time.Now().Before(o.until) {
		behind = o.rows
	}
	all, err := some(n, behind)
	switch {
	case err == nil && behind == 0:
		*o = obstacle{}
		return all, nil
	case err == nil || !rowFault(err):
		return all, err
	}
	rows := 0
	for len(all) < n && rows <= mostObstacles {
		one, another := some(1, rows)
		switch {
		case another == nil && len(one) == 0:
			n = 0
		case another == nil:
			all = append(all, one...)
		case rowFault(another):
			rows++
		default:
			return all, another
		}
	}
	switch {
	case rows == 0: // it was something that passes
		return all, nil
	case rows > mostObstacles && len(all) == 0:
		return nil, err
	}
	o.rows, o.times = rows, o.times+1
	o.until = time.Now().Add(s.pause(o.times))
	s.report(fmt.Errorf("%w: went past %d rows", err, rows))
	return all, nil
}
