package retrytable

import (
	"cmp"
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
type heart struct {
	mu     sync.Mutex
	pulses list.List // of *pulse, in the order of their due
	begun  bool
	looks  time.Time     // when beat looks again
	sooner chan struct{} // a pulse is due before that
}

// pulse is a lease that is extended again and again, by the same write.
type pulse struct {
	write

	due   time.Time // when it is to be extended
	sent  time.Time // when the last statement began that extends it
	last  error     // why it was not extended
	lost  context.CancelCauseFunc
	place *list.Element // nil while it is being extended
	over  bool
}

// errAsleep is the reason if the lease was not extended and the database reported no
// error.
var errAsleep = errors.New("this process did not run")

// beat extends a lease, which does not end before ends, until stop is called. If the
// lease is lost, beat calls lost. stop returns when the lease ends now.
func (s *shift[ID]) beat(lease Lease[ID], ends time.Time, lost context.CancelCauseFunc) (stop func() time.Time) {
	h := &s.heart
	p := &pulse{write: write{Change: s.statements.Extend(0).Of(lease.ID, lease.Fence, nil), ends: ends}, last: errAsleep, lost: lost}
	p.tell = func(err error) { s.extended(p, err) }
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
func (h *heart) add(p *pulse, pause time.Duration) {
	p.due = time.Now().Add(pause)
	if p.due.After(p.ends) {
		p.due = p.ends
	}
	before := h.pulses.Back()
	for before != nil && before.Value.(*pulse).due.After(p.due) { //nolint:forcetypeassert // nothing else is in it
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
func (h *heart) take(heartbeat time.Duration) (all []*pulse, pause time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	h.looks = now.Add(heartbeat)
	for e := h.pulses.Front(); e != nil && len(all) < sqltable.MostGrouped; e = h.pulses.Front() {
		p := e.Value.(*pulse) //nolint:forcetypeassert // nothing else is in it
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
func (s *shift[ID]) extendAll(all []*pulse) {
	began := time.Now()
	var sound, alone []*write // those that something was wrong with would have others refused
	var wrong error
	for _, p := range s.inTime(all, began) {
		if p.sent = began; p.alone {
			alone, wrong = append(alone, &p.write), p.last
		} else {
			sound = append(sound, &p.write)
		}
	}
	if s.groups.areOff() {
		s.extendEach(append(sound, alone...), began)
		return
	}
	if err := s.extendTogether(sound, 1); err != nil {
		s.extendApart(sound, err, began)
	}
	s.extendInParts(alone, wrong, began)
}

// extendTogether extends leases, and returns an error if none of them has been dealt with. The
// statement has a part of the usual time.
func (s *shift[ID]) extendTogether(group []*write, part time.Duration) error {
	if len(group) == 0 {
		return nil
	}
	return s.storeTogether(s.beating, group, s.limit(earliest(group))/part)
}

// extendApart extends those of a refused group that are not at fault.
func (s *shift[ID]) extendApart(group []*write, refusal error, began time.Time) {
	outage := !dberr.MaybeOfRow(refusal)
	if !outage {
		_, err := s.ours(s.beating, group[:1], s.limit(group[0].ends)/4, ErrLeaseLost)
		outage = err != nil
	}
	switch {
	case outage:
		tell(group, refusal)
	case !dberr.RefusesForm(refusal) || len(group) == 1:
		s.extendInParts(group, refusal, began)
	case s.extendEach(group, began):
		s.switchGroupsOff(refusal)
	}
}

// extendEach extends leases each with a statement of its own, and reports whether the
// database has refused none.
func (s *shift[ID]) extendEach(group []*write, began time.Time) (all bool) {
	all = true
	inRow := 0
	for i, w := range group {
		err := s.storeOne(s.beating, w, s.limit(w.ends)/4)
		w.tell(err)
		if err == nil || errors.Is(err, ErrLeaseLost) {
			inRow = 0
			continue
		}
		all = false
		if inRow++; !dberr.Answered(err) || inRow == sift.MostRefused || s.isLate(began) {
			tell(group[i+1:], err)
			break
		}
	}
	return all
}

// isLate reports whether an extension took so long that other leases should be extended now.
func (s *shift[ID]) isLate(began time.Time) bool { return time.Since(began) > s.heartbeat/2 }

// extendInParts extends those of several leases that are not refused, in a short time.
func (s *shift[ID]) extendInParts(group []*write, refusal error, began time.Time) {
	part := time.Duration(1)
	if !dberr.Answered(refusal) {
		part = 4
	}
	var t tries
	sift.Sift(len(group), func(from, to int) sift.Answer {
		if s.isLate(began) {
			return sift.Stop
		}
		return t.answer(func() error {
			err := s.extendTogether(group[from:to], part)
			if to-from == 1 && err != nil && dberr.MaybeOfRow(err) {
				group[from].alone = true
				group[from].tell(err)
			}
			return err
		})
	}, func(from, to int) { tell(group[from:to], cmp.Or(t.outage, refusal)) })
}

// inTime returns the leases that have not ended, and reports the others.
func (s *shift[ID]) inTime(all []*pulse, now time.Time) (held []*pulse) {
	for _, p := range all {
		if now.Before(p.ends) {
			held = append(held, p)
		} else {
			p.lost(fmt.Errorf("%w: it was not extended in time: %w", ErrLeaseLost, p.last))
		}
	}
	return held
}

// extended lets a lease be extended again, in a while if it was and sooner if it was not.
func (s *shift[ID]) extended(p *pulse, err error) {
	if errors.Is(err, ErrLeaseLost) {
		p.lost(err)
		return
	}
	s.heart.mu.Lock()
	defer s.heart.mu.Unlock()
	pause := s.heartbeat
	if err == nil {
		p.last, p.ends, p.alone = errAsleep, p.sent.Add(s.lease), false
	} else {
		p.last, pause = err, pause/4
	}
	if !p.over {
		s.heart.add(p, pause)
	}
}
