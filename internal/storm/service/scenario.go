// Package service simulates a service that many clients call at random, at a
// rate that does not depend on the answers (an open loop), and what retries make
// of a fault in it.
//
// The clients drive a real [retry.Policy] and [retry.Budget]. The service is a
// first-in-first-out queue before a few workers. It does not notice that a
// caller has given up, so it serves attempts that have timed out, for nothing:
// this is what makes a storm of retries feed itself.
package service

import (
	"errors"
	"fmt"
	"time"
)

// Scenario is a service, its load, and a fault.
type Scenario struct {
	Clients int           // processes that share nothing
	Rate    float64       // calls per second of all clients together: Poisson
	Workers int           // serve one attempt at a time each
	Service time.Duration // mean time to serve an attempt: exponential
	Timeout time.Duration // of an attempt, unless the policy has one
	Queue   int           // attempts that may wait; more are refused. 0 means any number
	Hint    time.Duration // Retry-After of refusals by the queue or a quota. 0 means none

	Fault    Fault
	Severity float64       // see Fault
	Duration time.Duration // of the fault
	Warmup   time.Duration // before it
	After    time.Duration // from its end to the last call that counts
	Seed     uint64
}

// Default returns the service that the tables are about: 80 % of 1000 calls per
// second from 10 clients, and a stall of 10 seconds.
func Default() Scenario {
	s := Scenario{
		Clients:  10,
		Rate:     800,
		Workers:  10,
		Service:  10 * time.Millisecond,
		Timeout:  time.Second,
		Duration: 10 * time.Second,
		Warmup:   30 * time.Second,
		After:    240 * time.Second,
		Seed:     1,
	}
	return s.Usual(Stall)
}

// Capacity returns how many attempts per second the workers serve.
func (s Scenario) Capacity() float64 { return float64(s.Workers) / s.Service.Seconds() }

// Utilization returns the share of the capacity that calls without retries use.
func (s Scenario) Utilization() float64 { return s.Rate / s.Capacity() }

// The bounds of a run that ends within a minute or so.
const (
	mostClients = 100_000
	mostCalls   = 2_000_000
	longest     = time.Hour
)

// Validate reports every setting that makes no sense, each with its name and
// value.
func (s Scenario) Validate() error {
	var f faulty
	f.check(s.Clients >= 1 && s.Clients <= mostClients, "clients", s.Clients, "must be from 1 to %d", mostClients)
	f.check(s.Rate > 0 && s.Rate <= mostCalls, "rate", s.Rate, "must be above 0 and at most %d calls per second", mostCalls)
	f.check(s.Workers >= 1, "workers", s.Workers, "must be at least 1")
	f.check(s.Service > 0, "service", s.Service, "must be positive")
	f.check(s.Timeout > 0, "timeout", s.Timeout, "must be positive")
	f.check(s.Queue >= 0, "queue", s.Queue, "must not be negative; 0 means no bound")
	f.check(s.Hint >= 0, "hint", s.Hint, "must not be negative; 0 means none")
	f.check(s.Fault.known(), "fault", s.Fault, "must be one of %s", faultNames())
	f.check(s.Severity > 0 && s.Severity <= 1, "severity", s.Severity, "must be above 0 and at most 1")
	f.checkTime("duration", s.Duration, time.Second)
	f.checkTime("warmup", s.Warmup, minWarmup)
	f.checkTime("after", s.After, minAfter)
	if len(f) > 0 {
		return errors.Join(f...)
	}
	f.check(s.Utilization() < 1, "rate", s.Rate, "must be below the %.4g/s that the workers can serve", s.Capacity())
	f.check(s.calls() <= mostCalls, "rate", s.Rate, "makes %.0f calls in %v; must be at most %d", s.calls(), s.end(), mostCalls)
	return errors.Join(f...)
}

// faulty collects what is wrong.
type faulty []error

func (f *faulty) check(ok bool, name string, value any, problem string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf("%s: %v: %s", name, value, fmt.Sprintf(problem, args...)))
	}
}

func (f *faulty) checkTime(name string, d, least time.Duration) {
	ok := d >= least && d <= longest && d%time.Second == 0
	f.check(ok, name, d, "must be from %v to %v, in whole seconds", least, longest)
}

func (s Scenario) faultEnd() time.Duration { return s.Warmup + s.Duration }

// settle is how long the load goes on after the last call that counts, so that
// this call, too, ends under load.
const settle = 30 * time.Second

func (s Scenario) judgedEnd() time.Duration { return s.faultEnd() + s.After }

func (s Scenario) end() time.Duration { return s.judgedEnd() + settle }

// calls returns how many there are on average.
func (s Scenario) calls() float64 { return s.Rate * s.end().Seconds() }
