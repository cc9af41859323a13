package pace

import "time"

// Turn is the permission for an attempt: it numbers the period between two holds. 0 is none.
type Turn uint16

// Kind says what an attempt has shown about the limit.
type Kind uint8

// The kinds of outcomes.
const (
	Served  Kind = iota // the server let it through: a success, or a final answer
	Failed              // it came back, and says nothing about the limit
	Lost                // nobody knows how it ended: a panic, a cancel
	Refused             // the server said: not now
	Spent               // served, and nothing is left for After
)

// Outcome is how an attempt ended. After is the hint of the server; 0 or less is none.
type Outcome struct {
	Kind  Kind
	After time.Duration
}

const (
	defaultMaxHold = time.Minute
	blindHold      = 250 * time.Millisecond // the first hold without a hint
	poll           = 10 * time.Millisecond  // until an attempt may have come back
	shortStep      = time.Second / 2        // of growth while the limit may be gone
	longStep       = 2 * time.Second        // of growth at most
	slack          = time.Second / 2        // who waits asks again that late at most
	shortestPeriod = time.Second
	shortestCycle  = 10 * time.Millisecond
	shortestGap    = time.Microsecond
	longestGap     = 2 * time.Second // of a server that wants distance
	provenServed   = 500             // successes after which no limit is known
	provenSteps    = 5               // of growth
	fewServed      = 4               // of a cycle that says little
	fastest        = 8               // times what was let through
	memory         = 30              // cycles
	longMemory     = time.Hour
	quiet          = 30 * time.Second // after which a key may forget its machine
	doubted        = 4                // holds of successes in a row, one turn each
)

// Machine learns what a server lets through. The zero value is ready. It is not safe for
// concurrent use.
type Machine struct {
	// MaxHold is the longest hold: 0 or less means a minute.
	MaxHold time.Duration

	turn Turn // 0 before the first Take
	seen time.Time

	free   int // the window of the state free; else 0
	window int // in flight at most; 0 if paced and sure of the hold
	out    int // in flight, since the last hold
	passed int // turns since the last hold that were not refused
	served int // successes since the last hold

	now, past cycle     // that there is, and that the last hold or several short ones were in
	before    mean      // of the cycles before the past one
	whole     bool      // the past one has ended, too
	ended     bool      // the hold has ended the cycle: the next demand begins another
	wanted    time.Time // somebody waits at least until then

	gap    time.Duration // between two turns; 0 if no rate is known
	last   time.Time     // the turn before
	was    time.Duration // the gap before the last refusal
	good   time.Duration // the gap before the last growth
	sure   bool          // the limit was met more than once, and lately
	grew   time.Time
	steps  int     // of growth without a refusal
	factor float64 // of the next growth

	since, hold time.Time // begin and end of the hold

	// Refusals in a row, with no turn between them that was not refused.
	row     int
	rowFrom time.Time
	stretch [2]time.Duration // how long it lasted: less than once is believed, and the last time

	// Successes that say that nothing is left.
	spent int       // holds in a row with one turn each
	claim time.Time // the end of a hold that was not kept, to see whether it was needed
	lies  bool      // it was not
}

// cycle is a time in which somebody wanted to go and could not.
type cycle struct {
	began  time.Time
	gone   int // let through
	nos    int // refusals
	passed int // turns after its last hold
	late   int // of them refused after the next
	lasted time.Duration
}

// mean is of several cycles; older ones count less.
type mean struct{ gone, nos, lasted float64 }

func (m *Machine) maxHold() time.Duration {
	if m.MaxHold <= 0 {
		return defaultMaxHold
	}
	return m.MaxHold
}

// Take asks for n turns now. If it grants fewer, the caller asks again after wait, or when an
// attempt is told or a turn returned. n == 0 only looks: nothing counts as demand.
func (m *Machine) Take(now time.Time, n int) (turn Turn, granted int, wait time.Duration) {
	if m.turn == 0 {
		m.turn, m.window = 1, 1
	}
	m.tick(now)
	switch {
	case m.free > 0:
		return m.turn, n, 0
	case n == 0:
		return m.turn, 0, m.wait(now)
	}
	for m.seen = now; granted < n; granted++ {
		m.grow(now)
		if m.free > 0 {
			return m.turn, n, 0
		}
		if wait = m.wait(now); wait > 0 {
			m.want(now, wait)
			break
		}
		m.spend(now)
	}
	return m.turn, granted, wait
}

// tick forgets with time, and mends what a clock that went back has left in the future.
func (m *Machine) tick(now time.Time) {
	if m.hold.Sub(now) > m.maxHold() {
		m.hold = now
	}
	if m.hold.After(now) {
		return
	}
	for _, t := range []*time.Time{&m.last, &m.grew, &m.now.began} {
		if t.After(now) {
			*t = now
		}
	}
	idle := now.Sub(m.hold)
	if m.gap > 0 && idle > memory*max(m.past.lasted, shortestPeriod) {
		m.sure = false
		if now.Sub(m.since) > max(longMemory, 2*m.maxHold()) {
			*m = Machine{MaxHold: m.MaxHold, turn: m.turn, out: m.out, window: 1}
		}
	}
}

// wait is until the next turn.
func (m *Machine) wait(now time.Time) time.Duration {
	switch wait := m.hold.Sub(now); {
	case wait > 0:
		return wait
	case m.window > 0 && m.out >= m.window:
		return poll
	case m.gap == 0:
		return 0
	}
	return max(m.last.Add(m.gap).Sub(now), 0)
}

// want notes that somebody waits.
func (m *Machine) want(now time.Time, wait time.Duration) {
	if now.After(m.wanted) {
		m.now = cycle{began: now}
		if m.hold.After(now) {
			m.now.began = m.hold
		}
		m.grew, m.steps = m.now.began, 0
	}
	m.wanted = now.Add(wait + slack + 2*m.gap)
}

// spend takes a turn.
func (m *Machine) spend(now time.Time) {
	m.out++
	m.now.gone++
	m.passed++
	late := time.Duration(0)
	if !now.After(m.wanted) {
		late = slack // the turns of those who ask late are theirs
	}
	if m.last = m.last.Add(m.gap); now.Sub(m.last) > late {
		m.last = now.Add(-late)
	}
}

// Return gives back n turns that were not used.
func (m *Machine) Return(_ time.Time, turn Turn, n int) {
	if turn != m.turn || m.free > 0 || n <= 0 {
		return
	}
	m.out = max(m.out-n, 0)
	m.passed = max(m.passed-n, 0)
	m.now.gone = max(m.now.gone-n, 0)
	m.last = m.last.Add(-time.Duration(n) * m.gap)
}

// Tell tells how an attempt ended. held is how long nobody may go, if it is the first to say so,
// or if a hold has become longer.
func (m *Machine) Tell(now time.Time, turn Turn, o Outcome) (held time.Duration) {
	m.seen = now
	if m.turn == 0 {
		m.turn, m.window = 1, 1
	}
	after := min(max(o.After, 0), m.maxHold())
	current := turn == m.turn || m.free > 0
	if current {
		m.out = max(m.out-1, 0)
	}
	switch {
	case o.Kind == Refused && current:
		return m.refuse(now, after)
	case o.Kind == Refused:
		return m.refuseLate(now, turn, after)
	case o.Kind != Served && o.Kind != Spent || !current:
		return 0
	}
	m.serve(now)
	if o.Kind == Spent && after > 0 {
		return m.nothingLeft(now, after)
	}
	return 0
}

// Held returns the rest of the hold.
func (m *Machine) Held(now time.Time) time.Duration { return max(m.hold.Sub(now), 0) }

// Gap is between two turns at the present rate; 0 while no rate is known.
func (m *Machine) Gap() time.Duration { return m.gap }

// Free is how many may be in flight without asking, if no limit is known after the start; else 0.
// Then only an outcome that is no plain success has to be told.
func (m *Machine) Free() int { return m.free }

// Widen returns a new window of Free, which was full. So many attempts have come back well since
// it was asked last.
func (m *Machine) Widen(now time.Time, served int) int {
	if m.free > 0 && (served >= m.free || now.Sub(m.grew) >= shortStep || now.Before(m.grew)) {
		m.free, m.grew = min(2*m.free, 1<<30), now
	}
	return m.free
}

// Idle reports whether nothing is known that is worth keeping.
func (m *Machine) Idle(now time.Time) bool {
	return !m.hold.After(now) && (m.gap == 0 && m.out == 0 || now.Sub(m.seen) >= quiet)
}

// State is what a Machine does.
type State uint8

// The states.
const (
	Start State = iota // no limit is known yet
	Open               // no limit is known after the start
	Held               // nobody may go
	Paced              // one turn each gap
)

// Status is a snapshot for people.
type Status struct {
	State State
	Hold  time.Duration // the rest of it
	Since time.Time     // the begin of the last hold; zero before the first
	Gap   time.Duration // between two turns; 0 if no rate is known
	Known int           // attempts in flight that were not free
}

// Status returns a snapshot.
func (m *Machine) Status(now time.Time) Status {
	s := Status{Hold: m.Held(now), Since: m.since, Gap: m.gap, Known: m.out}
	switch {
	case s.Hold > 0:
		s.State = Held
	case m.free > 0:
		s.State, s.Known = Open, 0
	case m.gap > 0:
		s.State = Paced
	}
	return s
}
