package enginetest_test

import (
	"context"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// hidden is how long a message is hidden that a worker has. The worker hides it again
// while it lives, so that only a message whose worker died becomes visible.
const hidden = time.Second

// sketch is an engine in memory, and its adapter: the functions stored and settle. It
// delivers a message at least once. TestSketchIsSmall counts the lines of this file.
type sketch struct {
	mu       sync.Mutex
	messages map[string]*message
	stored   func(m message, p enginetest.Policies) retryjob.Stored
	settle   func(m *message, s *retryjob.Stored, o retryjob.Outcome)
}

// message is a job, and what the engine and the adapter store with it.
type message struct {
	kind    string
	visible time.Time // when it may be delivered
	worker  *worker   // has it
	kept    *retryjob.Overtime
	outcome enginetest.Outcome
	state   retry.State

	deliveries, known int // in all, and those that state knows of
}

// stored makes the attempt of a delivery. The deliveries between those that the State
// knows of and this one have no outcome.
func stored(m message, p enginetest.Policies) retryjob.Stored {
	return retryjob.Stored{Policy: p.Policy, PolicyFor: p.PolicyFor, Kind: m.kind, State: m.state, Lost: m.deliveries - m.known - 1}
}

// settle stores the outcome of an attempt.
func settle(m *message, s *retryjob.Stored, o retryjob.Outcome) {
	switch o {
	case retryjob.Done:
		m.outcome.Status = enginetest.Succeeded
	case retryjob.Ended:
		m.outcome = enginetest.Outcome{Status: enginetest.GaveUp, Err: s.Decision.Err.Error()}
	default: // Again, Handed and Refused
		m.state, m.known, m.visible = s.State, m.deliveries, time.Now().Add(s.Decision.Delay)
	}
	_ = s.Tell(context.Background()) // that it is stored
}

// worker is a process. It works on all messages that it receives at the same time.
type worker struct {
	*sketch

	policies enginetest.Policies
	handle   enginetest.Handler
	ctx      context.Context //nolint:containedctx // of the process
	attempts sync.WaitGroup
}

// receive delivers the messages that are visible, and hides those that the worker has.
func (w *worker) receive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for job, m := range w.messages {
		if m.outcome.Status == enginetest.Open && !m.visible.After(time.Now()) {
			m.worker, m.deliveries, m.kept = w, m.deliveries+1, &retryjob.Overtime{Most: hidden}
			was := *m
			w.attempts.Go(func() { w.attempt(job, m, was) })
		}
		if m.worker == w && m.kept.Check(time.Now()) == nil && !m.kept.Over() {
			m.visible = time.Now().Add(hidden)
		}
	}
}

// attempt works on a delivery. was is the message when it was delivered. If it has been
// delivered again since then, that delivery decides, unless this one is a success.
func (w *worker) attempt(job string, m *message, was message) {
	s := w.stored(was, w.policies)
	o := s.Attempt(w.ctx, was.kept.Watch(func(ctx context.Context) error { return w.handle(ctx, job) }))
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.outcome.Status == enginetest.Open && m.worker == w && (m.deliveries == was.deliveries || o == retryjob.Done) {
		m.worker = nil
		w.settle(m, &s, o)
	}
}
