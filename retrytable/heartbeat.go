package retrytable

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/dberr"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// heart extends the leases of the jobs at work: those that are to be extended soon in one
// statement. A job that is over before that costs none.
type heart struct {
	mu     sync.Mutex
	pulses map[*pulse]bool // without those that are being extended
	looks  time.Time       // when beat looks again
	sooner chan struct{}   // a pulse is due before that
}

// pulse is a lease that is extended again and again, by the same write, until it is lost or the
// work has had its overtime.
type pulse struct {
	write
	retryjob.Overtime

	prepare func()      // makes the write, and what is told; most jobs are over before they need it
	stuck   func(error) // is told that it has
	gone    bool        // the lease is lost, and the work is watched only

	due  time.Time // when it is to be extended
	sent time.Time // when the last statement began that extends it
	last error     // why it was not extended
	lost context.CancelCauseFunc
	over bool
}

// errAsleep is the reason if the lease was not extended and the database reported no
// error.
var errAsleep = errors.New("this process did not run")

// beat extends the lease of a job, which does not end before ends, until stop is called or work
// with the context ctx has had its overtime. If the lease is lost, beat calls lost. stop returns
// when the lease ends now.
func (s *running[ID]) beat(ctx context.Context, job *Job[ID], ends time.Time, lost context.CancelCauseFunc) (stop func() time.Time) {
	h := &s.heart
	p := &pulse{write: write{ends: ends}, last: errAsleep, lost: lost}
	p.Most = s.overtime
	p.Begin(ctx)
	p.prepare = func() {
		p.Change = s.statements.Extend(job.claimed(nil), 0)
		p.tell = func(err error) { s.extended(p, err) }
		p.stuck = func(err error) { s.reportOf(job, err) }
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pulses == nil {
		h.pulses, h.sooner = map[*pulse]bool{}, make(chan struct{}, 1)
		h.looks = time.Now().Add(s.heartbeat)
		s.hearts.Go(s.beatAll)
	}
	h.add(p, s.heartbeat)
	return func() time.Time {
		h.mu.Lock()
		defer h.mu.Unlock()
		p.over = true
		delete(h.pulses, p)
		return p.ends
	}
}

// add lets a lease be extended after a pause, or when it ends.
func (h *heart) add(p *pulse, pause time.Duration) {
	p.due = time.Now().Add(pause)
	if p.due.After(p.ends) && !p.gone {
		p.due = p.ends
	}
	h.pulses[p] = true
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
	for p := range h.pulses {
		if p.due.Before(h.looks) {
			h.looks = p.due
		}
	}
	if pause = h.looks.Sub(now); pause > 0 {
		return nil, pause
	}
	for p := range h.pulses {
		if len(all) < sqltable.MostGrouped && !p.due.After(now.Add(heartbeat/2)) {
			delete(h.pulses, p)
			all = append(all, p)
		}
	}
	return all, 0
}

// beatAll extends leases until there are no more jobs.
func (s *running[ID]) beatAll() {
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
func (s *running[ID]) extendAll(all []*pulse) {
	now := time.Now()
	isLate := func() bool { return time.Since(now) > s.heartbeat/2 } // and other leases should be extended
	st := storer[ID]{s.storing, s.beating, 1, isLate}
	var sound, alone []*write // those that something was wrong with would have others refused
	var wrong error
	for _, p := range all {
		if p.Change == nil {
			p.prepare()
		}
		p.sent = now
		stuck := p.Check(now)
		switch {
		case stuck != nil:
			s.hearts.Go(func() { p.stuck(stuck) }) // the other leases do not wait for OnError
		case p.gone:
			s.extended(p, nil)
		case !now.Before(p.ends):
			s.extended(p, fmt.Errorf("%w: it was not extended in time: %w", ErrLeaseLost, p.last))
		case p.alone:
			alone, wrong = append(alone, &p.write), p.last
		default:
			sound = append(sound, &p.write)
		}
	}
	if s.groupsAreOff() {
		st.part = 4
		st.each(append(sound, alone...))
		return
	}
	if len(sound) > 0 {
		st.group(sound)
	}
	if !dberr.Answered(wrong) {
		st.part = 4
	}
	st.apart(alone, wrong)
}

// extended lets a lease be extended again, in a while if it was and sooner if it was not.
func (s *running[ID]) extended(p *pulse, err error) {
	if errors.Is(err, ErrLeaseLost) {
		p.gone = true
		p.lost(err)
	}
	s.heart.mu.Lock()
	defer s.heart.mu.Unlock()
	pause := s.heartbeat
	switch {
	case p.gone:
	case err == nil:
		p.last, p.ends, p.alone = errAsleep, p.sent.Add(s.lease), false
	default:
		p.last, pause = err, pause/4
	}
	if !p.over {
		s.heart.add(p, pause)
	}
}
