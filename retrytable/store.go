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

// earliest is when the first lease of a group ends.
func earliest(group []*write) time.Time {
	ends := group[0].ends
	for _, w := range group[1:] {
		if w.ends.Before(ends) {
			ends = w.ends
		}
	}
	return ends
}

// storeGroup stores outcomes with one statement. If the database refuses that, it looks for
// those that are at fault, and stores the others. Only if it is patient may it wait for the
// lock of a row.
func (s *shift[ID]) storeGroup(group []*write, patient bool) {
	switch first := group[0]; {
	case first.instead != nil:
		first.tell(first.instead(s.ctx))
		return
	case len(group) == 1 && patient && !first.alone, s.groups.areOff():
		s.storeEach(group)
		return
	}
	limit := s.limit(earliest(group))
	err := s.storeTogether(s.ctx, group, limit)
	switch {
	case err == nil:
	case len(group) == 1:
		group[0].alone = dberr.MaybeOfRow(err)
		group[0].tell(err)
	case !dberr.MaybeOfRow(err):
		tell(group, err)
	default:
		s.storeApart(group, err, limit)
	}
}

// storeEach stores outcomes each with a statement of its own, until there is no answer. It
// reports whether the database has refused none.
func (s *shift[ID]) storeEach(group []*write) (all bool) {
	all = true
	for i, w := range group {
		err := s.storeOne(s.ctx, w, s.limit(w.ends))
		w.tell(err)
		if err == nil || errors.Is(err, ErrLeaseLost) {
			continue
		}
		if all = false; !dberr.Answered(err) {
			tell(group[i+1:], err)
			break
		}
	}
	return all
}

func (s *shift[ID]) storeOne(ctx context.Context, w *write, limit time.Duration) error {
	err := s.within(ctx, limit, func(ctx context.Context) error { return exec(ctx, s.DB, w.Change) })
	w.alone = err != nil && !errors.Is(err, ErrLeaseLost) && dberr.MaybeOfRow(err)
	return err
}

// storeTogether stores a group with one statement. If it returns no error, all have been
// told. A row that was not written has lost its lease, or is locked.
func (s *shift[ID]) storeTogether(ctx context.Context, group []*write, limit time.Duration) error {
	all := changes(group)
	stored, err := answerWithin(ctx, s, limit, func(ctx context.Context) ([]bool, error) {
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
	ours, err := s.ours(ctx, rest, limit, ErrLeaseLost)
	tell(ours, cmp.Or(err, errLocked))
	return nil
}

// ours returns those of a group that still have their leases, and tells the others the error
// lost. If the database does not answer, it returns the whole group, and the error.
func (s *shift[ID]) ours(ctx context.Context, group []*write, limit time.Duration, lost error) (ours []*write, err error) {
	if len(group) == 0 {
		return nil, nil
	}
	all := changes(group)
	held, err := answerWithin(ctx, s, limit, func(ctx context.Context) ([]bool, error) {
		return s.statements.Held(ctx, s.DB, all)
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

func changes(group []*write) (all []*sqltable.Change) {
	for _, w := range group {
		all = append(all, w.Change)
	}
	return all
}

// storeApart stores those of a refused group that are not at fault.
func (s *shift[ID]) storeApart(group []*write, refusal error, limit time.Duration) {
	lost := ErrLeaseLost
	if !dberr.Answered(refusal) {
		lost = refusal // it may have been stored
		limit = max(limit/4, slow)
	}
	group, err := s.ours(s.ctx, group, limit, lost)
	if panicked := (*retry.PanicError)(nil); err != nil && !errors.As(err, &panicked) { // an outage
		tell(group, refusal)
		return
	}
	if dberr.RefusesForm(refusal) {
		if s.storeEach(group) {
			s.switchGroupsOff(refusal)
		}
		return
	}
	var t tries
	sift.Sift(len(group), func(from, to int) sift.Answer {
		return t.answer(func() error {
			if to-from == 1 {
				return s.storeApartOne(group[from], limit)
			}
			return s.storeTogether(s.ctx, group[from:to], limit)
		})
	}, func(from, to int) { tell(group[from:to], &leftOutError{cmp.Or(t.outage, refusal)}) })
}

// storeApartOne stores one of a refused group. An outage is told to all that are left.
func (s *shift[ID]) storeApartOne(w *write, limit time.Duration) error {
	err := s.storeOne(s.ctx, w, limit)
	switch {
	case errors.Is(err, ErrLeaseLost):
		w.tell(err)
		return nil
	case err == nil, dberr.MaybeOfRow(err):
		w.tell(err)
	}
	return err
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

// groupSwitch switches groups off for a while, if PostgreSQL does not understand their
// statement: it may have a name that is also that of a column, for example.
type groupSwitch struct {
	mu    sync.Mutex
	until time.Time
	told  bool
}

const groupsAreOff = time.Minute

func (g *groupSwitch) areOff() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Now().Before(g.until)
}

// switchGroupsOff has each row written by a statement of its own for a while. The first time,
// it reports that.
func (s *shift[ID]) switchGroupsOff(err error) {
	g := &s.groups
	g.mu.Lock()
	told := g.told
	g.until, g.told = time.Now().Add(groupsAreOff), true
	g.mu.Unlock()
	if !told {
		s.report(fmt.Errorf("%w: each outcome is stored by a statement of its own for now", err))
	}
}
