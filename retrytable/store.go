package retrytable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/dberr"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/sift"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// storeGroup stores outcomes with one statement, and tells each what has become of it. If
// the database refuses that, those that are at fault are looked for, and the others stored.
// Only if it is patient may it wait for the lock of a row.
func (s *shift[ID]) storeGroup(group []*queued, patient bool) {
	switch first := group[0]; {
	case first.ask != nil:
		first.stored <- first.ask(s.ctx)
		return
	case len(group) == 1 && patient && !first.alone, s.gathering.groups.areOff():
		s.storeEach(group)
		return
	}
	limit := s.limit(earliest(group))
	err := s.storeTogether(group, limit)
	switch {
	case err == nil:
	case len(group) == 1:
		group[0].alone = dberr.MaybeOfRow(err)
		group[0].stored <- err
	case !dberr.MaybeOfRow(err):
		tell(group, err)
	default:
		s.storeApart(group, err, limit)
	}
}

// earliest is when the first lease of a group ends.
func earliest(group []*queued) time.Time {
	ends := group[0].ends
	for _, q := range group[1:] {
		if q.ends.Before(ends) {
			ends = q.ends
		}
	}
	return ends
}

func tell(group []*queued, err error) {
	for _, q := range group {
		q.stored <- err
	}
}

// storeEach stores outcomes each with a statement of its own, until there is no answer.
func (s *shift[ID]) storeEach(group []*queued) {
	for i, q := range group {
		err := s.storeOne(q, s.limit(q.ends))
		q.stored <- err
		if err != nil && !errors.Is(err, ErrLeaseLost) && !dberr.Answered(err) {
			tell(group[i+1:], err)
			return
		}
	}
}

func (s *shift[ID]) storeOne(q *queued, limit time.Duration) error {
	err := s.within(s.ctx, limit, func(ctx context.Context) error { return exec(ctx, s.DB, q.Change) })
	q.alone = err != nil && !errors.Is(err, ErrLeaseLost) && dberr.MaybeOfRow(err)
	return err
}

// storeTogether stores a group with one statement. If that returns no error, all have been
// told: those that are not stored, that their leases are lost or their rows are locked.
func (s *shift[ID]) storeTogether(group []*queued, limit time.Duration) error {
	all := changes(group)
	stored, err := answerWithin(s.ctx, s, limit, func(ctx context.Context) ([]bool, error) {
		return sqltable.ExecAll(ctx, s.DB, all)
	})
	if err != nil {
		return err
	}
	var rest []*queued
	for i, q := range group {
		if stored[i] {
			q.stored <- nil
		} else {
			rest = append(rest, q)
		}
	}
	ours, err := s.ours(rest, limit, ErrLeaseLost)
	if err == nil {
		err = errLocked
	}
	tell(ours, err)
	return nil
}

// ours returns the outcomes of a group that still have their leases, and tells the others
// the error lost. If the database does not answer, it returns the whole group, and the error.
func (s *shift[ID]) ours(group []*queued, limit time.Duration, lost error) (ours []*queued, err error) {
	if len(group) == 0 {
		return nil, nil
	}
	all := changes(group)
	held, err := answerWithin(s.ctx, s, limit, func(ctx context.Context) ([]bool, error) {
		return s.statements.Held(ctx, s.DB, all)
	})
	if err != nil {
		return group, err
	}
	for i, q := range group {
		if held[i] {
			ours = append(ours, q)
		} else {
			q.stored <- lost
		}
	}
	return ours, nil
}

func changes(group []*queued) (all []*sqltable.Change) {
	for _, q := range group {
		all = append(all, q.Change)
	}
	return all
}

// storeApart stores those of a refused group that are not at fault.
func (s *shift[ID]) storeApart(group []*queued, refusal error, limit time.Duration) {
	lost := ErrLeaseLost
	if !dberr.Answered(refusal) {
		lost = refusal // it may have been stored
		limit = max(limit/4, slow)
	}
	group, err := s.ours(group, limit, lost)
	if panicked := (*retry.PanicError)(nil); err != nil && !errors.As(err, &panicked) { // an outage
		tell(group, refusal)
		return
	}
	a := &apart[ID]{shift: s, group: group, limit: limit, test: groupTest{pair: -1}}
	a.test.failed(0, len(group), refusal)
	sift.Sift(len(group), a.try, func(from, to int) { tell(group[from:to], &leftOutError{cmp.Or(a.outage, refusal)}) })
	if a.test.blamesAll(len(group)) {
		s.switchGroupsOff(refusal)
	}
}

// leftOutError is the error of an outcome of a refused group that was not tried alone.
type leftOutError struct{ error }

// Unwrap returns what is known of the group.
func (e *leftOutError) Unwrap() error { return e.error }

// apart is a group that was refused.
type apart[ID any] struct {
	*shift[ID]

	group  []*queued
	limit  time.Duration // of a try
	slow   int           // how many tries in a row had no answer in time
	outage error
	test   groupTest
}

// try stores some of the group.
func (a *apart[ID]) try(from, to int) sift.Answer {
	switch {
	case a.slow >= mostSlow:
		return sift.Stop
	case a.gathering.groups.areOff():
		a.storeEach(a.group[from:to])
		return sift.Done
	}
	var err error
	if to-from == 1 {
		err = a.one(from)
	} else if err = a.storeTogether(a.group[from:to], a.limit); err != nil {
		a.test.failed(from, to, err)
	}
	switch {
	case err == nil:
		a.slow = 0
		return sift.Done
	case !dberr.MaybeOfRow(err):
		a.outage = err
		return sift.Stop
	case dberr.Answered(err):
		a.slow = 0
	default:
		a.slow++
	}
	return sift.Refused
}

// one stores one of them, and tells it what has become of it, unless there is an outage.
func (a *apart[ID]) one(at int) error {
	q := a.group[at]
	err := a.storeOne(q, a.limit)
	if errors.Is(err, ErrLeaseLost) {
		q.stored <- err
		return nil
	}
	if err == nil || dberr.MaybeOfRow(err) {
		q.stored <- err
	}
	if a.test.single(at, err); a.test.blamesPair() {
		a.switchGroupsOff(a.test.err)
	}
	return err
}

// switchGroupsOff has each outcome stored with a statement of its own for a while, because the
// database does not understand the statement for groups.
func (s *shift[ID]) switchGroupsOff(err error) {
	if s.gathering.groups.switchOff() {
		s.report(fmt.Errorf("%w: each outcome is stored by a statement of its own for now", err))
	}
}

// groupRest knows whether groups are switched off. PostgreSQL does not understand their
// statement if it has a name that is also that of a column, for example. After a minute,
// groups are tried again.
type groupRest struct {
	mu    sync.Mutex
	until time.Time
	told  bool
}

const longestGroupRest = time.Minute

func (r *groupRest) areOff() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.until)
}

// switchOff reports whether it is the first time.
func (r *groupRest) switchOff() (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = time.Now().Add(longestGroupRest)
	first, r.told = !r.told, true
	return first
}

// groupTest finds out whether the statement for groups is at fault, and no row: every group
// is refused, and each outcome of the groups is stored alone.
type groupTest struct {
	err     error // of a group
	pair    int   // where a group of two was refused; -1 if none was
	stored  int   // how many of the pair were stored alone
	singles int   // how many outcomes were stored alone
}

// failed notes a group that was refused.
func (t *groupTest) failed(from, to int, err error) {
	if t.pair = -1; dberr.RefusesForm(err) {
		t.err, t.stored = err, 0
		if to-from == 2 {
			t.pair = from
		}
	}
}

// single notes an outcome that was tried alone.
func (t *groupTest) single(at int, err error) {
	if err != nil {
		t.pair, t.singles = -1, -1<<30
		return
	}
	t.singles++
	if t.pair >= 0 && at-t.pair == t.stored {
		t.stored++
	}
}

// blamesPair reports whether both of a pair were stored alone.
func (t *groupTest) blamesPair() bool { return t.pair >= 0 && t.stored == 2 }

// blamesAll reports whether all of a group were stored alone.
func (t *groupTest) blamesAll(group int) bool { return t.err != nil && t.singles == group }
