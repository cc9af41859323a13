// Package peers runs the same work through every retry library that is worth
// comparing, this one, and a loop written by hand:
//
//	go test -run '^$' -bench . -benchtime 100ms ./peers
//
// is one round: everyone is measured once, in random order. Command table makes
// tables of many rounds.
//
// There is one file per contestant, which says what its API forces on a caller, and
// one list of them, from which the benchmarks, the tests that they all do the same,
// and the tables are made.
package peers

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Contestants returns all of them, the loop by hand first.
func Contestants() []*Contestant {
	return []*Contestant{
		byHand, ours, backoffV5, backoffV7, retryGoV4, retryGoV5, goRetry,
		failsafeGo, codegroove, goResiliency, k8sWait, gaxGo, awsSDK,
	}
}

// Contestant is one way to retry.
type Contestant struct {
	Name   string // as in by=Name
	Module string // empty for the loop by hand

	new       func(policy) caller
	retryable func(error) error // how an operation has to mark what to retry, if it has to
	markFinal func(error) error // how an operation can mark what is final, if it can
	delays    *delays
	differs   []*difference
}

// caller makes calls under one policy. Each method makes n of them in a loop of
// its own, so that nothing but the library stands between two calls, and returns
// what the last one did.
type caller interface {
	// static calls an operation that has no variables. The context outlives
	// the loop, so whatever holds it may be prepared.
	static(ctx context.Context, n int, o *op) error

	// value is static for an operation with a result.
	value(ctx context.Context, n int, o *op) (int, error)

	// closure calls an operation over local variables. Every call has a
	// context of its own, as requests have.
	closure(ctxs [2]context.Context, n int, s *script) error
}

// delays computes waits and does nothing else.
type delays struct {
	// draw computes ten waits in a row, n times.
	draw func(n int, waits *[10]time.Duration)

	// bounds returns the range of a wait, the first of which has number 0. nil
	// means full jitter: from nothing to 100 ms ×2 ≤ 30 s.
	bounds func(i int) (lo, hi time.Duration)
	note   string // what differs, if bounds is not nil
}

// ChecksContext says when the contestant looks at its context: "yes" if before
// the first attempt and, without fail, between attempts.
func (c *Contestant) ChecksContext() string {
	dead, canceled := c.has(callsDead), c.has(callsCanceled)
	switch {
	case dead && canceled:
		return "no"
	case dead:
		return "not first"
	case canceled:
		return "only first"
	default:
		return "yes"
	}
}

// Note returns what the API of the contestant forces in the named workload.
func (c *Contestant) Note(workload string) string {
	w := find(workload)
	if w == nil {
		return ""
	}
	if w.form == delaysOnly {
		if c.delays == nil {
			return ""
		}
		return c.delays.note
	}
	var notes []string
	for _, d := range c.differs {
		if d.in != nil && d.in(w) {
			notes = append(notes, d.note)
		}
	}
	return strings.Join(notes, "; ")
}

func (c *Contestant) has(d *difference) bool { return slices.Contains(c.differs, d) }

// difference is what an API forces on a contestant. The tests check that those
// who declare it have it, and nobody else.
type difference struct {
	note string
	in   func(*Workload) bool
}

var (
	// An attempt is made although the context has ended before the call.
	callsDead = &difference{}
	// An attempt may be made although the context has ended during the call.
	callsCanceled = &difference{}

	perCall      = &difference{"policy built per call", everywhere}
	perContext   = &difference{"policy bound to a context: built per call", perRequest}
	countsItself = &difference{"has no limit of attempts: its caller counts", failing}

	// The first wait is twice as long as was asked for. No workload shows it.
	startsTwice = &difference{}

	timerForNothing = &difference{"no wait is a timer of 0", waitless}
	fakeTimer       = &difference{"no wait is a fake timer", waitless}

	wrapsFinal = &difference{"wraps the error", final}
	keepsMark  = &difference{"returns the error with its mark", marked}
	wrapsLast  = &difference{"wraps the last error", exhausted}
	losesLast  = &difference{"loses the last error", exhausted}
)

func everywhere(*Workload) bool   { return true }
func perRequest(w *Workload) bool { return w.form == overLocals }
func failing(w *Workload) bool    { return w.script.failures > 0 }
func waitless(w *Workload) bool   { return failing(w) && w.policy.wait == 0 }
func final(w *Workload) bool      { return w.script.end != nil }
func marked(w *Workload) bool     { return w.policy.marked }
func exhausted(w *Workload) bool  { return failing(w) && w.script.failures >= w.policy.attempts }
