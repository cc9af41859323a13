package retrytable

import (
	"cmp"
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

// taking is one statement that takes up to n rows, and what it has taken.
type taking[ID, T any] struct {
	*shift[ID]

	from *statement
	n    int
	args []any
	scan func(*sql.Rows) (T, error)

	began  time.Time
	all    []T
	slow   int // how many tries in a row had no answer in time
	outage error
}

// take runs a statement that takes up to n rows. If the database refuses that, take looks
// for the rows that are at fault, and takes others. Only if there are none, the refusal is
// an error.
func take[ID, T any](
	s *shift[ID], o *obstacles[ID], from *statement, n int, args []any, scan func(*sql.Rows) (T, error),
) ([]T, error) {
	t := &taking[ID, T]{shift: s, from: from, n: n, args: args, scan: scan, began: time.Now()}
	if ids := o.due(n); len(ids) > 0 {
		_ = t.past(o, ids, nil) // they are known to be refused
		if len(t.all) > 0 {
			o.next = time.Time{} // others may be mended too
		}
	}
	if t.outage != nil || t.isEnough() {
		return t.all, t.outage
	}
	err := t.some(listed{o.ids(), true}, s.patience())
	if err == nil || !maybeOfRow(err) {
		return t.all, err
	}
	ids, unanswered := t.look(listed{o.ids(), true})
	if unanswered != nil || len(ids) == 0 {
		return t.all, err
	}
	return t.all, t.past(o, ids, err)
}

// isEnough reports whether what was taken should go on its way, because there are all rows
// that were wanted, or the leases of the first ones have begun a while ago.
func (t *taking[ID, T]) isEnough() bool {
	return len(t.all) >= t.n || len(t.all) > 0 && time.Since(t.began) > t.lease/10
}

// some takes some of those rows.
func (t *taking[ID, T]) some(which listed, limit time.Duration) error {
	t.lane.Lock()
	defer t.lane.Unlock()
	n := t.n - len(t.all)
	got, err := within(t.ctx, t.shift, limit, func(ctx context.Context) ([]T, error) {
		return t.inTurn(ctx, n, which)
	})
	t.all = append(t.all, got...)
	return err
}

// inTurn runs the statement, after Turn if it claims rows. If transactions of the database
// are more isolated by default, a claim may conflict with another; READ COMMITTED has no
// such conflicts.
func (t *taking[ID, T]) inTurn(ctx context.Context, n int, which listed) (all []T, err error) {
	picked := func(db DB) (err error) {
		all, err = pick[ID](ctx, db, t.from, n, which, t.args, t.scan)
		return err
	}
	if t.Turn == nil || t.from != &t.statements.claim {
		if err = picked(t.DB); err != nil && conflict(err) {
			err = inTx(ctx, t.DB, picked)
		}
	} else {
		err = inTx(ctx, t.DB, func(db DB) error {
			if err := guard("Turn", func() error { return t.Turn(ctx, db) }); err != nil {
				return err
			}
			return picked(db)
		})
	}
	if err != nil { // of the commit too: what was claimed is lost until its lease runs out
		return nil, err
	}
	return all, nil
}

// mostLooked is how many rows are looked at behind those that are refused.
const mostLooked = 1000

// look returns which rows are to be taken, in their order. It changes nothing.
func (t *taking[ID, T]) look(which listed) ([]ID, error) {
	t.lane.Lock()
	defer t.lane.Unlock()
	return within(t.ctx, t.shift, t.patience(), func(ctx context.Context) ([]ID, error) {
		sql, args := t.from.narrow(t.from.look, mostLooked, which, t.args)
		return queryAll(ctx, t.DB, sql, args, scanID[ID])
	})
}

// past takes rows out of some of which the database refuses to take one, without those
// that it refuses, and remembers these. It returns the refusal if there is no other row.
func (t *taking[ID, T]) past(o *obstacles[ID], ids []ID, refusal error) error {
	var found []ID
	missed, limit := false, t.patience()
	if !answered(refusal) {
		limit /= 4
	}
	sift(len(ids), func(from, to int) answer {
		if t.isEnough() {
			return over
		}
		err := t.some(listed{anys(ids[from:to]), false}, limit)
		switch {
		case err == nil:
			t.slow = 0
			o.forget(ids[from:to])
			return fine
		case !maybeOfRow(err):
			t.outage, missed = err, true
			return over
		case to-from == 1:
			refusal = err
			found = append(found, ids[from])
		}
		if answered(err) {
			t.slow = 0
		} else if t.slow++; t.slow >= mostSlow {
			return over
		}
		return amiss
	}, func(from, to int) {
		o.delay(ids[from:to], longestRefusal)
		missed = true
	})
	// What takes long is tried more seldom.
	news := o.add(found, max(longestRefusal, min(10*time.Since(t.began), longestPoll)))
	switch {
	case missed && len(t.all) == 0:
		return cmp.Or(t.outage, refusal)
	case len(news) > 0:
		t.report(fmt.Errorf("%w: went past %d rows, such as %v, and tries them again later", refusal, len(news), news[0]))
	}
	return nil
}

// mostSlow is how many tries in a row may have no answer in time before that is nobody's
// fault.
const mostSlow = 3
