// Package retryquota gives the calls that share a limit their turns.
package retryquota

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/pace"
)

// Quota learns what a dependency lets through, and gives each call its turn.
type Quota struct {
	// MaxHold is the longest hint that holds all calls: 0 or less means 1 minute. The call
	// that got a longer hint is judged by its policy; the others try again after MaxHold.
	MaxHold time.Duration

	traffic atomic.Uint64 // attempts in flight that asked for nothing, and how many have come back
	window  atomic.Uint32 // how many may be in flight without asking; 0 if all have to ask

	line    line
	machine pace.Machine // under the lock of the line
	widened uint32       // how many had come back when the window was made wider
	eased   time.Time    // when one more went, in case others never come back
}

// free is the turn of an attempt that has asked for nothing.
const free retry.Turn = 1 << 30

const came = 1 << 32 // in traffic: one has come back

// Wait implements [retry.Pacer].
func (q *Quota) Wait(ctx context.Context, p *retry.Policy, w retry.Waiting) (turn retry.Turn, waited time.Duration, err error) {
	if q == nil || q.enter(1) {
		return free, 0, nil
	}
	return q.line.wait(ctx, p, w, machine{q})
}

// Take implements [retry.Pacer].
func (q *Quota) Take(p *retry.Policy, n int) (turn retry.Turn, granted int, wait time.Duration) {
	if q == nil || q.enter(n) {
		return free, n, 0
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
		traffic := q.traffic.Add(came - 1)
		if q.window.Load() == 0 || uint32(traffic)+1 < q.window.Load() { // nobody waits for it
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

// idle reports whether the Quota knows nothing, and nobody waits or is under way, a time after it was
// asked the last time.
func (q *Quota) idle(after time.Duration) bool {
	q.line.mu.Lock()
	defer q.line.mu.Unlock()
	return q.line.calls.first == nil && uint32(q.traffic.Load()) == 0 && q.machine.Idle(q.line.seen.Add(after))
}

// enter lets n attempts go without a look at the time, while no limit is known.
func (q *Quota) enter(n int) bool {
	window := q.window.Load()
	if window == 0 {
		return false
	}
	if uint32(q.traffic.Add(uint64(n))) <= window {
		return true
	}
	q.traffic.Add(-uint64(n))
	return false
}

// limits reports whether a verdict says something about the rate of the caller.
func limits(v retry.Verdict) bool {
	return v.Class == retry.RateLimited || v.After > 0 && !v.Exact && v.Class != retry.Final && v.Class != retry.Pending
}

// machine is the Limiter of a Quota.
type machine struct{ *Quota }

func (m machine) held(now time.Time) time.Duration { return m.machine.Held(now) }
func (m machine) gap() time.Duration               { return m.machine.Gap() }

// Take implements [Limiter].
func (m machine) Take(now time.Time, n int) (retry.Turn, int, time.Duration) {
	m.machine.MaxHold = m.MaxHold
	if m.machine.Free() == 0 {
		turn, granted, wait := m.machine.Take(now, n)
		m.window.Store(uint32(m.machine.Free()))
		return retry.Turn(turn), granted, wait
	}
	for k := n; k > 0; k /= 2 {
		if m.enter(k) {
			return free, k, 0
		}
	}
	if n == 0 && uint32(m.traffic.Load()) < m.window.Load() {
		return free, 0, 0
	}
	if int32(uint32(m.traffic.Load())) < 0 { // somebody has told more than was taken
		m.traffic.Store(0)
	}
	back := uint32(m.traffic.Load() >> 32)
	if w := m.machine.Widen(now, int(back-m.widened)); uint32(w) > m.window.Load() {
		m.window.Store(uint32(w))
		m.widened = back
	} else if since := now.Sub(m.eased); since < 0 || since >= easy {
		m.eased = now
		m.traffic.Add(^uint64(0))
	}
	if n > 0 && m.enter(1) {
		return free, 1, 0
	}
	return free, 0, poll
}

const (
	easy = time.Second / 2
	poll = 10 * time.Millisecond
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
	if turn == 0 { // see Spent
		turn, _, _ = m.current(now)
	} else if turn&free != 0 {
		if !limits(v) {
			return 0 // counted already
		}
		m.traffic.Add(came - 1)
		turn, _, _ = m.current(now)
	}
	m.machine.MaxHold = m.MaxHold
	held = m.machine.Tell(now, pace.Turn(turn), o)
	m.window.Store(uint32(m.machine.Free()))
	return held
}

func (m machine) current(now time.Time) (retry.Turn, int, time.Duration) {
	turn, n, wait := m.machine.Take(now, 0)
	return retry.Turn(turn), n, wait
}
