package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

// script is a policy and what the attempts of a job do.
type script struct {
	name   string
	policy retry.Policy
	then   *retry.Policy // after the step that changes the policy
	steps  []step
	other  *script                                     // of a job of another kind, at the same time; nothing happens to its worker
	judge  func(e *Engine, got, want *record) []string // nil means exactly and punctual
}

// step is what one attempt does.
type step struct {
	act  act
	err  error         // what it returns
	call error         // what it returns in Execute, if that is another one
	took time.Duration // how long it takes, whatever its context says
}

// act is what happens in an attempt, or right after it.
type act int

const (
	returns  act = iota // the attempt returns its error
	panics              // it panics
	confuses            // it returns its error, at which a function of the policy panics
	dies                // its worker is killed in the middle
	outlives            // its worker is killed in the middle, and then the attempt returns its error
	shuts               // its worker is shut down, and the attempt fails when its context ends
	switches            // it returns its error, and then the workers get another policy
	reloads             // it returns its error, and then PolicyFor has another policy for its kind
	repeats             // the job arrives once more in the middle, and then the attempt goes on
	sticks              // it goes on when its context has ended, until the next attempt is in progress
	refuses             // the place of dead jobs begins to refuse them, and then the attempt returns its error
)

// has reports whether a step does one of the acts.
func (s *script) has(acts ...act) bool {
	return slices.ContainsFunc(s.steps, func(s step) bool { return slices.Contains(acts, s.act) })
}

// byKind reports whether the workers get their policies by PolicyFor.
func (s *script) byKind() bool { return s.other != nil || s.has(reloads) }

// The errors of the scripts.
var (
	errBoom    = retry.MarkRetryable(errors.New("boom"))
	errFinal   = retry.MarkFinal(errors.New("invalid"))
	errUnknown = errors.New("odd")
	errBusy    = retry.Mark(errors.New("busy"), retry.Verdict{Class: retry.Retryable, Category: "busy"})
	errPending = retry.MarkPending(errors.New("not there yet"))
	errStart   = retryjob.MarkNotStarted(errors.New("no row"))
	errLong    = retry.MarkRetryable(errors.New(strings.Repeat("too long to read. ", 1000)))
)

// inside is a step that returns the error of a policy inside, which has given up because of err.
// To an Execute around it that would be Final, so there it is marked as what err is.
func inside(err error) step {
	inner := retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0), MaxRetryAfter: 1}
	gaveUp := inner.Execute(context.Background(), func(context.Context) error { return err })
	return step{err: fmt.Errorf("calling: %w", gaveUp), call: retry.Mark(fmt.Errorf("calling: %w", gaveUp), inner.Classify(err))}
}

// zero is a source of jitter without jitter: hinted waits are exactly the hint.
type zero struct{}

// Uint64 implements [math/rand/v2.Source].
func (zero) Uint64() uint64 { return 0 }

// policy returns a policy whose waits are one, two, four … units.
func policy(unit time.Duration, attempts int, change ...func(*retry.Policy)) retry.Policy {
	p := retry.Policy{
		Name:          "job",
		MaxAttempts:   attempts,
		Backoff:       retry.Exponential{Initial: unit},
		MaxDelay:      1000 * unit,
		MaxRetryAfter: 10 * unit,
		Jitter:        retry.NoJitter,
		Rand:          zero{},
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

// outcomes makes steps of errors.
func outcomes(errs ...error) []step {
	steps := make([]step, len(errs))
	for i, err := range errs {
		steps[i].err = err
	}
	return steps
}

// Scripts returns the names of all scripts, in the order in which [Run] reports them.
func Scripts() []string {
	var names []string
	for _, s := range scripts(&Engine{}) {
		names = append(names, s.name)
	}
	return append(names, badQueue, manyJobs)
}

const (
	manyJobs     = "many jobs"
	arrivesTwice = "arrives twice"
	largest      = "largest message"
	headers      = "headers"
	refusedDead  = "refused dead letter"
	badQueue     = "bad queue"
	notStarted   = "not started"
	unstored     = "success not stored"
	stuck        = "context ignored for ever"
	heldBack     = "quota held"
)

// userHeaders are of those that programs put into messages: for traces, for routing, and one
// whose name looks like ours.
var userHeaders = map[string]string{
	"x-request-id": "4711", "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	"x-tenant": "a", "retry-mine": "b",
}

// scripts returns all scripts but those with many jobs and with a bad queue.
func scripts(e *Engine) []script {
	all := failures(e.unit())
	all = append(all, hints(e.unit())...)
	all = append(all, times(e)...)
	all = append(all, mishaps(e.unit())...)
	return append(all, deliveries(e.unit())...)
}

// failures are the scripts about what is retried, and how often.
func failures(u time.Duration) []script {
	kinds := policy(u, 3, func(p *retry.Policy) {
		p.Overrides = map[string]retry.Override{
			"busy":    {MaxAttempts: 2, Backoff: retry.Constant(3 * u)},
			"unknown": {MaxAttempts: 4},
		}
	})
	return []script{
		{name: "success", policy: policy(u, 3), steps: outcomes(nil)},
		{name: "one failure", policy: policy(u, 3), steps: outcomes(errBoom, nil)},
		{name: "three failures", policy: policy(u, 4), steps: outcomes(errBoom, errBoom, errBoom, nil)},
		{name: "exhausted", policy: policy(u, 3), steps: outcomes(errBoom, errBoom, errBoom)},
		{name: "no retry", policy: policy(u, 1), steps: outcomes(errBoom)},
		{name: "final", policy: policy(u, 3), steps: outcomes(errFinal)},
		{name: "final after a failure", policy: policy(u, 3), steps: outcomes(errBoom, errFinal)},
		{name: "unknown", policy: policy(u, 2), steps: outcomes(errUnknown, errUnknown)},
		{name: "override: wait", policy: kinds, steps: outcomes(errBusy, errBoom, nil)},
		{name: "override: limit", policy: kinds, steps: outcomes(errBoom, errBusy)},
		{name: "override: more attempts", policy: kinds, steps: outcomes(errUnknown, errUnknown, errUnknown, errUnknown)},
		{
			name: "progress", policy: policy(u, 3),
			steps: outcomes(errBoom, errBoom, retry.MarkProgress(errBoom), errBoom, errBoom),
		},
		{
			name: "given up inside", policy: kinds,
			steps: []step{inside(errBusy), inside(retry.MarkRateLimited(errors.New("limited"), 3*u)), inside(errBoom)},
		},
		{name: "pending", policy: policy(u, 2), steps: outcomes(errPending, errPending, errBoom, errPending, nil)},
	}
}

// hints are the scripts about servers that say when to come back.
func hints(u time.Duration) []script {
	limited := retry.MarkRateLimited(errors.New("limited"), 3*u)
	free := func(n int) func(*retry.Policy) { return func(p *retry.Policy) { p.FreeRateLimits = n } }
	return []script{
		{name: "hint", policy: policy(u, 3), steps: outcomes(limited, errBoom, nil)},
		{name: "hint: counted", policy: policy(u, 2), steps: outcomes(limited, limited)},
		{name: "hint: free", policy: policy(u, 2, free(2)), steps: outcomes(limited, limited, errBoom, errBoom)},
		{name: "hint: free on the last attempt", policy: policy(u, 2, free(1)), steps: outcomes(errBoom, limited, nil)},
		{name: "hint: free ones used up", policy: policy(u, 2, free(1)), steps: outcomes(limited, limited, limited)},
		{
			name: "hint: too long", policy: policy(u, 3),
			steps: outcomes(errBoom, retry.MarkRateLimited(errors.New("limited"), 11*u)),
		},
		{
			name: heldBack, policy: policy(u, 2, func(p *retry.Policy) { p.Quota = &holding{asks: 3, wait: u} }),
			steps: outcomes(errBoom, nil),
		},
	}
}

// holding is a limit that gives no turn to the first that ask for one. The Execute to which an
// engine is compared has a clock of its own, and always gets its turn.
type holding struct {
	mu   sync.Mutex
	asks int
	wait time.Duration
}

// Wait implements [retry.Pacer].
func (*holding) Wait(context.Context, *retry.Policy, retry.Waiting) (retry.Turn, time.Duration, error) {
	return 1, 0, nil
}

// Take implements [retry.Pacer].
func (h *holding) Take(p *retry.Policy, n int) (turn retry.Turn, granted int, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asks > 0 && time.Since(p.Now()).Abs() < time.Hour {
		h.asks--
		return 0, 0, h.wait
	}
	return 1, n, 0
}

// Return implements [retry.Pacer].
func (*holding) Return(*retry.Policy, retry.Turn, int) {}

// Tell implements [retry.Pacer].
func (*holding) Tell(*retry.Policy, retry.Turn, error, retry.Verdict) time.Duration { return 0 }

// times are the scripts about limits of time.
func times(e *Engine) []script {
	u := e.unit()
	room := 100*u + 10*e.grain()
	long := retry.Schedule{u, 2 * room}
	sum := policy(u, retry.Unlimited, func(p *retry.Policy) {
		p.Backoff, p.MaxElapsed = retry.Constant(u), 3*u+3*e.grain()
	})
	tries := int(sum.MaxElapsed/u) + 1
	var failing []error
	for range tries {
		failing = append(failing, errBoom)
	}
	return []script{
		{
			name: "max elapsed", steps: outcomes(errBoom, errBoom),
			policy: policy(u, 5, func(p *retry.Policy) { p.Backoff, p.MaxDelay, p.MaxElapsed = long, 2*room, room }),
		},
		{name: "max elapsed: adds up", steps: outcomes(failing...), policy: sum, judge: boundedBy(sum.MaxElapsed)},
		{
			name: "timeout", steps: outcomes(errBoom, errBoom),
			policy: policy(u, 5, func(p *retry.Policy) { p.Backoff, p.MaxDelay, p.Timeout = long, 2*room, room }),
		},
		{
			name:   "attempt timeout, context ignored",
			policy: policy(u, 3, func(p *retry.Policy) { p.AttemptTimeout = u }),
			steps:  []step{{err: errUnknown, took: 2 * u}, {}},
		},
	}
}

// mishaps are the scripts in which something happens to the worker.
func mishaps(u time.Duration) []script {
	once := policy(u, 3, func(p *retry.Policy) { p.NonIdempotent = true })
	patient := policy(u, 5, func(p *retry.Policy) { p.Backoff = retry.Constant(4 * u) })
	confused := policy(u, 3, func(p *retry.Policy) {
		p.Classifier = func(error) retry.Verdict { panic("out of range") }
	})
	watched := policy(u, 3, func(p *retry.Policy) {
		p.Observer = &retry.Observer{Event: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.Retrying {
				panic("out of range")
			}
		}}
	})
	return []script{
		{name: "panic", policy: policy(u, 3), steps: []step{{act: panics}}, judge: loosely},
		{name: "panic of a classifier", policy: confused, steps: []step{{act: confuses, err: errUnknown}}, judge: ended},
		{name: "panic of an observer", policy: watched, steps: []step{{act: confuses, err: errBoom}, {}}, judge: survived},
		{
			name: notStarted, steps: outcomes(errStart, errStart, nil),
			policy: policy(u, 1, func(p *retry.Policy) {
				p.Overrides = map[string]retry.Override{"not_started": {Backoff: retry.Exponential{Initial: u}}}
			}),
		},
		{name: "crash", policy: policy(u, 3), steps: []step{{act: dies}, {err: errBoom}, {}}},
		{name: "crash: poison", policy: policy(u, 2), steps: []step{{act: dies}, {act: dies}}},
		{name: "crash: not idempotent", policy: once, steps: []step{{act: dies}}},
		{name: unstored, policy: policy(u, 3), steps: []step{{act: outlives}, {}}},
		{
			name: stuck, policy: policy(u, 3, func(p *retry.Policy) { p.AttemptTimeout = u }), judge: passedOn,
			steps: []step{{act: sticks, err: errFinal}, {took: u / 2}},
		},
		{name: "crash after a failure", policy: policy(u, 2), steps: []step{{err: errBoom}, {act: dies}}},
		{name: "shutdown", policy: policy(u, 2), steps: []step{{act: shuts}, {err: errBoom}, {act: shuts}, {err: errBoom}}},
		{
			name: "policy change: fewer attempts", policy: slow(u, 5), then: ptr(policy(u, 2)),
			steps: []step{{act: switches, err: errBoom}, {err: errBoom}},
		},
		{
			name: "policy change: more attempts, other waits", policy: slow(u, 2), then: &patient,
			steps: []step{{act: switches, err: errBoom}, {err: errBoom}, {err: errBoom}, {}},
		},
	}
}

// deliveries are the scripts about the kind of a job, and about a job that comes again.
func deliveries(u time.Duration) []script {
	steady := policy(u, 2, func(p *retry.Policy) { p.Backoff = retry.Constant(3 * u) })
	fewer := policy(u, 3, func(p *retry.Policy) { p.Backoff = retry.Constant(4 * u) })
	return []script{
		{
			name: "two kinds", policy: policy(u, 4), steps: outcomes(errBoom, errBoom, errBoom, nil),
			other: &script{policy: steady, steps: []step{{err: errBoom, took: u / 2}, {err: errBoom, took: u / 2}}},
		},
		{
			name: "reload", policy: slow(u, 5), then: &fewer,
			steps: []step{{act: reloads, err: errBoom}, {err: errBoom}, {err: errBoom}},
		},
		{
			name: arrivesTwice, policy: policy(u, 5), judge: once,
			steps: []step{{act: repeats, took: 5 * u}, {took: 5 * u}},
		},
		{name: largest, policy: policy(u, 2), judge: deadAfter(2), steps: outcomes(errLong, errLong)},
		{name: headers, policy: policy(u, 2), judge: labeled, steps: outcomes(errBoom, errBoom)},
		{
			name: refusedDead, policy: policy(u, 3), judge: deadAfter(3),
			steps: []step{{act: refuses, err: errFinal}, {err: errFinal}, {err: errFinal}},
		},
	}
}

// slow is a policy that waits long enough for its workers to be stopped meanwhile.
func slow(unit time.Duration, attempts int) retry.Policy {
	p := policy(unit, attempts)
	p.Backoff, p.MaxDelay = retry.Constant(10*unit), 10*unit
	return p
}

func ptr[T any](v T) *T { return &v }
