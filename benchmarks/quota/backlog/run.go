// Package backlog simulates a backlog of 1,000 jobs behind an API with a limit that nobody knows,
// done by four processes with 25 places each.
package backlog

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/storm/events"
)

// Scenario is a backlog of jobs that worker processes do behind a limit.
type Scenario struct {
	Name string // what the limit is

	limit   func() limit
	ideal   time.Duration // of a client that knows the limit; 0: found by asking each millisecond
	blind   bool          // refusals say nothing
	tells   bool          // every answer says what is left
	weights bool          // jobs take 1 to 9 of the limit, and 5 on average
	service time.Duration // of a job on average
}

const (
	jobs      = 1000
	processes = 4
	places    = 25
	window    = 2 * time.Second
	quota     = 50
	way       = 2 * time.Millisecond // to the API
)

// Result is what comes of a backlog.
type Result struct {
	Refused float64 // requests per job
	Time    float64 // by the ideal

	Requests []Requests // in each window
}

// Requests are those of a time.
type Requests struct{ Served, Refused int }

var (
	epoch      = time.Unix(1e9, 0)
	errRefused = errors.New("too many requests")
)

// simulation is one run in virtual time.
type simulation struct {
	Scenario

	events.Queue[func()]

	api    limit
	random *rand.Rand
	quotas [processes]*retry.Quota // nil if each job is alone
	free   [processes]int
	wakes  [processes]time.Duration // when a process asks for turns again
	ready  []int
	weight [jobs]int

	refused, done int
	last          time.Duration
	requests      []Requests
}

// Run runs a scenario. With a Quota, each process has one; else each job heeds its own hint.
func Run(s Scenario, withQuota bool, seed uint64) Result {
	m := &simulation{Scenario: s, api: s.limit(), random: rand.New(rand.NewPCG(seed, 1))}
	for p := range m.free {
		m.free[p] = places
		if withQuota {
			m.quotas[p] = &retry.Quota{}
		}
	}
	for j := range m.weight {
		m.weight[j] = 1
		if s.weights {
			m.weight[j] = 1 + m.random.IntN(9)
		}
		m.ready = append(m.ready, j)
	}
	m.wakeAll()
	for m.done < jobs {
		event, ok := m.Next(24 * time.Hour)
		if !ok {
			break
		}
		event()
	}
	ideal := s.ideal
	if ideal == 0 {
		ideal = m.greedy()
	}
	return Result{float64(m.refused) / jobs, m.last.Seconds() / ideal.Seconds(), m.requests}
}

// greedy is how long it takes to ask for all jobs each millisecond.
func (m *simulation) greedy() time.Duration {
	api := m.limit()
	for now, j := time.Duration(0), 0; ; now += time.Millisecond {
		for api.ask(now, m.weight[j]).ok {
			if j++; j == jobs {
				return now + m.service
			}
		}
	}
}

func (m *simulation) wakeAll() {
	for p := range processes {
		m.After(m.jitter(2*time.Millisecond), func() { m.claim(p) })
	}
}

func (m *simulation) jitter(d time.Duration) time.Duration {
	return time.Duration(m.random.Int64N(max(int64(d), 1)))
}

// claim takes jobs for the free places of a process, as many as there are turns.
func (m *simulation) claim(p int) {
	n := min(m.free[p], len(m.ready))
	var turn retry.Turn
	if q := m.quotas[p]; q != nil && n > 0 {
		asked := n
		var wait time.Duration
		if turn, n, wait = q.Take(epoch.Add(m.Now()), asked); n < asked && m.wakes[p] <= m.Now() {
			m.wakes[p] = m.Now() + wait
			m.After(wait+m.jitter(3*time.Millisecond), func() { m.claim(p) })
		}
	}
	for range n {
		j := m.ready[0]
		m.ready = m.ready[1:]
		m.free[p]--
		m.After(way, func() { m.ask(p, j, turn) })
	}
}

// ask is the request of a job.
func (m *simulation) ask(p, j int, turn retry.Turn) {
	a := m.api.ask(m.Now(), m.weight[j])
	at := m.window()
	took := way
	if at.Refused++; a.ok {
		at.Refused--
		at.Served++
		took = time.Duration(float64(m.service) * (0.5 + m.random.Float64()))
	}
	m.After(took, func() { m.end(p, j, turn, a) })
}

// window is what there was in this window.
func (m *simulation) window() *Requests {
	n := int(m.Now() / window)
	for len(m.requests) <= n {
		m.requests = append(m.requests, Requests{})
	}
	return &m.requests[n]
}

// end is the end of an attempt.
func (m *simulation) end(p, j int, turn retry.Turn, a answer) {
	m.free[p]++
	var err error
	v := retry.Verdict{}
	if a.ok {
		m.api.leave()
		m.done++
		m.last = m.Now()
		if m.tells && a.empty > 0 {
			v = retry.Verdict{Class: retry.RateLimited, After: seconds(a.empty)}
		}
	} else {
		m.refused++
		err, v.Class = errRefused, retry.RateLimited
		wait := time.Second
		if !m.blind {
			v.After = max(seconds(a.after), time.Second)
			wait = min(v.After, time.Minute) // as a policy with a Classifier that shortens hints
		}
		m.After(wait+m.jitter(wait/10), func() {
			m.ready = append(m.ready, j)
			m.wakeAll()
		})
	}
	if q := m.quotas[p]; q != nil {
		q.Tell(epoch.Add(m.Now()), turn, err, v)
	}
	m.claim(p)
}

// seconds rounds up, as Retry-After does.
func seconds(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }
