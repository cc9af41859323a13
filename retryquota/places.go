package retryquota

import (
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// take takes up to n turns, or places.
func (l *line) take(p *retry.Policy, n int, of rates) (turn retry.Turn, granted int, wait time.Duration) {
	now := p.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dispense(now, nil, of)
	for ; l.ready.first != nil && granted < n; granted++ {
		l.ready.remove(l.ready.first)
		turn = l.turn
	}
	if n == 0 && l.ready.first != nil {
		return l.turn, 0, 0
	}
	if (granted < n || n == 0) && l.calls.first == nil && l.places.due(now) == nil { // the others are not here
		more, got, wait := of.Take(now, n-granted)
		if got < n-granted || n == 0 {
			l.next = now.Add(wait)
		}
		if granted > 0 && got > 0 && more != turn { // one turn is told for all
			of.Return(now, more, got)
			got = 0
		}
		if granted == 0 {
			turn = more
		}
		granted, l.given = granted+got, l.given+got
	}
	if n == 0 {
		return turn, 0, max(l.next.Sub(now), 0)
	}
	if granted < n {
		wait = l.reserve(now, n-granted, of)
	}
	return turn | asked, granted, wait
}

// reserve keeps n places, and returns when to come back. Places that are due belong to
// somebody who has come back.
func (l *line) reserve(now time.Time, n int, of rates) (wait time.Duration) {
	again := make([]*entry, 0, min(n, 16))
	for e := l.places.due(now); e != nil && len(again) < n; e = l.places.due(now) {
		l.places.remove(e)
		again = append(again, e)
	}
	for len(again) < n && l.places.n+l.ready.n+len(again) < mostPlaces {
		again = append(again, &entry{since: now, ahead: l.given + l.calls.n + l.places.n + len(again)})
	}
	if len(again) == 0 {
		return mostAhead
	}
	wait = l.comes(now, max(again[0].ahead-l.given, 0), of) + min(time.Duration(n-1)*of.gap(), mostBulk)
	for _, e := range again {
		e.back = now.Add(wait)
		e.lost = e.back.Add(grace + wait/4)
		l.places.insert(e)
	}
	return wait
}

// comes returns when somebody asks again who has so many before: after half of the time that they
// take at the present rate, because that may rise.
func (l *line) comes(now time.Time, ahead int, of rates) time.Duration {
	gap, most := of.gap(), mostAhead
	if gap <= 0 {
		gap, most = unknownGap, mostUnknown
	}
	return max(l.next.Sub(now), shortestAsk) + min(time.Duration(min(ahead, 1<<20))*gap/2, most)
}

// putAside keeps a turn for a place.
func (l *line) putAside(place *entry, turn retry.Turn, now time.Time) {
	l.places.remove(place)
	l.ready.insert(place)
	l.turn, place.lost = turn, now.Add(grace)
}

// takeBack returns the turns that were put aside. Their places stay.
func (l *line) takeBack(now time.Time, of rates) {
	l.burst.unsent(l.ready.n)
	for e := l.ready.first; e != nil; e = l.ready.first {
		l.ready.remove(e)
		l.places.insert(e)
		of.Return(now, l.turn, 1)
	}
}

// catchUp puts the turns aside that came since somebody asked last, for the places whose owners were
// to come back by then: as many as may go at once, because they come late, and all at once, from an
// engine that looks for what is due each few seconds.
func (l *line) catchUp(now time.Time, of rates) {
	at, most := l.seen, l.burst.begin(now)
	for _, t := range [...]time.Time{l.next, now.Add(-grace)} {
		if t.After(at) {
			at = t
		}
	}
	for n := 0; n < mostLooked && at.Before(now) && l.ready.n < most; n++ {
		place := l.places.due(at)
		if place == nil {
			at = l.places.soonest(now)
			continue
		}
		turn, granted, wait := of.Take(at, 1)
		if granted > 0 {
			l.given++
			l.putAside(place, turn, at)
			continue
		}
		at = at.Add(max(wait, shortestAsk))
		l.next = at
	}
	l.burst.sent(now, l.ready.n)
}

// burst is how many turns may go at once that came one after the other. A server that counts in
// windows takes many, and one that wants distance takes one: only a try tells. It doubles until it is
// refused. Then it is as many as were let through, and a larger try comes after ever more of them.
type burst struct {
	most  int  // 0 means 1
	clean int  // tries in a row without a refusal
	need  int  // so many come before a larger one
	grown bool // the present try is larger

	// Of the present try.
	began               time.Time
	out, told, refusals int // out is 0 if there is no try
}

// mostNeed tries without a refusal are enough for a larger one, however often that was refused.
const mostNeed = 8

// begin ends a try of which nobody will tell any more, and returns how many turns may go.
func (b *burst) begin(now time.Time) (most int) {
	if since := now.Sub(b.began); since < 0 || since > mostQuiet {
		b.out = 0
	}
	return max(b.most, 1)
}

// sent notes that n turns go at once, unless a try is under way.
func (b *burst) sent(now time.Time, n int) {
	if b.out == 0 {
		b.began, b.out, b.told, b.refusals = now, n, 0, 0
	}
}

// unsent takes back n turns of a try.
func (b *burst) unsent(n int) {
	if b.out > 0 {
		b.out = max(b.out-n, b.told)
		b.judge()
	}
}

// tell notes how an attempt has ended.
func (b *burst) tell(refused bool) {
	if b.told < b.out {
		b.told++
		if refused {
			b.refusals++
		}
		b.judge()
	}
}

// judge ends a try of which all is told. A few refusals are a matter of the rate.
func (b *burst) judge() {
	if b.out == 0 || b.told < b.out {
		return
	}
	switch {
	case 8*b.refusals > b.out:
		b.most = max(b.out-b.refusals, 1)
		b.clean, b.need, b.grown = 0, min(2*b.need+1, mostNeed), false
	case b.refusals == 0 && b.out >= b.most:
		if b.grown {
			b.need, b.grown = b.need/2, false
		}
		if b.clean++; b.clean > b.need {
			b.most = b.out + 1 + b.out/8
			if b.need == 0 {
				b.most = 2 * b.out
			}
			b.clean, b.grown = 0, true
		}
	}
	b.out = 0
}

// sweep gives up the places whose owners have not come back in time. A daemon that looks once a minute is
// in time: nobody has asked between.
func (l *line) sweep(now time.Time, of rates) {
	if since := now.Sub(l.swept); since >= 0 && since < time.Second {
		return
	}
	l.swept = now
	for _, q := range []*queue{&l.places, &l.ready} {
		for e := q.first; e != nil; {
			next := e.after
			late := now.Sub(e.lost)
			if late > 0 && l.seen.After(e.back) || late > mostQuiet || e.back.Sub(now) > maxAway { // or the clock went back
				q.remove(e)
				if q == &l.ready {
					of.Return(now, l.turn, 1)
				}
			}
			e = next
		}
	}
}
