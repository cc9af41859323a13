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
	rows  []claimed[ID]
	short bool          // fewer jobs are due than it would have taken
	held  time.Duration // until there are turns for more jobs
	next  time.Time     // when there may be turns for jobs of a kind or key that wait; zero if none do
}

// claimed is a row that was claimed.
type claimed[ID any] struct {
	Row[ID]

	ends time.Time  // of the lease at the earliest, by the clock of this process
	turn retry.Turn // of the attempt; 0 if it takes its own
	of   *turns     // where turn is from
}

// claim claims up to n jobs. It is not canceled, because a canceled statement may have claimed
// rows, which nobody would work on until their leases run out.
func (s *claiming[ID]) claim(n int) (b batch[ID], err error) {
	if s.Turn != nil {
		n = min(n, 1) // the limit in ClaimWhere does not count the other rows of the same claim
	}
	began := time.Now()
	isEnough := func() bool { // their leases run
		return len(b.rows) >= n || len(b.rows) > 0 && time.Since(began) > s.lease/10
	}
	if s.limits.first = !s.limits.first; s.limits.first {
		err = s.claimLimited(&b, n, isEnough)
	}
	if err == nil && !isEnough() {
		err = s.claimOthers(&b, n-len(b.rows))
	}
	if err == nil && !s.limits.first {
		err = s.claimLimited(&b, n, isEnough)
	}
	if b.next = s.limits.next(); b.next.IsZero() || !s.ahead.again.IsZero() && s.ahead.again.Before(b.next) {
		b.next = s.ahead.again
	}
	return b, err
}

// claimOthers claims up to n jobs but those of limits. If all jobs have the same policy and it has
// a Quota, it takes their turns first. So jobs without a turn cost nothing, and keep their order.
func (s *claiming[ID]) claimOthers(b *batch[ID], n int) (err error) {
	from, turn := &turns{policy: s.Policy}, retry.Turn(0)
	if s.PolicyFor == nil && s.Policy != nil && s.Policy.Quota != nil {
		from.quota = s.Policy.Quota
		if !s.more { // a turn that is asked for counts as a wish
			n = 1
		}
		if turn, n, b.held = s.takeTurns(from, n); n == 0 {
			return nil
		}
	}
	var rows []Row[ID]
	defer func() { s.giveBack(from, turn, n-len(rows)) }()
	if p := s.statements.Promote; s.statements.Promotes {
		if _, err := take(s, &s.refusing.promote, p, sqltable.Some{N: max(n, promotions)}, s.ClaimArgs[:p.NArgs], scanID[ID]); err != nil {
			return err
		}
	}
	began := time.Now()
	rows, b.short, err = s.claimPast(n)
	b.add(rows, began.Add(s.lease), turn, from)
	s.more = !b.short
	if err == nil && len(rows) == 0 {
		err = s.touch()
	}
	return err
}

func (b *batch[ID]) add(rows []Row[ID], ends time.Time, turn retry.Turn, from *turns) {
	for _, row := range rows {
		b.rows = append(b.rows, claimed[ID]{row, ends, turn, from})
	}
}

// taking is one statement that takes up to n rows, and what it has taken.
type taking[ID, T any] struct {
	*claiming[ID]

	from *sqltable.Pick
	some sqltable.Some // the rows that are wanted
	args []any
	scan func(*sql.Rows) (T, error)

	tries

	began time.Time
	all   []T
}

// take runs a statement that takes some rows. If the database refuses that, take finds out
// which rows are refused, and takes others. The refusal is an error only if there are no others.
func take[ID, T any](
	s *claiming[ID], o *obstacles, from *sqltable.Pick, some sqltable.Some, args []any, scan func(*sql.Rows) (T, error),
) ([]T, error) {
	t := &taking[ID, T]{claiming: s, from: from, some: some, args: args, scan: scan, began: time.Now()}
	if some.Of == nil { // otherwise nobody would know whose rows were tried
		if ids := o.due(some.N); len(ids) > 0 {
			t.some.But = nil
			_ = t.past(o, ids, nil) // they are known to be refused
			if t.some.But = some.But; len(t.all) > 0 {
				o.next = time.Time{} // others may be mended too
			}
		}
	}
	if t.outage != nil || t.isEnough() {
		return t.all, t.outage
	}
	err := t.take(o.without(), false, s.patience())
	if err == nil || !dberr.MaybeOfRow(err) {
		return t.all, err
	}
	ids, unanswered := t.look(o.without(), mostLooked)
	if unanswered != nil || len(ids) == 0 {
		return t.all, err
	}
	return t.all, t.past(o, ids, err)
}

// isEnough reports whether to stop taking rows: all that were wanted are taken, or the first
// of them have waited for a while, and their leases run.
func (t *taking[ID, T]) isEnough() bool {
	return len(t.all) >= t.some.N || len(t.all) > 0 && time.Since(t.began) > t.lease/10
}

// take takes rows with one of those IDs, or others, and no more than are still wanted.
func (t *taking[ID, T]) take(ids []any, these bool, limit time.Duration) error {
	t.lane.Lock()
	defer t.lane.Unlock()
	which := t.which(ids, these)
	got, err := answerWithin(t.ctx, t.shift, limit, func(ctx context.Context) ([]T, error) {
		return t.inTurn(ctx, which)
	})
	t.all = append(t.all, got...)
	return err
}

// which narrows the rows that are wanted to those with one of the IDs, or to others.
func (t *taking[ID, T]) which(ids []any, these bool) sqltable.Some {
	some := t.some
	some.N -= len(t.all)
	some.IDs, some.None = ids, !these
	return some
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

// look returns which rows are to be taken, n at most, in their order. It changes nothing.
func (t *taking[ID, T]) look(without []any, n int) (ids []any, err error) {
	t.lane.Lock()
	defer t.lane.Unlock()
	which := t.which(without, false)
	which.N = n
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
			err := t.take(ids[from:to], true, limit)
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

// without are the IDs of the obstacles.
func (o *obstacles) without() (ids []any) {
	for _, row := range o.rows {
		ids = append(ids, row.id)
	}
	return ids
}

// isDue reports whether some are to be tried again.
func (o *obstacles) isDue() bool {
	now := time.Now()
	if now.Before(o.next) {
		return false
	}
	for _, row := range o.rows {
		if !now.Before(row.until) {
			return true
		}
	}
	return false
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
