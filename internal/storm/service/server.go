package service

import (
	"math/rand/v2"
	"time"
)

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
