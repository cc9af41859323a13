package retrytable

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry/retrytable/internal/dberr"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/sift"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// heart extends the leases of the jobs at work: those that are to be extended soon in one
// statement. A job that is over before that costs none.
type heart[ID any] struct {
	mu     sync.Mutex
	pulses list.List // of *pulse[ID], in the order of their due
	begun  bool
	looks  time.Time     // when beat looks again
	sooner chan struct{} // a pulse is due before that
}

// pulse is a lease that is extended.
type pulse[ID any] struct {
	lease Lease[ID]
	ends  time.Time // at the earliest
	due   time.Time // when it is to be extended
	last  error     // why it was not
	lost  context.CancelCauseFunc
	place *list.Element // nil while it is being extended
	over  bool
	alone bool // something was wrong with it: it is not extended with others
}

// errAsleep is the reason if the lease was not extended and the database reported no
// error.
var errAsleep = errors.New("this process did not run")

// beat extends a lease, which does not end before ends, until stop is called. If the
// lease is lost, beat calls lost. stop returns when the lease ends now.
func (s *shift[ID]) beat(lease Lease[ID], ends time.Time, lost context.CancelCauseFunc) (stop func() time.Time) {
	h := &s.heart
	p := &pulse[ID]{lease: lease, ends: ends, last: errAsleep, lost: lost}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.begun {
		h.begun, h.sooner = true, make(chan struct{}, 1)
		h.looks = time.Now().Add(s.heartbeat)
		s.hearts.Go(s.beatAll)
	}
	h.add(p, s.heartbeat)
	return func() time.Time {
		h.mu.Lock()
		defer h.mu.Unlock()
		if p.over = true; p.place != nil {
			h.pulses.Remove(p.place)
		}
		return p.ends
	}
}

// add lets a lease be extended after a pause, or when it ends.
func (h *heart[ID]) add(p *pulse[ID], pause time.Duration) {
	p.due = time.Now().Add(pause)
	if p.due.After(p.ends) {
		p.due = p.ends
	}
	before := h.pulses.Back()
	for before != nil && before.Value.(*pulse[ID]).due.After(p.due) { //nolint:forcetypeassert // nothing else is in it
		before = before.Prev()
	}
	if before == nil {
		p.place = h.pulses.PushFront(p)
	} else {
		p.place = h.pulses.InsertAfter(p, before)
	}
	if p.due.Before(h.looks) {
		select {
		case h.sooner <- struct{}{}:
		default:
		}
	}
}

// take takes the leases that are to be extended now, and with them those that would be
// soon. If there is none, it returns how long there is nothing to do.
func (h *heart[ID]) take(heartbeat time.Duration) (all []*pulse[ID], pause time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	h.looks = now.Add(heartbeat)
	for e := h.pulses.Front(); e != nil && len(all) < sqltable.MostGrouped; e = h.pulses.Front() {
		p := e.Value.(*pulse[ID]) //nolint:forcetypeassert // nothing else is in it
		if len(all) == 0 && p.due.After(now) {
			h.looks = p.due
			break
		}
		if p.due.After(now.Add(heartbeat / 2)) {
			break
		}
		h.pulses.Remove(e)
		p.place = nil
		all = append(all, p)
	}
	return all, h.looks.Sub(now)
}

// beatAll extends leases until there are no more jobs.
func (s *shift[ID]) beatAll() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		all, pause := s.heart.take(s.heartbeat)
		if len(all) > 0 {
			s.extendAll(all)
			continue
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-s.heart.sooner:
		case <-s.beating.Done():
			return
		}
	}
}

// extendAll extends leases with one statement. If that fails, those are extended that can
// be, on the same connection, and the others are tried again soon.
func (s *shift[ID]) extendAll(all []*pulse[ID]) {
	sent := time.Now()
	var sound, alone []*pulse[ID] // those that something was wrong with would have others refused
	for _, p := range s.inTime(all, sent) {
		if p.alone {
			alone = append(alone, p)
		} else {
			sound = append(sound, p)
		}
	}
	if s.gathering.groups.areOff() {
		s.extendEach(append(sound, alone...), sent)
		return
	}
	if err := s.extendSome(sound, 1); err != nil {
		s.extendApart(sound, err, sent)
	}
	if len(alone) > 0 {
		s.extendInParts(alone, alone[0].last, sent)
	}
}

// extendSome extends leases, and returns an error if none of them has been dealt with. The
// statement has a part of the usual time.
func (s *shift[ID]) extendSome(all []*pulse[ID], part time.Duration) error {
	if len(all) == 0 {
		return nil
	}
	sent := time.Now()
	group := make([]*sqltable.Change, len(all))
	limit := s.limit(all[0].ends)
	for i, p := range all {
		group[i], limit = s.extending(p), min(limit, s.limit(p.ends))
	}
	held, err := answerWithin(s.beating, s, limit/part, func(ctx context.Context) ([]bool, error) {
		return sqltable.ExecAll(ctx, s.DB, group)
	})
	if err != nil {
		return err
	}
	var rest []*pulse[ID]
	for i, p := range all {
		if held[i] {
			p.alone = false
			s.extended(p, sent, nil)
		} else {
			rest = append(rest, p)
		}
	}
	s.locked(rest, limit/part)
	return nil
}

// locked has those of some leases that are lost end, and the others extended soon: somebody
// else has locked their rows.
func (s *shift[ID]) locked(rest []*pulse[ID], limit time.Duration) {
	if len(rest) == 0 {
		return
	}
	sent := time.Now()
	held, err := s.stillHeld(rest, limit)
	for i, p := range rest {
		switch {
		case err != nil:
			s.extended(p, sent, err)
		case held[i]:
			s.extended(p, sent, errLocked)
		default:
			s.extended(p, sent, ErrLeaseLost)
		}
	}
}

// stillHeld looks which leases are still ours. It waits for no lock.
func (s *shift[ID]) stillHeld(all []*pulse[ID], limit time.Duration) ([]bool, error) {
	group := make([]*sqltable.Change, len(all))
	for i, p := range all {
		group[i] = s.extending(p)
	}
	return answerWithin(s.beating, s, limit, func(ctx context.Context) ([]bool, error) {
		return s.statements.Held(ctx, s.DB, group)
	})
}

// extendApart extends leases of which one or several were refused, without those.
func (s *shift[ID]) extendApart(all []*pulse[ID], refusal error, sent time.Time) {
	outage := !dberr.MaybeOfRow(refusal)
	if !outage {
		_, err := s.stillHeld(all[:1], s.limit(all[0].ends)/4)
		outage = err != nil
	}
	switch {
	case outage:
		s.postpone(all, sent, refusal)
	case !dberr.RefusesForm(refusal) || len(all) == 1:
		s.extendInParts(all, refusal, sent)
	case s.extendEach(all, sent):
		s.switchGroupsOff(refusal)
	}
}

// postpone has leases that were not extended be extended soon.
func (s *shift[ID]) postpone(all []*pulse[ID], sent time.Time, err error) {
	for _, p := range all {
		s.extended(p, sent, err)
	}
}

// extendEach extends leases each with a statement of its own, and reports whether the
// database has refused none.
func (s *shift[ID]) extendEach(all []*pulse[ID], sent time.Time) bool {
	inRow, none := 0, true
	for i, p := range all {
		began := time.Now()
		err := s.within(s.beating, s.limit(p.ends)/4, func(ctx context.Context) error {
			return exec(ctx, s.DB, s.extending(p))
		})
		s.extended(p, began, err)
		if err == nil || errors.Is(err, ErrLeaseLost) {
			p.alone, inRow = false, 0
			continue
		}
		p.alone, none = dberr.Answered(err), false
		if inRow++; !dberr.Answered(err) || inRow == sift.MostRefused || time.Since(sent) > s.heartbeat/2 {
			s.postpone(all[i+1:], sent, err)
			break
		}
	}
	return none
}

// extendInParts does not take long: there are other leases to extend.
func (s *shift[ID]) extendInParts(all []*pulse[ID], refusal error, sent time.Time) {
	slow, part := 0, time.Duration(1)
	if !dberr.Answered(refusal) {
		part = 4
	}
	sift.Sift(len(all), func(from, to int) sift.Answer {
		if slow >= mostSlow || time.Since(sent) > s.heartbeat/2 {
			return sift.Stop
		}
		err := s.extendSome(all[from:to], part)
		switch {
		case err == nil:
			slow = 0
			return sift.Done
		case !dberr.MaybeOfRow(err):
			refusal = err
			return sift.Stop
		case !dberr.Answered(err):
			slow++
		}
		if to-from == 1 {
			all[from].alone = true
			s.extended(all[from], sent, err)
		}
		return sift.Refused
	}, func(from, to int) {
		s.postpone(all[from:to], sent, refusal)
	})
}

// inTime returns the leases that have not ended, and reports the others.
func (s *shift[ID]) inTime(all []*pulse[ID], now time.Time) (held []*pulse[ID]) {
	for _, p := range all {
		if now.Before(p.ends) {
			held = append(held, p)
		} else {
			p.lost(fmt.Errorf("%w: it was not extended in time: %w", ErrLeaseLost, p.last))
		}
	}
	return held
}

// extending is the update that extends a lease.
func (s *shift[ID]) extending(p *pulse[ID]) *sqltable.Change {
	return s.statements.Extend(0).Of(p.lease.ID, p.lease.Fence, nil)
}

// extended lets a lease be extended again, in a while if it was and sooner if it was not.
func (s *shift[ID]) extended(p *pulse[ID], sent time.Time, err error) {
	if errors.Is(err, ErrLeaseLost) {
		p.lost(err)
		return
	}
	s.heart.mu.Lock()
	defer s.heart.mu.Unlock()
	pause := s.heartbeat
	if err == nil {
		p.last, p.ends = errAsleep, sent.Add(s.lease)
	} else {
		p.last, pause = err, pause/4
	}
	if !p.over {
		s.heart.add(p, pause)
	}
}
