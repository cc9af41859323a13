// Package scene simulates clients of a server with a limit that they do not know.
package scene

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/pace"
	"github.com/seed-5ff3c98e/retry/internal/storm/events"
)

// Answer is what a server says.
type Answer struct {
	OK    bool
	Left  time.Duration // a refusal: until it would be taken
	After time.Duration // what it says about that
	Spent time.Duration // a success: nothing is left for so long; 0: something is
}

// Server takes or refuses a request.
type Server func(now time.Duration, cost int) Answer

// Pacer is what is simulated.
type Pacer interface {
	Take(now time.Time, n int) (turn pace.Turn, granted int, wait time.Duration)
	Return(now time.Time, turn pace.Turn, n int)
	Tell(now time.Time, turn pace.Turn, o pace.Outcome) (held time.Duration)
	Free() int
	Widen(now time.Time, served int) int
}

// Alone is implemented by a Pacer whose refused jobs come again by their own hint only.
type Alone interface{ Alone() }

// Single lets each job heed its own hint.
type Single struct{}

// Alone implements [Alone].
func (Single) Alone() {}

// Take implements [Pacer].
func (Single) Take(_ time.Time, n int) (pace.Turn, int, time.Duration) { return 1, n, 0 }

// Return implements [Pacer].
func (Single) Return(time.Time, pace.Turn, int) {}

// Tell implements [Pacer].
func (Single) Tell(time.Time, pace.Turn, pace.Outcome) (held time.Duration) { return 0 }

// Free implements [Pacer].
func (Single) Free() int { return 0 }

// Widen implements [Pacer].
func (Single) Widen(time.Time, int) int { return 0 }

// Batch is work that comes at an instant.
type Batch struct {
	At   time.Duration
	Jobs int
}

// Scene is a server and the demand.
type Scene struct {
	Name      string
	Server    func(r *rand.Rand) Server
	Demand    []Batch
	Processes int
	Places    int
	Service   time.Duration // on average
	Way       time.Duration // to the server; 0: 2 ms
	Cost      func(job int) int
	End       func(now time.Duration, job int, o pace.Outcome) pace.Outcome // what is told
	MaxHold   time.Duration
	Others    time.Duration // another client asks so often

	Bar   float64       // refusals a job at most
	Slack time.Duration // beyond 1.15 of the ideal; 0: 3 s
}

// Result is how it went.
type Result struct {
	Refused float64         // requests by jobs
	Ratio   float64         // the time of the batches by the ideal
	Over    time.Duration   // the worst batch: beyond 1.15 of the ideal
	Took    []time.Duration // each batch
	Windows []Window2s
}

// Window2s are the requests of two seconds.
type Window2s struct{ Served, Refused int }

var epoch = time.Unix(1e9, 0)

// way is how far the server is away, if the scene does not say.
const way = 2 * time.Millisecond

type process struct {
	p        Pacer
	free     int // places
	wake     time.Duration
	inFlight int // without asking
	served   int
}

type sim struct {
	Scene
	events.Queue[func()]
	server  Server
	random  *rand.Rand
	procs   []*process
	ready   []int
	batch   []int
	left    []int
	ends    []time.Duration
	done    int
	refused int
	took    int
	oracle  bool
	windows []Window2s
}

// Run plays a scene. pacer makes the Pacer of a process; nil is a client that knows the limit.
func Run(s Scene, pacer func() Pacer, seed uint64) (r Result) {
	got := play(s, pacer, seed)
	ideal := play(s, nil, seed)
	jobs := len(got.batch)
	r.Refused = float64(got.refused) / float64(jobs)
	r.Windows = got.windows
	var sum, of time.Duration
	for i, b := range s.Demand {
		took, best := got.ends[i]-b.At, ideal.ends[i]-b.At
		if got.left[i] > 0 {
			took = 1000 * time.Hour
		}
		r.Took = append(r.Took, took)
		sum, of = sum+took, of+best
		r.Over = max(r.Over, took-best*115/100)
	}
	r.Ratio = sum.Seconds() / of.Seconds()
	return r
}

func play(s Scene, pacer func() Pacer, seed uint64) *sim {
	if s.Way == 0 {
		s.Way = way
	}
	r := rand.New(rand.NewPCG(seed, 1))
	m := &sim{Scene: s, server: s.Server(rand.New(rand.NewPCG(seed, 2))), random: r, oracle: pacer == nil}
	m.left, m.ends = make([]int, len(s.Demand)), make([]time.Duration, len(s.Demand))
	n := 0
	for i, b := range s.Demand {
		n += b.Jobs
		m.left[i] = b.Jobs
		for range b.Jobs {
			m.batch = append(m.batch, i)
		}
		first := n - b.Jobs
		m.After(b.At, func() {
			for j := range b.Jobs {
				m.ready = append(m.ready, first+j)
			}
			m.askAll()
		})
	}
	for range max(s.Processes, 1) {
		p := &process{free: s.Places}
		if !m.oracle {
			p.p = pacer()
			if h, ok := p.p.(*pace.Machine); ok {
				h.MaxHold = s.MaxHold
			}
		}
		m.procs = append(m.procs, p)
	}
	if s.Others > 0 {
		m.others()
	}
	for m.done < n {
		event, ok := m.Next(10000 * time.Hour)
		if !ok || m.took > 200*n+10000 {
			break
		}
		event()
	}
	return m
}

func (m *sim) others() {
	m.server(m.Now(), 1)
	m.After(m.Others, m.others)
}

func (m *sim) jitter(d time.Duration) time.Duration { return time.Duration(m.random.Int64N(int64(d))) }

func (m *sim) askAll() {
	for _, p := range m.procs {
		m.After(m.jitter(2*time.Millisecond), func() { m.ask(p) })
	}
}

func (m *sim) now() time.Time { return epoch.Add(m.Now()) }

// ask begins as many jobs as there are turns.
func (m *sim) ask(p *process) {
	n := min(p.free, len(m.ready))
	if n == 0 {
		return
	}
	if m.oracle {
		for n > 0 && len(m.ready) > 0 && m.Now() >= p.wake {
			m.begin(p, 0)
			n--
		}
		return
	}
	want := n
	var turn pace.Turn
	var wait time.Duration
	if w := p.p.Free(); w > 0 {
		turn, _, _ = p.p.Take(m.now(), 0)
		if n > w-p.inFlight {
			w = p.p.Widen(m.now(), p.served)
			p.served = 0
		}
		n = max(min(n, w-p.inFlight), 0)
		p.inFlight += n
		wait = 10 * time.Millisecond
	} else {
		p.inFlight, p.served = 0, 0
		turn, n, wait = p.p.Take(m.now(), want)
	}
	for range n {
		m.begin(p, turn)
	}
	if at := m.Now() + wait; n < want && (p.wake <= m.Now() || at < p.wake) {
		p.wake = at
		m.After(wait+m.jitter(time.Millisecond), func() {
			if p.wake == at {
				p.wake = 0
				m.ask(p)
			}
		})
	}
}

func (m *sim) begin(p *process, turn pace.Turn) {
	j := m.ready[0]
	m.ready = m.ready[1:]
	p.free--
	if m.oracle {
		m.request(p, j, turn)
		return
	}
	m.After(m.Way, func() { m.request(p, j, turn) })
}

func (m *sim) request(p *process, j int, turn pace.Turn) {
	cost := 1
	if m.Cost != nil {
		cost = m.Cost(j)
	}
	a := m.server(m.Now(), cost)
	m.took++
	m.count(a.OK)
	if m.oracle && !a.OK {
		p.free++
		m.ready = slices.Insert(m.ready, 0, j)
		at := m.Now() + max(a.Left, time.Millisecond)
		for _, q := range m.procs {
			q.wake = at
			m.After(at-m.Now(), func() { m.ask(q) })
		}
		return
	}
	took := m.Way
	if a.OK {
		took = time.Duration(float64(m.Service) * (0.5 + m.random.Float64()))
	}
	m.After(took, func() { m.end(p, j, turn, a) })
}

// count notes a request in its window.
func (m *sim) count(served bool) {
	n := int(m.Now() / (2 * time.Second))
	if m.oracle || n >= 1000 {
		return
	}
	for len(m.windows) <= n {
		m.windows = append(m.windows, Window2s{})
	}
	if w := &m.windows[n]; served {
		w.Served++
	} else {
		w.Refused++
	}
}

// again makes a refused job the first of all, or lets it wait by itself.
func (m *sim) again(p *process, j int, hint time.Duration) {
	if _, alone := p.p.(Alone); !alone {
		m.ready = slices.Insert(m.ready, 0, j)
		return
	}
	wait := min(max(hint, time.Second), time.Minute)
	m.After(wait+m.jitter(wait/10), func() {
		m.ready = append(m.ready, j)
		m.askAll()
	})
}

func (m *sim) end(p *process, j int, turn pace.Turn, a Answer) {
	p.free++
	o := pace.Outcome{Kind: pace.Served}
	switch {
	case !a.OK:
		m.refused++
		o = pace.Outcome{Kind: pace.Refused, After: a.After}
		m.again(p, j, a.After)
	case a.Spent > 0:
		o = pace.Outcome{Kind: pace.Spent, After: a.Spent}
	}
	if a.OK {
		m.done++
		b := m.batch[j]
		if m.left[b]--; m.left[b] == 0 {
			m.ends[b] = m.Now()
		}
	}
	m.tell(p, j, turn, o)
	if !a.OK {
		m.askAll()
	}
	m.ask(p)
}

// tell tells the Pacer, which need not hear of a success while it is free.
func (m *sim) tell(p *process, j int, turn pace.Turn, o pace.Outcome) {
	if m.oracle {
		return
	}
	ok := o.Kind != pace.Refused
	if m.End != nil {
		o = m.End(m.Now(), j, o)
	}
	free := p.p.Free() > 0
	if free {
		p.inFlight--
		if ok {
			p.served++
		}
	}
	if !free || o.Kind != pace.Served {
		p.p.Tell(m.now(), turn, o)
	}
}
