package retryquota

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/calls"
	"github.com/seed-5ff3c98e/retry/internal/done"
)

// Limiter says when attempts may go, for a [Line]. The Line calls it under its lock, with the
// time of the policy's clock.
type Limiter interface {
	// Take asks for n turns, and returns how many it grants. If they are fewer, the Line asks
	// again after wait, which is until the next turn. With n = 0, Take only looks: wait is 0 if
	// there is a turn. turn is what the Limiter wants to know again in Return and Tell; it may be
	// 0, and is less than 1<<30.
	Take(now time.Time, n int) (turn retry.Turn, granted int, wait time.Duration)

	// Return gives back n turns that were not used. If it does nothing, they are lost: fewer
	// attempts go than might.
	Return(now time.Time, turn retry.Turn, n int)

	// Tell is as in [retry.Pacer].
	Tell(now time.Time, turn retry.Turn, err error, v retry.Verdict) (held time.Duration)
}

// Line makes a [retry.Pacer] of a limiter of your own, such as golang.org/x/time/rate: it adds the
// line in which callers wait, in the order of their arrival. Limiter has to be set; a Line must not
// be copied after its first use.
type Line struct {
	Limiter Limiter

	line line
}

// Wait implements [retry.Pacer].
func (l *Line) Wait(ctx context.Context, p *retry.Policy, w retry.Waiting) (retry.Turn, time.Duration, error) {
	return l.line.wait(ctx, p, w, steady{l.Limiter})
}

// Take implements [retry.Pacer].
func (l *Line) Take(p *retry.Policy, n int) (retry.Turn, int, time.Duration) {
	return l.line.take(p, n, steady{l.Limiter})
}

// Return implements [retry.Pacer].
func (l *Line) Return(p *retry.Policy, turn retry.Turn, n int) {
	l.line.giveBack(p, turn, n, steady{l.Limiter})
}

// Tell implements [retry.Pacer].
func (l *Line) Tell(p *retry.Policy, turn retry.Turn, err error, v retry.Verdict) time.Duration {
	return l.line.tell(p, turn, err, v, steady{l.Limiter})
}

// rates is a Limiter that a line asks for more.
type rates interface {
	Limiter
	held(now time.Time) time.Duration // how long nobody may go
	gap() time.Duration               // between two turns; 0 if it is not known
	learns() bool                     // from refusals; then turns may go late, and be too many
}

// steady is a Limiter that holds nobody. None of its turns is 0, which would be none.
type steady struct{ Limiter }

// taken is in each turn of a steady Limiter.
const taken retry.Turn = 1 << 30

func (s steady) Take(now time.Time, n int) (retry.Turn, int, time.Duration) {
	turn, granted, wait := s.Limiter.Take(now, n)
	return turn | taken, granted, wait
}

func (s steady) Return(now time.Time, turn retry.Turn, n int) { s.Limiter.Return(now, turn&^taken, n) }

func (s steady) Tell(now time.Time, turn retry.Turn, err error, v retry.Verdict) time.Duration {
	return s.Limiter.Tell(now, turn&^taken, err, v)
}

func (steady) held(time.Time) time.Duration { return 0 }
func (steady) gap() time.Duration           { return 0 }
func (steady) learns() bool                 { return false }

const (
	isNew       = time.Millisecond       // since a call began that was in no line yet
	shortestAsk = time.Millisecond       // before somebody asks again
	unknownGap  = 2 * time.Millisecond   // between two turns, while it is not known
	mostUnknown = 500 * time.Millisecond // before somebody asks again meanwhile
	mostAhead   = 4 * time.Second        // before somebody asks again, besides a hold
	maxAway     = 24 * time.Hour         // that somebody may stay away; more is a clock that went back
	grace       = 6 * time.Second        // after which a place is given up; engines look each second, or five
	mostLate    = 500 * time.Millisecond // for which a Limiter keeps the turns of those who ask late
	mostQuiet   = time.Minute            // in which nobody asks, that keeps a place
	mostPlaces  = 1 << 16
	mostLooked  = 256                   // of the first, for one that is wanted
	mostBulk    = 50 * time.Millisecond // for which somebody gathers turns who wants many
)

// asked marks the turns of those who ask again by themselves.
const asked retry.Turn = 1 << 31

// line is the order in which turns are given. It has calls, which wait, and places, which belong to
// those who ask again later: a stored job, a worker of a table, a task of a pool. Both come in the
// order of their arrival. Nothing tells one asker from another, so the places of all of them are
// alike: who comes when a place is due has that place, and who comes at another time is new.
//
//	        arrival ─►
//	calls    c1      c2  c3         c4       c1 has the timer; it gives the turns out (see keepers)
//	places       p1          p2 p3           p1's turn is put aside until p1 comes back
//
// Each function gets the Limiter, because the zero value of a Quota is ready.
type line struct {
	mu     sync.Mutex
	stands atomic.Bool // a call waits, or did lately: who comes back looks whether to wake it
	calls  queue       // in the order of since
	places queue       // likewise
	ready  queue       // places whose turn has come, in the order of that
	turn   retry.Turn  // of ready
	seen   time.Time   // when somebody asked or told, by the clock of its policy
	swept  time.Time   // when lost places were looked for
	next   time.Time   // when there is a turn again, as the Limiter has said
	given  int         // turns since the beginning; see ahead
	burst  burst       // of turns that nobody came for in time
}

// entry is a call or a place.
type entry struct {
	before, after *entry
	in            *queue // nil if it is in none

	since time.Time
	ahead int // how many there were before it, counted with line.given

	// Of a place.
	back time.Time // when its owner is to come back
	lost time.Time // when it is given up

	// Of a call.
	retry.Waiting

	turn   retry.Turn
	own    bool // its policy has a Clock of its own, which may stand still
	err    error
	sleeps time.Time          // until when; zero means until it is woken
	woken  chan struct{}      // has one to wake it
	wake   context.CancelFunc // wakes it instead, while it sleeps on a Clock of the policy
}

// wait waits for a turn.
func (l *line) wait(ctx context.Context, p *retry.Policy, w retry.Waiting, of rates) (_ retry.Turn, _ time.Duration, err error) {
	began := p.Now()
	turn, err := l.try(began, w, of)
	if turn != 0 || err != nil {
		return turn, 0, err
	}
	e := &entry{since: w.Since, Waiting: w, own: p != nil && p.Clock != nil, woken: make(chan struct{}, 1)}
	if e.since.IsZero() {
		e.since = began
	}
	defer func() { l.leave(e, of) }() // whatever panics
	waited, err := l.stand(ctx, p, e, began, of)
	if err == nil {
		turn, e.turn, err = e.turn, 0, e.err
	}
	return turn, waited, err
}

// stand waits in the line until e has a turn or an error, or ctx is done.
func (l *line) stand(ctx context.Context, p *retry.Policy, e *entry, began time.Time, of rates) (time.Duration, error) {
	if over := calls.Waits(p); over != nil {
		defer over()
	}
	now := began
	for d, came := l.enter(e, now, of); !came; {
		l.sleep(ctx, e, p, d)
		now = p.Now()
		if done.Is(ctx) {
			return max(now.Sub(began), 0), context.Cause(ctx)
		}
		d, came = l.step(e, now, of)
	}
	return max(now.Sub(began), 1), nil
}

// try takes a turn if nobody waits.
func (l *line) try(now time.Time, w retry.Waiting, of rates) (retry.Turn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dispense(now, nil, of)
	if l.calls.first == nil && l.places.first == nil {
		turn, granted, wait := of.Take(now, 1)
		if granted > 0 {
			return turn, nil
		}
		l.next = now.Add(wait)
	}
	return 0, l.late(now, w, of)
}

// late returns the error of a call for which it is known that its turn comes too late.
func (l *line) late(now time.Time, w retry.Waiting, of rates) error {
	held := of.held(now)
	ends := !w.Until.IsZero()
	switch {
	case held > w.Longest && w.Longest > 0,
		ends && held > 0 && !now.Add(held).Before(w.Until),
		ends && !now.Before(w.Until):
		return &retry.Error{Stop: retry.StopRetryAfter, RetryAfter: held}
	case ends && !l.next.Before(w.Until):
		return &retry.Error{Stop: retry.StopRetryAfter, RetryAfter: l.next.Sub(now)}
	}
	return nil
}

// enter puts a call into the line, and returns how long it sleeps, unless its turn has come. One that
// is new is the last, also if it has read the time before others that came earlier: of thousands that
// come at once each would look for its place.
func (l *line) enter(e *entry, now time.Time, of rates) (d time.Duration, came bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := l.calls.last; last != nil && now.Sub(e.since) < isNew {
		if ahead := last.since.Sub(e.since); ahead > 0 && ahead < mostAhead {
			e.since = last.since
		}
	}
	l.calls.insert(e)
	if l.stands.Store(true); l.calls.first != e {
		return l.rest(e, now), false
	}
	return l.look(e, now, of) // who has come back meanwhile did not know of it
}

// step asks for the turn of a call, and returns how long it sleeps if it has not come.
func (l *line) step(e *entry, now time.Time, of rates) (d time.Duration, came bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.look(e, now, of)
}

func (l *line) look(e *entry, now time.Time, of rates) (d time.Duration, came bool) {
	e.wake = nil
	l.dispense(now, e, of)
	if e.in == nil {
		return 0, true
	}
	if e.err = l.late(now, e.Waiting, of); e.err != nil {
		l.calls.remove(e)
		l.alarm(nil)
		return 0, true
	}
	return l.rest(e, now), false
}

// keepers are the calls that sleep until the next turn and give it out: the first one, and if it has a
// Clock of its own, the first of those that go by the clock of the system.
func (l *line) keepers() (first, second *entry) {
	if first = l.calls.first; first == nil || !first.own {
		return first, nil
	}
	second = first
	for n := 0; second != nil && second.own && n < mostLooked; n++ {
		second = second.after
	}
	return first, second
}

// rest returns how long a call sleeps: until the next turn if it is a keeper, and no longer than
// its time; a negative time is without end. A keeper looks each minute, because its clock may go back.
func (l *line) rest(e *entry, now time.Time) time.Duration {
	longest := maxAway
	e.sleeps = e.Until
	first, second := l.keepers()
	if (e == first || e == second) && (e.sleeps.IsZero() || l.next.Before(e.sleeps)) {
		e.sleeps, longest = l.next, time.Minute
	}
	if e.sleeps.IsZero() {
		return -1
	}
	return min(max(e.sleeps.Sub(now), shortestAsk/10), longest)
}

// sleep waits until d has passed, the call is woken, or ctx is done.
func (l *line) sleep(ctx context.Context, e *entry, p *retry.Policy, d time.Duration) {
	if d >= 0 {
		l.doze(ctx, e, p, d)
		return
	}
	select {
	case <-e.woken:
	case <-ctx.Done():
	}
}

// doze is sleep with a timer. It is apart because most calls in a line have none.
//
//go:noinline
func (l *line) doze(ctx context.Context, e *entry, p *retry.Policy, d time.Duration) {
	if p == nil || p.Clock == nil {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-e.woken:
		case <-ctx.Done():
		}
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if l.wokenBy(e, cancel) {
		_ = p.Sleep(ctx, d)
	}
}

// wokenBy sets how a call is woken, unless it has been.
func (l *line) wokenBy(e *entry, cancel context.CancelFunc) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if done.Closed(e.woken) {
		return false
	}
	e.wake = cancel
	return true
}

// rouse wakes a call.
func (e *entry) rouse() {
	if e.wake != nil {
		e.wake()
		return
	}
	select {
	case e.woken <- struct{}{}:
	default: // it is told already
	}
}

// leave takes a call out of the line that has no turn, or will not use it. It does not ask its Clock,
// which may be what has panicked.
func (l *line) leave(e *entry, of rates) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.in != nil {
		l.calls.remove(e)
		l.alarm(nil)
	}
	if e.turn != 0 {
		of.Return(l.seen, e.turn, 1)
		l.dispense(l.seen, nil, of)
	}
}

// dispense gives out the turns that there are, in the order of arrival, to calls, and to places whose
// owners are to come back by now. The call self knows.
func (l *line) dispense(now time.Time, self *entry, of rates) {
	l.sweep(now, of)
	if l.calls.first == nil && now.Sub(l.seen) > mostLate && of.learns() { // nobody has the timer
		l.catchUp(now, of)
	}
	l.seen = now
	for {
		call, place := l.calls.first, l.places.due(now)
		if call == nil && place == nil {
			break
		}
		turn, granted, wait := of.Take(now, 1)
		if granted <= 0 {
			l.next = now.Add(max(wait, shortestAsk))
			break
		}
		l.given++
		if place != nil && (call == nil || place.since.Before(call.since)) {
			l.putAside(place, turn, now)
		} else {
			l.calls.remove(call)
			if call.turn = turn; call != self {
				call.rouse()
			}
		}
	}
	l.stands.Store(l.calls.first != nil)
	l.alarm(self)
}

// alarm wakes the keepers that sleep for longer than until the next turn.
func (l *line) alarm(self *entry) {
	first, second := l.keepers()
	for _, e := range [...]*entry{first, second} {
		if e != nil && e != self && (e.sleeps.IsZero() || l.next.Before(e.sleeps)) {
			e.rouse()
		}
	}
}

// giveBack returns n turns that were not used.
func (l *line) giveBack(p *retry.Policy, turn retry.Turn, n int, of rates) {
	if n <= 0 {
		return
	}
	now := p.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	of.Return(now, turn&^asked, n)
	l.dispense(now, nil, of)
}

// tell tells how an attempt has ended. Who was refused is the first after the hold: a call by its
// age, and who asks again later by a place, unless that is much later.
func (l *line) tell(p *retry.Policy, turn retry.Turn, err error, v retry.Verdict, of rates) time.Duration {
	now := p.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if refused := err != nil && limits(v); turn&asked != 0 {
		l.burst.tell(refused)
		if refused { // what has not gone was not let through
			l.takeBack(now, of)
		}
	}
	held := of.Tell(now, turn&^asked, err, v)
	if held > 0 {
		l.holdAll(now, of)
	}
	if rest := of.held(now); turn&asked != 0 && rest > 0 && err != nil && v.After <= rest+grace {
		wait := max(rest, v.After)
		l.places.insert(&entry{back: now.Add(wait), lost: now.Add(wait + wait/4 + grace), ahead: l.given})
	}
	l.dispense(now, nil, of)
	return held
}

// holdAll takes back the turns that were put aside, and ends the calls that cannot wait so long.
func (l *line) holdAll(now time.Time, of rates) {
	l.takeBack(now, of)
	l.next = now.Add(of.held(now))
	for e := l.calls.first; e != nil; {
		next := e.after
		if e.err = l.late(now, e.Waiting, of); e.err != nil {
			l.calls.remove(e)
			e.rouse()
		}
		e = next
	}
}
