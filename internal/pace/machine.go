// Package pace is temporary.
package pace

import "time"

// Turn numbers the time between two holds. 0 is none.
type Turn uint16

// Kind says how an attempt ended.
type Kind uint8

// The kinds.
const (
	Served Kind = iota
	Failed
	Lost
	Refused
	Spent
)

// Outcome is how an attempt ended.
type Outcome struct {
	Kind  Kind
	After time.Duration
}

// The settings of a Quota.
const (
	defaultMaxHold = time.Minute
	firstBlindHold = 250 * time.Millisecond // for a refusal without a hint; it doubles
	startTick      = time.Second / 2        // one more turn while the limit is unknown
	startPoll      = 10 * time.Millisecond  // until somebody may have come back
	startServed    = 500                    // successes after which there is no limit
	shortestPeriod = time.Second
	shortestCycle  = 10 * time.Millisecond
	idlePeriods    = 30               // after which a limit is forgotten
	shortestGap    = time.Microsecond // between two turns; a limit that allows more is none
	mostSpread     = 30 * time.Second // of those that ask again by themselves
	mostGathered   = time.Second / 2  // of turns that nobody took: some ask once a second
	shortestAsk    = time.Millisecond // before a Pacer is asked again
)

// Machine is temporary.
type Machine struct {
	MaxHold time.Duration

	open   bool
	turn   Turn          // counts the holds; 0 before the first call
	hold   time.Time     // its end
	began  time.Time     // the cycle: the end of the last hold, or the first call
	served int           // successes in it
	period time.Duration // the length of a cycle
	gap    time.Duration // between two turns; 0 at the start
	sure   time.Duration // the gap before holds that were too short; 0 if the last was not
	next   time.Time     // when the next turn is
	out    int           // turns taken at the start
	back   int           // attempts that have come back
	busy   bool          // somebody had to wait in this cycle
	waited time.Time     // when that was

	// The cycle that the last hold has ended. Its attempts may still come back.
	late   bool          // nobody has come back since
	before int           // successes in it
	lasted time.Duration // how long it was

	blind      int           // refusals without a hint since the last success
	blindSince time.Time     // the first of them
	blindFor   time.Duration // how long they lasted the last time

}

// Take takes turns.
func (q *Machine) Take(now time.Time, n int) (turn Turn, granted int, wait time.Duration) {
	if q.open {
		return q.turn, n, 0
	}
	if n == 0 {
		c := *q
		return q.turn, 0, c.take(now)
	}
	for granted < n && wait == 0 {
		if wait = q.take(now); wait == 0 {
			granted++
		}
	}
	return q.turn, granted, wait
}

// Held is the rest of the hold.
func (q *Machine) Held(now time.Time) time.Duration { return max(q.hold.Sub(now), 0) }

// Gap is between two turns.
func (q *Machine) Gap() time.Duration { return q.gap }

// Free is a window.
func (q *Machine) Free() int {
	if q.open {
		return 1000
	}
	return 0
}

// Widen is.
func (q *Machine) Widen(time.Time, int) int { return 1000 }

// Idle is.
func (q *Machine) Idle(now time.Time) bool { return q.gap == 0 && q.hold.Before(now) }

func orDefault(d, o time.Duration) time.Duration {
	if d <= 0 {
		return o
	}
	return d
}

// take takes one turn, or returns how long to wait for it. The lock is held.
func (q *Machine) take(now time.Time) (wait time.Duration) {
	if q.turn == 0 {
		q.turn, q.began = 1, now
	}
	if q.gap > 0 && now.Sub(q.waited) >= idlePeriods*q.period {
		q.start(now)
	}
	switch wait = q.hold.Sub(now); {
	case wait > q.maxHold(): // the clock went back
		q.hold, q.next, q.began = now, now, now
	case wait > 0:
		return q.wait(now, wait)
	}
	if q.gap == 0 {
		if q.out >= 1+2*q.back+int(max(now.Sub(q.began), 0)/startTick) {
			return startPoll
		}
		q.out++
		return 0
	}
	switch wait = q.next.Sub(now); {
	case wait > q.gap: // the clock went back
		q.next, wait = now.Add(q.gap), q.gap
	case wait < -mostGathered && now.Sub(q.hold) > q.period: // turns that nobody took do not gather for ever
		q.next = now.Add(-mostGathered)
	}
	if wait > 0 {
		return q.wait(now, wait)
	}
	q.next = q.next.Add(q.gap)
	return 0
}

// wait notes that somebody has to wait.
func (q *Machine) wait(now time.Time, wait time.Duration) time.Duration {
	q.busy, q.waited = true, now
	return wait
}

// start forgets what is known.
func (q *Machine) start(now time.Time) {
	q.gap, q.sure, q.out, q.back, q.began, q.served = 0, 0, 0, 0, now, 0
}

// Return implements [Pacer].
func (q *Machine) Return(_ time.Time, turn Turn, n int) {
	if turn != q.turn {
		return
	}
	if q.gap == 0 {
		q.out = max(q.out-n, 0)
	} else {
		q.next = q.next.Add(-time.Duration(n) * q.gap)
	}
}

// Tell is told.
func (q *Machine) Tell(now time.Time, turn Turn, o Outcome) (held time.Duration) {
	if q.open && o.Kind != Refused && o.Kind != Spent {
		return 0
	}
	switch o.Kind {
	case Served:
		q.serve(now, turn)
	case Spent:
		q.serve(now, turn)
		return q.refuse(now, turn, o.After)
	case Refused:
		return q.refuse(now, turn, o.After)
	default:
		q.back++
	}
	return 0
}

// serve counts a success.
func (q *Machine) serve(now time.Time, turn Turn) {
	if turn != q.turn { // of the cycle before
		if q.late {
			q.before++
			q.pace(q.before, q.lasted)
		}
		return
	}
	switch {
	case q.blind > 0:
		q.blind, q.blindFor = 0, max(now.Sub(q.blindSince), 0)
		q.period = max(q.period, min(q.blindFor, q.maxHold()))
	case q.sure > 0:
		q.gap = q.sure
	}
	q.sure = 0
	q.late = false
	q.served++
	q.back++
	switch {
	case q.gap == 0:
		if q.served >= startServed {
			q.open = true
		}
	case now.Sub(q.began) >= q.period:
		if q.busy {
			q.gap /= 2
		}
		q.began, q.served, q.busy = now, 0, false
		if q.gap < shortestGap {
			q.open = true
		}
	}
}

// pace sets twice the rate of n in d. Nobody waits for a turn longer than for a hold.
func (q *Machine) pace(n int, d time.Duration) {
	q.gap, q.sure = min(max(d/time.Duration(2*n), shortestGap), q.maxHold()), 0
}

// refuse begins a hold, and returns how long it is, unless the refusal belongs to the last one.
func (q *Machine) refuse(now time.Time, turn Turn, after time.Duration) (held time.Duration) {
	hinted := after > 0
	if after = min(after, q.maxHold()); !hinted {
		after = min(max(firstBlindHold<<min(q.blind, 10), q.blindFor/4), q.maxHold())
	}
	end := now.Add(after)
	if turn != q.turn { // it began before the hold
		if hinted && end.Sub(q.hold) > time.Second+after/20 { // more than a hint is rounded
			q.hold, q.began, q.next = end, end, end
		}
		return 0
	}
	if !hinted {
		if q.blind == 0 {
			q.blindSince = now
		}
		q.blind++
	}
	q.learn(end.Sub(q.began), after)
	if q.turn++; q.turn == 0 {
		q.turn++
	}
	q.hold, q.began, q.next = end, end, end
	q.served, q.out, q.back, q.busy, q.waited = 0, 0, 0, false, end
	return after
}

// learn sets the rate after a cycle of the length d that ends with a hold.
func (q *Machine) learn(d, held time.Duration) {
	d = max(d, shortestCycle)
	known := !q.open
	q.open = false
	if known && q.gap == 0 { // the start goes on after the hold, if nobody was served
		q.period = max(held, min(d, q.maxHold()), shortestPeriod)
	} else if q.gap > 0 && q.served == 0 { // the hold was too short
		q.sure = orDefault(q.sure, q.gap)
		q.gap = min(2*q.gap, q.maxHold())
	}
	q.late, q.before, q.lasted = known, q.served, d
	if known && q.served > 0 {
		q.pace(q.served, d)
		q.period = max(d, shortestPeriod)
	}
	if !known {
		q.gap = 0
	}
}

func (q *Machine) maxHold() time.Duration { return orDefault(q.MaxHold, defaultMaxHold) }
