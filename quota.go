package retry

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Pacer gives the attempts of all calls that share a limit their turns. A [*Quota] is a Pacer;
// a limiter of your own can be one too. The methods get the time of the policy's clock and run
// on the goroutine of the call. They must not block, and must be safe for concurrent use. A
// panic in them passes through the call.
type Pacer interface {
	// Take asks for n turns. It returns how many of them it grants, and the turn, which is
	// not 0. If it grants fewer, the caller asks again after wait.
	Take(now time.Time, n int) (turn Turn, granted int, wait time.Duration)

	// Return gives back n turns that were not used.
	Return(now time.Time, turn Turn, n int)

	// Tell tells how an attempt with this turn has ended. err is nil after a success. v is
	// the verdict about err; after a success it has the class RateLimited if the server has
	// said that nothing is left for the time of After. held is how long nobody may go, if
	// this attempt is the first to say so.
	Tell(now time.Time, turn Turn, err error, v Verdict) (held time.Duration)
}

// Turn is the permission for an attempt of a [Pacer]. 0 is none.
type Turn uint16

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

// Quota learns what a dependency lets through, and gives each call its turn: a refusal that one
// call hears holds all of them. Share one Quota among all calls that share a limit, such as
// those with one API key. Each process has its own; no store is needed. The zero value is
// ready; a Quota must not be copied after its first use.
//
// No limit is known at first. Two more attempts may go for each that has come back, and one
// more each half second. After 500 successes without a refusal a turn is free.
//
// When an attempt is [RateLimited], nobody goes until the hint has passed, MaxHold at most.
// Without a hint, the hold is 250 ms, and doubles until there is a success. After it, attempts
// go one by one, at twice the rate of the successes of the last cycle, from the end of one hold
// to the end of the next. So each cycle ends with one refusal per process, whatever the backlog
// is. A whole cycle in which somebody had to wait and nobody was refused makes the rate twice
// as fast again. After 30 cycles in which nobody had to wait, the limit is forgotten.
//
// A turn is spent by time: a worker that dies with its turn holds up nobody. Callers that wait
// have their turns in the order of their arrival, with one timer for all of them.
//
// A nil *Quota sets no limit. A Quota is safe for concurrent use, and lock-free where no limit
// is known. docs/quota.md says when to share one, and has figures.
type Quota struct {
	// MaxHold is the longest hint that holds all calls: 0 or less means 1 minute. The call
	// that got a longer hint is judged by its policy; the others try again after MaxHold.
	MaxHold time.Duration

	open atomic.Uint32 // the turn of everybody, while no limit is known after the start; else 0

	mu     sync.Mutex
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

	first, last *waiter       // of the line
	apart       time.Duration // see spread
}

// Take implements [Pacer].
func (q *Quota) Take(now time.Time, n int) (turn Turn, granted int, wait time.Duration) {
	if q == nil {
		return 0, n, 0
	}
	if turn := q.open.Load(); turn != 0 {
		return Turn(turn), n, 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for granted < n && wait == 0 {
		if wait = q.take(now); wait == 0 {
			granted++
			q.apart -= q.apart / 16
		}
	}
	return q.turn, granted, wait
}

// take takes one turn, or returns how long to wait for it. The lock is held.
func (q *Quota) take(now time.Time) (wait time.Duration) {
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
func (q *Quota) wait(now time.Time, wait time.Duration) time.Duration {
	q.busy, q.waited = true, now
	return wait
}

// start forgets what is known.
func (q *Quota) start(now time.Time) {
	q.gap, q.sure, q.out, q.back, q.began, q.served = 0, 0, 0, 0, now, 0
}

// Return implements [Pacer].
func (q *Quota) Return(_ time.Time, turn Turn, n int) {
	if q == nil || n <= 0 || q.open.Load() != 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if turn != q.turn {
		return
	}
	if q.gap == 0 {
		q.out = max(q.out-n, 0)
	} else {
		q.next = q.next.Add(-time.Duration(n) * q.gap)
	}
	q.wake()
}

// Tell implements [Pacer].
func (q *Quota) Tell(now time.Time, turn Turn, err error, v Verdict) (held time.Duration) {
	limited := v.Class == RateLimited || v.Class == Unknown && v.After > 0 && !v.Exact
	if q == nil || !limited && q.open.Load() != 0 {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case err == nil, v.Class == Final, v.Class == Pending && v.Category != notStarted: // the server has answered
		q.serve(now, turn)
	case !limited:
		q.back++
	}
	if limited {
		held = q.refuse(now, turn, v.After)
	}
	q.wake()
	return held
}

// serve counts a success.
func (q *Quota) serve(now time.Time, turn Turn) {
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
			q.open.Store(uint32(q.turn))
		}
	case now.Sub(q.began) >= q.period:
		if q.busy {
			q.gap /= 2
		}
		q.began, q.served, q.busy = now, 0, false
		if q.gap < shortestGap {
			q.open.Store(uint32(q.turn))
		}
	}
}

// pace sets twice the rate of n in d. Nobody waits for a turn longer than for a hold.
func (q *Quota) pace(n int, d time.Duration) {
	q.gap, q.sure = min(max(d/time.Duration(2*n), shortestGap), q.maxHold()), 0
}

// refuse begins a hold, and returns how long it is, unless the refusal belongs to the last one.
func (q *Quota) refuse(now time.Time, turn Turn, after time.Duration) (held time.Duration) {
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
func (q *Quota) learn(d, held time.Duration) {
	d = max(d, shortestCycle)
	known := q.open.Swap(0) == 0 // else nobody has counted
	if known && q.gap == 0 {     // the start goes on after the hold, if nobody was served
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

func (q *Quota) maxHold() time.Duration { return orDefault(q.MaxHold, defaultMaxHold) }

// waiter is a caller in the line.
type waiter struct {
	before, after *waiter

	first chan struct{}      // closed when it is the first of the line
	again context.CancelFunc // wakes the first of the line, because its turn may come sooner

	// Of the caller.
	quota *Quota
	began time.Time
	end   func()        // tells the Observer
	wait  time.Duration // until it asks again
}

// enter takes a turn, or if there is none, a place in the line for w, which may be nil.
func (q *Quota) enter(now time.Time, w *waiter) Turn {
	if turn := q.open.Load(); turn != 0 {
		return Turn(turn)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.first == nil && q.take(now) == 0:
		return q.turn
	case w == nil:
	case q.first == nil:
		q.first, q.last = w, w
		close(w.first)
	default:
		w.before, q.last.after = q.last, w
		q.last = w
	}
	return 0
}

// ask takes a turn for the first of the line, which leaves it then.
func (q *Quota) ask(w *waiter, now time.Time) (turn Turn, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if turn := q.open.Load(); turn != 0 {
		q.remove(w)
		return Turn(turn), 0
	}
	if wait = q.take(now); wait > 0 {
		return 0, wait
	}
	q.remove(w)
	return q.turn, 0
}

// lead notes how to wake the first of the line.
func (q *Quota) lead(w *waiter, again context.CancelFunc) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.again = again
}

// leave takes a caller out of the line that has no turn.
func (q *Quota) leave(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.remove(w)
}

// remove takes a caller out of the line, and makes the next one the first.
func (q *Quota) remove(w *waiter) {
	if w.after != nil {
		w.after.before = w.before
	} else {
		q.last = w.before
	}
	if w.before != nil {
		w.before.after = w.after
	} else if q.first = w.after; q.first != nil {
		close(q.first.first)
	}
}

// wake wakes the first of the line.
func (q *Quota) wake() {
	if q.first != nil && q.first.again != nil {
		q.first.again()
	}
}

// held returns how long nobody may go.
func (q *Quota) held(now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(q.hold.Sub(now), 0)
}

// spread is over how long those are spread that ask again by themselves and have no place in
// the line. It grows when one asks in vain, and shrinks with each turn, so that it fits their
// number: about two ask in vain for each turn. It is some cycles at most.
func (q *Quota) spread() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.apart = min(max(q.apart+q.apart/32, startPoll), 4*max(q.period, shortestPeriod), mostSpread)
	return q.apart
}
