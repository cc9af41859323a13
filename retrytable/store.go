package retrytable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/dberr"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/sift"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// write is an update of a row that is to be stored, alone or in a group.
type write struct {
	*sqltable.Change

	ends    time.Time                   // when its lease ends, at the earliest
	alone   bool                        // it is stored in no group, because something was wrong with it
	tell    func(error)                 // is told what has become of it: nil, ErrLeaseLost, or another error
	instead func(context.Context) error // runs instead of the update, if it is not nil, on its connection
}

// errLocked is the error of a write whose row somebody else has locked.
var errLocked = errors.New("retrytable: somebody else has locked the row")

func tell(group []*write, err error) {
	for _, w := range group {
		w.tell(err)
	}
}

// storer runs writes. It tells each write what has become of it.
type storer[ID any] struct {
	*storing[ID]

	ctx    context.Context
	part   time.Duration // a statement may take the usual time divided by it
	isLate func() bool   // there is no time for more statements
}

// storeOutcomes stores outcomes with one statement. If the database refuses that, it looks for
// those that are at fault, and stores the others. Only if it is patient may it wait for the
// lock of a row.
func (s *storing[ID]) storeOutcomes(group []*write, patient bool) {
	st := storer[ID]{s, s.ctx, 1, func() bool { return false }}
	switch first := group[0]; {
	case first.instead != nil:
		first.tell(first.instead(s.ctx))
	case len(group) == 1 && patient && !first.alone, s.groupsAreOff():
		st.each(group)
	default:
		st.group(group)
	}
}

// group stores a group with one statement, or if the database refuses that, those that are
// not at fault.
func (s *storer[ID]) group(group []*write) {
	err := s.together(group)
	switch {
	case err == nil:
	case !dberr.MaybeOfRow(err):
		tell(group, err)
	case len(group) == 1:
		group[0].alone = true
		group[0].tell(err)
	default:
		s.refused(group, err)
	}
}

// each stores each with a statement of its own, until there is no answer. It reports whether
// the database has refused none.
func (s *storer[ID]) each(group []*write) (all bool) {
	all = true
	for i, w := range group {
		err := s.within(s.ctx, s.limit(w.ends)/s.part, func(ctx context.Context) error { return exec(ctx, s.DB, w.Change) })
		failed := err != nil && !errors.Is(err, ErrLeaseLost)
		w.alone = failed && dberr.MaybeOfRow(err)
		w.tell(err)
		if all = all && !failed; failed && (!dberr.Answered(err) || s.isLate()) {
			tell(group[i+1:], err)
			return false
		}
	}
	return all
}

// together stores a group with one statement. If it returns no error, all have been told. A
// row that was not written has lost its lease, or is locked.
func (s *storer[ID]) together(group []*write) error {
	stored, err := s.ask(group, func(ctx context.Context, all []*sqltable.Change) ([]bool, error) {
		return sqltable.ExecAll(ctx, s.DB, all)
	})
	if err != nil {
		return err
	}
	var rest []*write
	for i, w := range group {
		if stored[i] {
			w.tell(nil)
		} else {
			rest = append(rest, w)
		}
	}
	if len(rest) > 0 {
		ours, err := s.ours(rest, ErrLeaseLost)
		tell(ours, cmp.Or(err, errLocked))
	}
	return nil
}

// ours returns those of a group that still have their leases, and tells the others the error
// lost. If the database does not answer, it returns the whole group, and the error.
func (s *storer[ID]) ours(group []*write, lost error) (ours []*write, err error) {
	held, err := s.ask(group, func(ctx context.Context, all []*sqltable.Change) ([]bool, error) {
		return s.statements.Leases.Held(ctx, s.DB, all)
	})
	if err != nil {
		return group, err
	}
	for i, w := range group {
		if held[i] {
			ours = append(ours, w)
		} else {
			w.tell(lost)
		}
	}
	return ours, nil
}

// ask runs a statement about a group, which may take as long as its first lease allows.
func (s *storer[ID]) ask(
	group []*write, statement func(context.Context, []*sqltable.Change) ([]bool, error),
) ([]bool, error) {
	var all []*sqltable.Change
	ends := group[0].ends
	for _, w := range group {
		all = append(all, w.Change)
		if w.ends.Before(ends) {
			ends = w.ends
		}
	}
	limit := s.limit(ends)
	return answerWithin(s.ctx, s.shift, max(limit/s.part, min(limit, slow)), func(ctx context.Context) ([]bool, error) {
		return statement(ctx, all)
	})
}

// refused stores those of a refused group that are not at fault.
func (s *storer[ID]) refused(group []*write, refusal error) {
	lost := ErrLeaseLost
	if !dberr.Answered(refusal) {
		lost = refusal // it may have been stored
		s.part = 4
	}
	group, err := s.ours(group, lost)
	panicked := (*retry.PanicError)(nil)
	switch {
	case err != nil && !errors.As(err, &panicked): // an outage
		tell(group, refusal)
	case !dberr.RefusesForm(refusal):
		s.apart(group, refusal)
	case s.each(group):
		s.switchGroupsOff(refusal)
	}
}

// apart stores those of a group that the database does not refuse, in smaller groups.
func (s *storer[ID]) apart(group []*write, refusal error) {
	var t tries
	sift.Sift(len(group), func(from, to int) sift.Answer {
		if s.isLate() {
			return sift.Stop
		}
		return t.answer(func() error {
			err := s.together(group[from:to])
			if to-from == 1 && err != nil && dberr.MaybeOfRow(err) {
				group[from].alone = true
				group[from].tell(err)
			}
			return err
		})
	}, func(from, to int) { tell(group[from:to], &leftOutError{cmp.Or(t.outage, refusal)}) })
}

// leftOutError is the error of an outcome of a refused group that was not tried alone.
type leftOutError struct{ error }

// Unwrap returns what is known of the group.
func (e *leftOutError) Unwrap() error { return e.error }

// tries are those of a sift.
type tries struct {
	slow   int // how many in a row had no answer in time
	outage error
}

// mostSlow is how many tries in a row may have no answer in time before that is an outage,
// and not the fault of the rows.
const mostSlow = 3

// answer tries, and says what the error means for the sift.
func (t *tries) answer(try func() error) sift.Answer {
	if t.slow >= mostSlow {
		return sift.Stop
	}
	err := try()
	switch {
	case err == nil:
		t.slow = 0
		return sift.Done
	case !dberr.MaybeOfRow(err):
		t.outage = err
		return sift.Stop
	case dberr.Answered(err):
		t.slow = 0
	default:
		t.slow++
	}
	return sift.Refused
}

// groupsAreOff reports whether each row is to be written by a statement of its own.
func (s *storing[ID]) groupsAreOff() bool { return time.Now().UnixNano() < s.groupsOff.Load() }

// switchGroupsOff is for when PostgreSQL does not understand the statement for groups: it may
// have a name that is also that of a column, for example. After a minute, groups are tried again.
func (s *storing[ID]) switchGroupsOff(err error) {
	if s.groupsOff.Swap(time.Now().Add(time.Minute).UnixNano()) == 0 { // told once
		s.report(fmt.Errorf("%w: each outcome is stored by a statement of its own for now", err))
	}
}
