package retrytable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// storeGroup stores outcomes with one statement, and tells each what has become of it. If
// the database refuses that, those that are at fault are looked for, and the others stored.
// Only if careless may it wait for the lock of a row.
func (s *shift[ID]) storeGroup(group []*outcome[ID], careless bool) {
	switch first := group[0]; {
	case first.ask != nil:
		first.stored <- first.ask(s.ctx)
		return
	case len(group) == 1 && careless && !first.alone, s.gathering.form.isRefused():
		s.storeEach(group)
		return
	}
	limit := s.limitOf(group)
	err := s.storeTogether(group, limit)
	switch {
	case err == nil:
	case len(group) == 1:
		group[0].alone = maybeOfRow(err)
		group[0].stored <- err
	case !maybeOfRow(err):
		tell(group, err)
	default:
		s.storeApart(group, err, limit)
	}
}

// limitOf is how long a statement for all of a group may take.
func (s *shift[ID]) limitOf(group []*outcome[ID]) time.Duration {
	limit := s.limit(group[0].ends)
	for _, o := range group[1:] {
		limit = min(limit, s.limit(o.ends))
	}
	return limit
}

func tell[ID any](group []*outcome[ID], err error) {
	for _, o := range group {
		o.stored <- err
	}
}

// storeEach stores outcomes each with a statement of its own, until there is no answer.
func (s *shift[ID]) storeEach(group []*outcome[ID]) {
	for i, o := range group {
		err := s.storeOne(o, s.limit(o.ends))
		o.stored <- err
		if err != nil && !errors.Is(err, ErrLeaseLost) && !answered(err) {
			tell(group[i+1:], err)
			return
		}
	}
}

func (s *shift[ID]) storeOne(o *outcome[ID], limit time.Duration) error {
	_, err := within(s.ctx, s, limit, func(ctx context.Context) (any, error) { return nil, o.exec(ctx, s.DB) })
	o.alone = err != nil && !errors.Is(err, ErrLeaseLost) && maybeOfRow(err)
	return err
}

// storeTogether stores a group with one statement. If that returns no error, all have been
// told: those that are not stored, that their leases are lost or their rows are locked.
func (s *shift[ID]) storeTogether(group []*outcome[ID], limit time.Duration) error {
	all := finishings(group)
	held, err := within(s.ctx, s, limit, func(ctx context.Context) ([]bool, error) {
		return storeAll(ctx, s.DB, &s.statements.held, all)
	})
	if err != nil {
		return err
	}
	var rest []*outcome[ID]
	for i, o := range group {
		if held[i] {
			o.stored <- nil
		} else {
			rest = append(rest, o)
		}
	}
	ours, err := s.ours(rest, limit, ErrLeaseLost)
	if err == nil {
		err = errLocked
	}
	tell(ours, err)
	return nil
}

// ours looks which outcomes of a group still have their leases, tells the others that they
// are lost, and returns those. If the database does not answer that, it returns all, and
// why.
func (s *shift[ID]) ours(group []*outcome[ID], limit time.Duration, lost error) (ours []*outcome[ID], err error) {
	if len(group) == 0 {
		return nil, nil
	}
	all := finishings(group)
	held, err := within(s.ctx, s, limit, func(ctx context.Context) ([]bool, error) {
		return holds(ctx, s.DB, &s.statements.held, all, "")
	})
	if err != nil {
		return group, err
	}
	for i, o := range group {
		if held[i] {
			ours = append(ours, o)
		} else {
			o.stored <- lost
		}
	}
	return ours, nil
}

// storeApart stores a group that was refused, as far as its outcomes are not at fault.
func (s *shift[ID]) storeApart(group []*outcome[ID], refusal error, limit time.Duration) {
	lost := ErrLeaseLost
	if !answered(refusal) {
		lost = refusal // it may have been stored
		limit = max(limit/4, slow)
	}
	group, err := s.ours(group, limit, lost)
	if panicked := (*retry.PanicError)(nil); err != nil && !errors.As(err, &panicked) { // an outage
		tell(group, refusal)
		return
	}
	a := &apart[ID]{shift: s, group: group, limit: limit, form: formTest{pair: -1}}
	a.form.failed(0, len(group), refusal)
	sift(len(group), a.try, func(from, to int) { tell(group[from:to], &leftOutError{cmp.Or(a.outage, refusal)}) })
	if a.form.atFault(len(group)) {
		s.giveUp(refusal)
	}
}

// apart is a group that was refused.
type apart[ID any] struct {
	*shift[ID]

	group  []*outcome[ID]
	limit  time.Duration // of a try
	slow   int           // how many tries in a row had no answer in time
	outage error
	form   formTest
}

// try stores some of the group.
func (a *apart[ID]) try(from, to int) answer {
	switch {
	case a.slow >= mostSlow:
		return over
	case a.gathering.form.isRefused():
		a.storeEach(a.group[from:to])
		return fine
	}
	var err error
	if to-from == 1 {
		err = a.one(from)
	} else if err = a.storeTogether(a.group[from:to], a.limit); err != nil {
		a.form.failed(from, to, err)
	}
	switch {
	case err == nil:
		a.slow = 0
		return fine
	case !maybeOfRow(err):
		a.outage = err
		return over
	case answered(err):
		a.slow = 0
	default:
		a.slow++
	}
	return amiss
}

// one stores one of them, and tells it what has become of it, unless there is an outage.
func (a *apart[ID]) one(at int) error {
	o := a.group[at]
	err := a.storeOne(o, a.limit)
	if errors.Is(err, ErrLeaseLost) {
		o.stored <- err
		return nil
	}
	if err == nil || maybeOfRow(err) {
		o.stored <- err
	}
	if a.form.single(at, err); a.form.pairAtFault() {
		a.giveUp(a.form.err)
	}
	return err
}

// giveUp stores each outcome with a statement of its own for a while, because the database
// does not understand groups.
func (s *shift[ID]) giveUp(err error) {
	if s.gathering.form.giveUp() {
		s.report(fmt.Errorf("%w: each outcome is stored by a statement of its own for now", err))
	}
}

func finishings[ID any](group []*outcome[ID]) (all []*finishing[ID]) {
	for _, o := range group {
		all = append(all, &o.finishing)
	}
	return all
}
