package scene

import (
	"math/rand/v2"
	"time"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

func at(n int) []Batch { return []Batch{{0, n}} }

// every is n batches.
func every(d time.Duration, n, jobs int) (b []Batch) {
	for i := range n {
		b = append(b, Batch{time.Duration(i) * d, jobs})
	}
	return b
}

// then is another batch after a pause.
func then(b []Batch, pause time.Duration, jobs int) []Batch {
	return append(b, Batch{b[len(b)-1].At + pause, jobs})
}

// usual is a backlog behind the limit that the others vary.
var usual = Scene{Demand: at(1000), Processes: 4, Places: 25, Service: 50 * ms}

type server = func(*rand.Rand) Server

// changing is a window of 2 s that takes 5 instead of 50 for a time.
func changing(from, to time.Duration) server {
	return Changing(func(b time.Duration) int {
		if b >= from && b < to {
			return 5
		}
		return 50
	}, 2*sec, Seconds)
}

func costs(from, each, cost int) func(s *Scene) {
	return func(s *Scene) {
		s.Cost = func(j int) int {
			if j >= from && j%each == 0 {
				return cost
			}
			return 1
		}
	}
}

func processes(n int) func(s *Scene)      { return func(s *Scene) { s.Processes = n } }
func hold(d time.Duration) func(s *Scene) { return func(s *Scene) { s.MaxHold = d } }
func jobs(n int) func(s *Scene)           { return func(s *Scene) { s.Demand = at(n) } }

// slow is a service that takes long.
func slow(d time.Duration, processes, places, jobs int) func(s *Scene) {
	return func(s *Scene) { s.Service, s.Processes, s.Places, s.Demand = d, processes, places, at(jobs) }
}

// Servers are limits behind which a backlog is done: 1,000 jobs, 4 processes with 25 places.
func Servers() (all []Scene) {
	for _, c := range []struct {
		name   string
		server server
		bar    float64       // refusals a job
		slack  time.Duration // beyond 1.15 of the ideal; 0: 3 s
		change func(s *Scene)
	}{
		{"50 in 2 s, Retry-After", Window(50, 2*sec, Seconds), 0.1, 0, nil},
		{"50 in 2 s, 40 ms away", Window(50, 2*sec, Seconds), 0.2, 0, func(s *Scene) { s.Way = 40 * ms }},
		{"25 in 2 s", Window(25, 2*sec, Seconds), 0.14, 0, nil},
		{"25 in 1 s", Window(25, sec, Seconds), 0.14, 0, nil},
		{"50 in 2 s, exact", Window(50, 2*sec, Exact), 0.1, 0, nil},
		{"50 in 2 s, hints wrong by 30 %", Window(50, 2*sec, Rough), 0.13, 0, nil},
		{"50 in 2 s, no hint", Window(50, 2*sec, Blind), 0.2, 0, nil},
		{"50 in 2 s, Retry-After: 1", Window(50, 2*sec, Always(sec)), 0.14, 0, nil},
		{"a burst of 1, in ms", Bucket(40*ms, 1, Exact, false), 0.35, 40 * sec, nil},
		{"a burst of 1, in seconds", Bucket(40*ms, 1, Seconds, false), 0.3, 4 * time.Minute, nil},
		{"a burst of 1, in seconds, one process", Bucket(40*ms, 1, Seconds, false), 0.05, 40 * sec, processes(1)},
		{"a burst of 1, no hint", Bucket(40*ms, 1, Blind, false), 0.35, 90 * sec, nil},
		{"a burst of 1, nothing left, in ms", Bucket(40*ms, 1, Exact, true), 0.75, 20 * sec, nil},
		{"a burst of 1, nothing left, in seconds", Bucket(40*ms, 1, Seconds, true), 0.3, 4 * time.Minute, nil},
		{"a bucket of 10", Bucket(40*ms, 10, Seconds, false), 0.12, 0, nil},
		{"a bucket of 10, exact", Bucket(40*ms, 10, Exact, false), 0.35, 0, nil},
		{"a bucket of 10, no hint", Bucket(40*ms, 10, Blind, false), 0.2, 0, nil},
		{"a sliding window", Sliding(50, 2*sec, Seconds), 0.12, 10 * sec, nil},
		{"a sliding window, no hint", Sliding(50, 2*sec, Blind), 0.22, 0, nil},
		{"250 in 1 min", Window(250, 60*sec, Seconds), 0.03, 0, nil},
		{"250 in 1 min, Retry-After: 1", Window(250, 60*sec, Always(sec)), 0.12, 0, nil},
		{"250 in 1 min, Retry-After: 60", Window(250, 60*sec, Always(60*sec)), 0.03, 0, nil},
		{"250 in 1 min, no hint", Window(250, 60*sec, Blind), 0.17, 0, nil},
		{"300 in 1 h", Window(300, time.Hour, Seconds), 0.8, 0, nil},
		{"300 in 1 h, MaxHold 1 h", Window(300, time.Hour, Seconds), 0.03, 0, hold(time.Hour)},
		{"1 in 1 s", Window(1, sec, Seconds), 1.3, 0, jobs(200)},
		{"5 in 2 s, and 50 from 12 s on", changing(0, 12*sec), 0.1, 4 * sec, nil},
		{"50 in 2 s, and 5 from 12 s to 24 s", changing(12*sec, 24*sec), 0.12, 4 * sec, nil},
		{"50 in 2 s, and 400 in 30 s", Both(Window(50, 2*sec, Seconds), Window(400, 30*sec, Seconds)), 0.1, 0, nil},
		{"costs 1 and 10", Window(95, 2*sec, Seconds), 0.1, 0, costs(0, 10, 10)},
		{"the last 200 cost 20", Window(100, 2*sec, Seconds), 0.18, 0, costs(800, 1, 20)},
		{"16 processes", Window(50, 2*sec, Seconds), 0.26, 0, processes(16)},
		{"another client takes 40 of 50", Window(50, 2*sec, Seconds), 0.17, 20 * sec, func(s *Scene) {
			s.Others, s.Demand = 50*ms, at(500)
		}},
		{"100 in 1 min, 20 s each", Window(100, 60*sec, Seconds), 0.05, 0, slow(20*sec, 4, 25, 1000)},
		{"50 in 2 s, 10 s each", Window(50, 2*sec, Seconds), 0.12, 0, slow(10*sec, 4, 200, 2000)},
		{"no limit, 100 ms each", Unlimited(nil), 0, 0, slow(100*ms, 4, 25, 20000)},
		{"no limit, 5 s each", Unlimited(nil), 0, 0, slow(5*sec, 1, 100, 2000)},
		{"no limit, 30 s each", Unlimited(nil), 0, 0, slow(30*sec, 1, 1000, 5000)},
	} {
		s := usual
		s.Name, s.Server, s.Bar, s.Slack = c.name, c.server, c.bar, c.slack
		if c.change != nil {
			c.change(&s)
		}
		all = append(all, s)
	}
	return all
}

// once refuses one request.
func once(from, hint time.Duration) server {
	return func(r *rand.Rand) Server {
		done := false
		return Unlimited(func(now time.Duration) (time.Duration, bool) {
			no := now >= from && !done
			done = done || no
			return hint, no
		})(r)
	}
}

// Demands are what was before a batch, behind 50 requests in 2 s or no limit.
func Demands() (all []Scene) {
	window := Window(50, 2*sec, Seconds)
	add := func(name string, s server, demand []Batch, slack time.Duration) *Scene {
		all = append(all, Scene{
			Name: name, Server: s, Demand: demand, Processes: 1, Places: 1000, Service: 50 * ms, Bar: 0.12, Slack: slack,
		})
		return &all[len(all)-1]
	}
	for _, idle := range []time.Duration{100 * ms, 700 * ms, 3 * sec, 20 * sec, time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour} {
		add("one, idle for "+idle.String()+", 1000", window, then(at(1), idle, 1000), 0)
		add("200, idle for "+idle.String()+", 500", window, then(at(200), idle, 500), 0)
	}
	add("a trickle for 8 h, 500", window, then(every(3*time.Minute, 160, 1), 10*sec, 500), 0)
	add("450 in 8 h, 500", window, then(every(64*sec, 450, 1), 10*sec, 500), 0)
	add("600 in 8 h, 1000", window, then(every(48*sec, 600, 1), 10*sec, 1000), 0)
	add("100 each 5 min", window, every(5*time.Minute, 12, 100), 0)
	add("60 each 10 s", window, every(10*sec, 40, 60), 0)
	add("60 each minute", window, every(time.Minute, 40, 60), 0)
	add("1 in 0.3 s for 2 min, 500", window, then(every(300*ms, 400, 1), 300*ms, 500), 0)
	add("1 in 0.03 s for 2 min, 500", window, then(every(30*ms, 4000, 1), 30*ms, 500), 0)
	s := add("4 processes, 1 in 0.3 s for 2 min, 500", window, then(every(300*ms, 400, 1), 300*ms, 500), 0)
	s.Processes, s.Places = 4, 25
	s = add("4 processes, 30 in 90 s, 500", window, then(every(3*sec, 30, 1), 3*sec, 500), 0)
	s.Processes, s.Places = 4, 25
	for _, hint := range []time.Duration{0, sec, time.Minute} {
		name := "one 429, hint " + hint.String()
		add(name+", after a quiet hour, 5000", once(time.Hour, hint), then(every(time.Minute, 61, 1), 10*sec, 5000), 3*sec+hint)
		add(name+", in the middle of 5000", once(sec, hint), at(5000), 10*sec+hint).Places = 50
		add(name+", the first of 5000", once(0, hint), at(5000), 10*sec+hint).Places = 50
		outage := Outage(Unlimited(nil), sec, 10*time.Minute, hint)
		add("503 for 10 min, hint "+hint.String()+", 5000", outage, at(5000), 10*sec+2*time.Minute).Places = 50
	}
	add("batches each 5 min, and the limit goes", Changing(func(b time.Duration) int {
		if b < 4*time.Hour {
			return 50
		}
		return 1 << 30
	}, 2*sec, Seconds), then(every(5*time.Minute, 12, 200), 8*time.Hour, 5000), 0)
	return all
}
