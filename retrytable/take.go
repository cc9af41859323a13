package retrytable

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/dberr"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/sift"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// batch is what one claim has taken.
type batch[ID any] struct {
	rows  []Row[ID]
	short bool          // fewer jobs are due than it would have taken
	ends  time.Time     // of the leases at the earliest, by the clock of this process
	turn  retry.Turn    // of the attempts; 0 if they take their own
	held  time.Duration // until there are turns for more jobs
}

// claim claims up to n jobs. It is not canceled, because a canceled statement may have claimed
// rows, which nobody would work on until their leases run out.
func (s *shift[ID]) claim(n int) (b batch[ID], err error) {
	if b.turn, n, b.held = s.turns(s.atOnce(n)); n == 0 {
		return b, nil
	}
	defer func() { s.giveBack(b.turn, n-len(b.rows)) }()
	if p := s.statements.Promote; s.statements.Promotes {
		if _, err := take(s, &s.promoting, p, max(n, promotions), s.ClaimArgs[:p.NArgs], scanID[ID]); err != nil {
			return b, err
		}
	}
	b.ends = time.Now().Add(s.lease)
	b.rows, err = take(s, &s.claiming, s.statements.Claim, n, s.ClaimArgs, scanRow[ID])
	b.short = len(b.rows) < n
	s.more = !b.short
	if err == nil && len(b.rows) == 0 {
		err = s.touch()
	}
	return b, err
}

// turns takes turns for up to n jobs before they are claimed, if all jobs have the same policy
// and it has a Quota. So jobs without a turn cost nothing, and keep their order. If it is not known
// that more than one is due, it takes one, because a turn that is asked for counts as a wish.
func (s *shift[ID]) turns(n int) (turn retry.Turn, granted int, held time.Duration) {
	p := s.Policy
	if s.PolicyFor != nil || p == nil || p.Quota == nil {
		return 0, n, 0
	}
	if !s.more {
		n = min(n, 1)
	}
	err := engine.Guard("Quota", func() error {
		turn, granted, held = p.Quota.Take(p, n)
		return nil
	})
	if err != nil {
		s.report(err)
		return 0, 0, longestPoll
	}
	if granted = min(max(granted, 0), n); granted == n {
		return turn, n, 0
	}
	return turn, granted, max(held, time.Millisecond)
}

// giveBack returns turns that were not used.
func (s *shift[ID]) giveBack(turn retry.Turn, n int) {
	if turn == 0 || n == 0 {
		return
	}
	if err := engine.Guard("Quota", func() error { s.Policy.Quota.Return(s.Policy, turn, n); return nil }); err != nil {
		s.report(err)
	}
}

// atOnce is how many of n jobs one claim takes. With Turn it takes one, because the limit in
// ClaimWhere does not count the other rows of the same claim.
func (s *shift[ID]) atOnce(n int) int {
	if s.Turn == nil {
		return n
	}
	return min(n, 1)
}

// taking is one statement that takes up to n rows, and what it has taken.
type taking[ID, T any] struct {
	*shift[ID]

	from *sqltable.Pick
	n    int
	args []any
	scan func(*sql.Rows) (T, error)

	tries

	began time.Time
	all   []T
}

// take runs a statement that takes up to n rows. If the database refuses that, take finds out
// which rows are refused, and takes others. The refusal is an error only if there are no others.
func take[ID, T any](
	s *shift[ID], o *obstacles, from *sqltable.Pick, n int, args []any, scan func(*sql.Rows) (T, error),
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
	err := t.some(o.without(), s.patience())
	if err == nil || !dberr.MaybeOfRow(err) {
		return t.all, err
	}
	ids, unanswered := t.look(o.without())
	if unanswered != nil || len(ids) == 0 {
		return t.all, err
	}
	return t.all, t.past(o, ids, err)
}

// isEnough reports whether to stop taking rows: all that were wanted are taken, or the first
// of them have waited for a while, and their leases run.
func (t *taking[ID, T]) isEnough() bool {
	return len(t.all) >= t.n || len(t.all) > 0 && time.Since(t.began) > t.lease/10
}

// some takes some of those rows, and no more than are still wanted.
func (t *taking[ID, T]) some(which sqltable.Some, limit time.Duration) error {
	t.lane.Lock()
	defer t.lane.Unlock()
	which.N = t.n - len(t.all)
	got, err := answerWithin(t.ctx, t.shift, limit, func(ctx context.Context) ([]T, error) {
		return t.inTurn(ctx, which)
	})
	t.all = append(t.all, got...)
	return err
}

// inTurn runs the statement, after Turn if it claims rows. Where transactions are more isolated
// by default, a claim may conflict with another one. It then runs again in a transaction that
// is READ COMMITTED, which has no such conflicts.
func (t *taking[ID, T]) inTurn(ctx context.Context, which sqltable.Some) (all []T, err error) {
	pick := func(db sqltable.DB) (err error) {
		all, err = sqltable.Rows(ctx, db, t.from, which, t.args, t.scan)
		return err
	}
	takesTurns := t.Turn != nil && t.from == t.statements.Claim
	if !takesTurns {
		err = pick(t.DB)
	}
	if takesTurns || err != nil && dberr.Conflict(err) {
		err = sqltable.InTx(ctx, t.DB, func(db sqltable.DB) error {
			if takesTurns {
				if err := engine.Guard("Turn", func() error { return t.Turn(ctx, db) }); err != nil {
					return dberr.BesideRowsError{Err: err}
				}
			}
			return pick(db)
		})
	}
	if err != nil { // perhaps of the commit: then the rows are not ours
		return nil, err
	}
	return all, nil
}

// mostLooked is how many rows are looked at, besides those that are known to be refused.
const mostLooked = 1000

// look returns which rows are to be taken, in their order. It changes nothing.
func (t *taking[ID, T]) look(which sqltable.Some) (ids []any, err error) {
	t.lane.Lock()
	defer t.lane.Unlock()
	which.N = mostLooked
	return answerWithin(t.ctx, t.shift, t.patience(), func(ctx context.Context) ([]any, error) {
		return t.from.Look(ctx, t.DB, which, t.args)
	})
}

// past takes rows with those IDs, after the database has refused to take them together. It
// remembers the rows that are refused alone. It returns the refusal if no row can be taken.
func (t *taking[ID, T]) past(o *obstacles, ids []any, refusal error) error {
	var found []any
	missed, limit := false, t.patience()
	if !dberr.Answered(refusal) {
		limit /= 4
	}
	sift.Sift(len(ids), func(from, to int) sift.Answer {
		if t.isEnough() {
			return sift.Stop
		}
		return t.answer(func() error {
			err := t.some(sqltable.Some{IDs: ids[from:to]}, limit)
			switch {
			case err == nil:
				o.forget(ids[from:to])
			case to-from == 1 && dberr.MaybeOfRow(err):
				refusal = err
				found = append(found, ids[from])
			}
			return err
		})
	}, func(from, to int) {
		o.delay(ids[from:to], longestRefusal)
		missed = true
	})
	news := o.add(found)
	o.delay(found, max(longestRefusal, min(10*time.Since(t.began), longestPoll))) // longer if it took long
	switch {
	case missed && len(t.all) == 0:
		return cmp.Or(t.outage, refusal)
	case len(news) > 0:
		t.report(fmt.Errorf("%w: went past %d rows, such as %v, and tries them again later", refusal, len(news), news[0]))
	}
	return nil
}

// obstacles are rows that the database has refused to let us take, because of a trigger,
// for example. A statement leaves them out, and they are tried again in a while.
type obstacles struct {
	rows map[string]*obstacle
	next time.Time // when some of them may be tried again
}

type obstacle struct {
	id    any
	until time.Time // when it is tried again
}

const (
	mostObstacles = 1000        // are left out; a table that has more of them is refused
	mostOften     = time.Second // is the shortest time until some are tried again
)

// without is all rows but the obstacles.
func (o *obstacles) without() sqltable.Some {
	all := sqltable.Some{None: true}
	for _, row := range o.rows {
		all.IDs = append(all.IDs, row.id)
	}
	return all
}

// due returns up to n rows that are to be tried again, which they are once in a while.
func (o *obstacles) due(n int) (some []any) {
	now := time.Now()
	if now.Before(o.next) {
		return nil
	}
	for _, row := range o.rows {
		if len(some) < n && !now.Before(row.until) {
			some = append(some, row.id)
		}
	}
	if len(some) > 0 {
		o.next = now.Add(mostOften)
	}
	return some
}

// add adds rows, and returns those that are new.
func (o *obstacles) add(ids []any) (news []any) {
	if o.rows == nil {
		o.rows = map[string]*obstacle{}
	}
	for _, id := range ids {
		if key := sqltable.KeyOf(id); o.rows[key] == nil && len(o.rows) < mostObstacles {
			o.rows[key] = &obstacle{id: id}
			news = append(news, id)
		}
	}
	return news
}

// delay has those of the rows that are obstacles wait for a pause.
func (o *obstacles) delay(ids []any, pause time.Duration) {
	for _, id := range ids {
		if row := o.rows[sqltable.KeyOf(id)]; row != nil {
			row.until = time.Now().Add(pause/2 + rand.N(pause/2+1))
		}
	}
}

// forget forgets rows that were taken, or are not to be taken any more.
func (o *obstacles) forget(ids []any) {
	for _, id := range ids {
		delete(o.rows, sqltable.KeyOf(id))
	}
}
