package retryquota

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/pace"
)

// Quota learns what a dependency lets through, and gives each call its turn: a refusal that one call
// hears holds all of them. Share one among all calls that share a limit, such as those with one API
// key. Each process has its own; no store is needed. The zero value is ready; a Quota must not be
// copied after its first use.
//
// A turn is spent by time: a worker that dies with its turn holds up nobody. After 500 successes
// without a refusal a turn costs nothing but two atomic additions. A nil *Quota sets no limit. A Quota
// is safe for concurrent use.
type Quota struct {
	// MaxHold is the longest hint that holds all calls: 0 or less means 1 minute. The call
	// that got a longer hint is judged by its policy; the others try again after MaxHold.
	MaxHold time.Duration

	traffic atomic.Uint64 // attempts in flight that asked for nothing, and how many have come back
	window  atomic.Uint64 // how many may be in flight without asking, 0 if all have to ask; above 32 bits their turn

	line    line
	machine pace.Machine // under the lock of the line
	widened uint32       // how many had come back when the window was made wider
	eased   time.Time    // when one more went, in case others never come back
}

// free marks the turn of an attempt that has asked for nothing.
const free retry.Turn = 1 << 30

const came = 1 << 32 // in traffic: one has come back

// Wait implements [retry.Pacer].
func (q *Quota) Wait(ctx context.Context, p *retry.Policy, w retry.Waiting) (turn retry.Turn, waited time.Duration, err error) {
	if q == nil {
		return free, 0, nil
	}
	if turn = q.enter(1); turn != 0 {
		return turn, 0, nil
	}
	return q.line.wait(ctx, p, w, machine{q})
}

// Take implements [retry.Pacer].
func (q *Quota) Take(p *retry.Policy, n int) (turn retry.Turn, granted int, wait time.Duration) {
	if q == nil {
		return free, n, 0
	}
	if turn = q.enter(n); turn != 0 {
		return turn, n, 0
	}
	return q.line.take(p, n, machine{q})
}

// Return implements [retry.Pacer].
func (q *Quota) Return(p *retry.Policy, turn retry.Turn, n int) {
	if q != nil {
		q.line.giveBack(p, turn, n, machine{q})
	}
}

// Tell implements [retry.Pacer].
func (q *Quota) Tell(p *retry.Policy, turn retry.Turn, err error, v retry.Verdict) (held time.Duration) {
	if q == nil {
		return 0
	}
	if turn&free != 0 && !limits(v) {
		if q.traffic.Add(came - 1); !q.line.stands.Load() { // nobody waits for it
			return 0
		}
	}
	return q.line.tell(p, turn, err, v, machine{q})
}

// Spent says that a success has told that nothing is left for the time of after, as the headers of a
// response do: nobody goes until then, unless later successes contradict it. Call it in the function that
// Execute or Do calls, in the Work of a Worker, or after a Stored. Only the clock of p counts, which may
// be nil.
func (q *Quota) Spent(p *retry.Policy, after time.Duration) {
	if q != nil && after > 0 {
		_ = q.line.tell(p, 0, nil, retry.Verdict{Class: retry.RateLimited, After: after}, machine{q})
	}
}

// Status is what a Quota does at an instant, for people and for metrics.
type Status struct {
	State   string        // "start", "open": no limit is known after the start; "held" or "paced"
	Hold    time.Duration // the rest of the hold
	Since   time.Time     // when the last hold began; zero before the first
	Gap     time.Duration // between two turns; 0 if no rate is known
	Waiting int           // calls in the line
	Away    int           // places of those who ask again later
}

var states = [...]string{pace.Start: "start", pace.Open: "open", pace.Held: "held", pace.Paced: "paced"}

// Status returns what the Quota does now, by the clock of p, which may be nil.
func (q *Quota) Status(p *retry.Policy) Status {
	if q == nil {
		return Status{State: states[pace.Open]}
	}
	now := p.Now()
	q.line.mu.Lock()
	defer q.line.mu.Unlock()
	m := q.machine.Status(now)
	return Status{states[m.State], m.Hold, m.Since, m.Gap, q.line.calls.n, q.line.places.n + q.line.ready.n}
}

// idle reports whether the Quota knows nothing, and nobody waits or is under way, a time after it was
// asked the last time.
func (q *Quota) idle(after time.Duration) bool {
	q.line.mu.Lock()
	defer q.line.mu.Unlock()
	under := uint32(q.traffic.Load()) != 0 && after < longestAttempt // or was never told
	return q.line.calls.first == nil && !under && q.machine.Idle(q.line.seen.Add(after))
}

// enter lets n attempts go without a look at the time, while no limit is known. It returns their
// turn, or 0.
func (q *Quota) enter(n int) retry.Turn {
	window := q.window.Load()
	if uint32(window) == 0 || uint64(n) > uint64(uint32(window)) {
		return 0
	}
	if uint32(q.traffic.Add(uint64(n))) <= uint32(window) {
		return free | retry.Turn(window>>32)
	}
	q.traffic.Add(-uint64(n))
	return 0
}

// limits reports whether a verdict says something about the rate of the caller.
func limits(v retry.Verdict) bool {
	return v.Class == retry.RateLimited || v.After > 0 && !v.Exact && v.Class != retry.Final && v.Class != retry.Pending
}

// machine is the Limiter of a Quota.
type machine struct{ *Quota }

func (m machine) held(now time.Time) time.Duration { return m.machine.Held(now) }
func (m machine) gap() time.Duration               { return m.machine.Gap() }
func (m machine) learns() bool                     { return true }

// Take implements [Limiter].
func (m machine) Take(now time.Time, n int) (retry.Turn, int, time.Duration) {
	m.machine.MaxHold = m.MaxHold
	if m.machine.Free() == 0 {
		turn, granted, wait := m.machine.Take(now, n)
		m.open(turn)
		return retry.Turn(turn), granted, wait
	}
	for k := n; k > 0; k /= 2 {
		if turn := m.enter(k); turn != 0 {
			return turn, k, 0
		}
	}
	turn, _, _ := m.machine.Take(now, 0)
	if int32(uint32(m.traffic.Load())) < 0 { // somebody has told more than was taken
		m.traffic.Store(0)
	}
	if n == 0 && uint32(m.traffic.Load()) < uint32(m.window.Load()) {
		return retry.Turn(turn), 0, 0
	}
	back := uint32(m.traffic.Load() >> 32)
	if w := m.machine.Widen(now, int(back-m.widened)); uint32(w) > uint32(m.window.Load()) {
		m.open(turn)
		m.widened = back
	} else if since := now.Sub(m.eased); since < 0 || since >= easy {
		m.eased = now
		m.traffic.Add(^uint64(0))
	}
	if n > 0 {
		if turn := m.enter(1); turn != 0 {
			return turn, 1, 0
		}
	}
	return retry.Turn(turn), 0, poll
}

// open lets as many go without asking as the machine says.
func (m machine) open(turn pace.Turn) {
	m.window.Store(uint64(turn)<<32 | uint64(uint32(m.machine.Free())))
}

const (
	easy           = time.Second / 2
	poll           = 10 * time.Millisecond
	longestAttempt = time.Hour
)

// Return implements [Limiter].
func (m machine) Return(now time.Time, turn retry.Turn, n int) {
	if turn&free != 0 {
		m.traffic.Add(-uint64(n))
		return
	}
	m.machine.Return(now, pace.Turn(turn), n)
}

// Tell implements [Limiter].
func (m machine) Tell(now time.Time, turn retry.Turn, err error, v retry.Verdict) (held time.Duration) {
	o := pace.Outcome{Kind: pace.Failed, After: v.After}
	switch {
	case err == nil && v.Class == retry.RateLimited:
		o.Kind = pace.Spent
	case limits(v):
		o.Kind = pace.Refused
	case err == nil, v.Class == retry.Final, v.Class == retry.Pending: // the server has answered
		o.Kind = pace.Served
	case err == retry.ErrLost: //nolint:errorlint // of the call itself
		o.Kind = pace.Lost
	}
	at := pace.Turn(turn)
	switch {
	case turn == 0: // see Spent
		at, _, _ = m.machine.Take(now, 0)
	case turn&free != 0 && !limits(v):
		return 0 // counted already
	case turn&free != 0:
		m.traffic.Add(came - 1)
	}
	m.machine.MaxHold = m.MaxHold
	if held = m.machine.Tell(now, at, o); uint32(m.window.Load()) != uint32(m.machine.Free()) {
		at, _, _ = m.machine.Take(now, 0)
		m.open(at)
	}
	return held
}
