package service

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/storm/events"
)

// call is one call of a client, with all its attempts.
type call struct {
	client   int32
	attempts int32
	open     bool // the last attempt has no outcome yet
	outcome  outcome
	begun    time.Duration
	ended    time.Duration
	state    retry.State
	turn     retry.Turn
}

type outcome uint8

const (
	inFlight outcome = iota
	succeeded
	failed
)

// attempt identifies one attempt of a call.
type attempt struct{ call, number int32 }

type event struct {
	kind    kind
	why     failure // of notServed
	attempt         // of turn, the call is the number of the client
}

type kind uint8

const (
	arrival   kind = iota // the next call begins
	due                   // a wait is over: the call makes its next attempt
	turn                  // the first call in the line of a client asks again
	served                // a worker is done
	notServed             // the attempt failed
	faultBegin
	faultEnd
)

const (
	// failFast is what it takes to learn that an attempt was refused. It is not 0,
	// or a policy that does not wait would retry for ever at one instant.
	failFast = time.Millisecond
	// limitFast is the same for a quota, whose clients tend to be far away. Until then a
	// client does not know that its other calls would be refused too.
	limitFast = 20 * time.Millisecond
)

// A run ends when the calls have made so many attempts on average, or so many in
// all: that of a policy that hammers would take all time and memory.
const (
	mostPerCall  = 100
	mostAttempts = 20_000_000
)

// run is a simulation in progress. Every kind of chance has a stream of its own,
// so that all strategies see the same calls.
type run struct {
	scenario *Scenario
	events   events.Queue[event]
	server   server
	clients  []client
	calls    []call
	attempts []int // that began in each second
	taken    int   // of the quota of this second
	second   int
	total    int // of attempts

	arrivals, choices, outcomes *rand.Rand
	timeout                     time.Duration
}

// Run simulates s under the strategy. The result depends on nothing else.
func Run(s Scenario, strategy Strategy) (Result, error) {
	if err := s.Validate(); err != nil {
		return Result{}, err
	}
	stream := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(s.Seed, n)) }
	r := run{
		scenario: &s,
		server:   server{condition: s.condition(false), times: stream(1), mean: s.Service, bound: s.Queue},
		clients:  make([]client, s.Clients),
		calls:    make([]call, 0, int(1.01*s.calls())),
		attempts: make([]int, seconds(s.end())+1),
		arrivals: stream(2),
		choices:  stream(3),
		outcomes: stream(4),
		timeout:  s.Timeout,
	}
	jitter := stream(5)
	for i := range r.clients {
		r.clients[i] = strategy.newClient(jitter)
	}
	if t := strategy.Policy.AttemptTimeout; t > 0 {
		r.timeout = t
	}
	r.events.After(s.Warmup, event{kind: faultBegin})
	r.events.After(s.faultEnd(), event{kind: faultEnd})
	r.nextArrival()
	most := min(mostPerCall*int(s.calls()), mostAttempts)
	for {
		e, ok := r.events.Next(s.end())
		if !ok {
			return r.result(), nil
		}
		r.happen(e)
		if r.total > most {
			return Result{}, fmt.Errorf("%s: more than %d attempts in %v: this policy hammers a service that is down",
				strategy.Name, most, r.events.Now().Round(time.Second))
		}
	}
}

func (r *run) happen(e event) {
	switch e.kind {
	case arrival:
		r.begin()
		r.nextArrival()
	case due:
		r.attempt(e.call)
	case turn:
		r.serveLine(&r.clients[e.call], e.call)
	case served:
		r.server.busy--
		r.startWork()
		if r.current(e.attempt) {
			r.succeed(e.call)
		}
	case notServed:
		if r.current(e.attempt) {
			r.fail(e.call, e.why)
		}
	case faultBegin, faultEnd:
		r.server.condition = r.scenario.condition(e.kind == faultBegin)
		r.startWork()
	}
}

// current reports whether the call still waits for this attempt. If it does
// not, the attempt has timed out, and its outcome is nobody's business.
func (r *run) current(a attempt) bool {
	c := &r.calls[a.call]
	return c.open && c.attempts == a.number
}

func (r *run) nextArrival() {
	gap := r.arrivals.ExpFloat64() / r.scenario.Rate
	r.events.After(time.Duration(gap*float64(time.Second)), event{kind: arrival})
}

// begin begins the next call, from a client chosen at random.
func (r *run) begin() {
	now, id := r.events.Now(), int32(len(r.calls))
	r.calls = append(r.calls, call{client: int32(r.choices.IntN(len(r.clients))), begun: now})
	c := &r.calls[id]
	if !r.clients[c.client].begin(c, now) {
		c.outcome, c.ended = failed, now
		return
	}
	r.attempt(id)
}

// attempt makes the next attempt of a call, when it has a turn.
func (r *run) attempt(id int32) {
	number := r.calls[id].client
	c := &r.clients[number]
	if c.line = append(c.line, id); len(c.line) == 1 {
		r.serveLine(c, number)
	}
}

// serveLine lets the calls of a client go whose turn has come, and notes when the next one asks.
func (r *run) serveLine(c *client, number int32) {
	now := r.events.Now()
	for ; len(c.line) > 0; c.line = c.line[1:] {
		id := c.line[0]
		if call := &r.calls[id]; c.late(call, now) {
			call.outcome, call.ended = failed, call.begun+c.policy.Timeout
			continue
		}
		if wait := c.take(&r.calls[id], now); wait > 0 {
			if c.asks <= now || c.asks > now+wait {
				c.asks = now + wait
				r.events.After(wait, event{kind: turn, attempt: attempt{call: number}})
			}
			return
		}
		r.send(id)
	}
}

// send makes the next attempt of a call.
func (r *run) send(id int32) {
	c := &r.calls[id]
	c.attempts++
	c.open = true
	r.total++
	r.attempts[seconds(r.events.Now())]++
	a := attempt{id, c.attempts}
	switch luck := r.outcomes.Float64(); {
	case luck < r.server.refused:
		r.events.After(failFast, event{notServed, refused, a})
	case luck < r.server.failed:
		r.events.After(failFast, event{notServed, answered, a})
	case r.server.full():
		r.events.After(failFast, event{notServed, shed, a})
	case r.overQuota():
		r.events.After(limitFast, event{notServed, limited, a})
	default:
		r.events.After(r.timeout, event{notServed, timedOut, a})
		r.server.enqueue(a)
		r.startWork()
	}
}

// overQuota reports whether the quota of this second is used up.
func (r *run) overQuota() bool {
	if now := seconds(r.events.Now()); now != r.second {
		r.second, r.taken = now, 0
	}
	r.taken++
	return r.server.limited && r.taken > r.server.quota
}

// startWork gives every free worker something to do.
func (r *run) startWork() {
	for {
		a, work, ok := r.server.start()
		if !ok {
			return
		}
		r.events.After(work, event{kind: served, attempt: a})
	}
}

func (r *run) succeed(id int32) {
	c := &r.calls[id]
	c.open = false
	c.outcome, c.ended = succeeded, r.events.Now()
	r.clients[c.client].succeeded(c, c.ended)
	r.serveLine(&r.clients[c.client], c.client)
}

func (r *run) fail(id int32, why failure) {
	c := &r.calls[id]
	c.open = false
	wait, again := r.clients[c.client].failed(c, why.err(r.scenario.Hint), r.events.Now())
	defer r.serveLine(&r.clients[c.client], c.client)
	if !again {
		c.outcome, c.ended = failed, r.events.Now()
		return
	}
	r.events.After(wait, event{kind: due, attempt: attempt{call: id}})
}

func seconds(d time.Duration) int { return int(d / time.Second) }

// server is a first-in-first-out queue before a few workers.
type server struct {
	condition

	times   *rand.Rand
	mean    time.Duration
	bound   int // of the queue; 0 means none
	busy    int
	waiting []attempt
	first   int // in waiting
}

func (s *server) queued() int { return len(s.waiting) - s.first }

// full reports whether an attempt can neither be served nor wait.
func (s *server) full() bool {
	return s.bound > 0 && s.busy >= s.workers && s.queued() >= s.bound
}

func (s *server) enqueue(a attempt) { s.waiting = append(s.waiting, a) }

// start takes an attempt out of the queue, if a worker is free. It returns how
// long the work takes.
func (s *server) start() (a attempt, work time.Duration, ok bool) {
	if s.busy >= s.workers || s.queued() == 0 {
		return a, 0, false
	}
	a = s.waiting[s.first]
	s.first++
	if s.first == len(s.waiting) {
		s.waiting, s.first = s.waiting[:0], 0
	}
	s.busy++
	return a, time.Duration(s.times.ExpFloat64() * float64(s.mean)), true
}
