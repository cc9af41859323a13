package enginetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// record is what happened to a job.
type record struct {
	attempts []span
	events   []retry.Event
	timeline []string
	outcome  Outcome
}

// span is when an attempt ran.
type span struct{ start, end time.Time }

// expected runs a script without an engine, on a fake clock. A script in which nothing
// happens to the worker runs in Execute. In the others, every worker is a Call of its
// own that goes on with the State of the one before.
func (s *script) expected(e *Engine) *record {
	var clock retrytest.Clock
	var rec retrytest.Recorder
	ref := &reference{engine: e, script: s, clock: &clock, rec: &rec}
	var err error
	if s.plain() {
		p := ref.policy(&s.policy)
		err = p.Execute(context.Background(), ref.attempt)
	} else {
		err = ref.calls()
	}
	outcome := Outcome{Status: Succeeded}
	if err != nil {
		outcome = Outcome{Status: GaveUp, Err: err.Error()}
	}
	return &record{attempts: ref.spans, events: rec.Events(), timeline: rec.Timeline(), outcome: outcome}
}

// plain reports whether nothing happens to the worker.
func (s *script) plain() bool {
	for _, step := range s.steps {
		if step.act != returns && step.act != panics && step.act != confuses {
			return false
		}
	}
	return true
}

// reference is a script in progress, without an engine.
type reference struct {
	engine *Engine
	script *script
	clock  *retrytest.Clock
	rec    *retrytest.Recorder
	spans  []span
}

func (r *reference) policy(p *retry.Policy) *retry.Policy {
	q := *p
	q.Clock, q.Observer, q.Classifier = r.clock, r.rec, nil
	return &q
}

// attempt is one attempt. A panic ends the job, as a Final error does.
func (r *reference) attempt(context.Context) error {
	if len(r.spans) == len(r.script.steps) {
		return retry.MarkFinal(fmt.Errorf("enginetest: script %q has %d steps", r.script.name, len(r.spans)))
	}
	step := r.script.steps[len(r.spans)]
	start := r.clock.Now()
	r.clock.Advance(step.took) //nolint:contextcheck // an attempt that ignores its context
	r.spans = append(r.spans, span{start, r.clock.Now()})
	if step.act == panics || step.act == confuses {
		return retry.MarkFinal(errors.New("panicked"))
	}
	return step.err
}

// calls runs a script in which something happens to the worker.
func (r *reference) calls() error {
	ctx := context.Background()
	p := r.policy(&r.script.policy)
	call := &retry.Call{Policy: p}
	for call.Next(ctx) {
		err, lost := r.attempt(ctx), 0
		switch r.script.steps[len(r.spans)-1].act {
		case dies:
			if r.engine.AsksAboutLost {
				call.End(retry.ErrLost)
				continue
			}
			// It is counted when the next worker finds the job.
			call.Abort()
			call = &retry.Call{Policy: p, State: call.State}
			lost = 1
		case shuts:
			call.Abort()
			call = &retry.Call{Policy: p, State: call.State}
			continue
		case switches:
			d := call.End(err)
			r.clock.Advance(d.Delay)
			p = r.policy(r.script.then)
			call = &retry.Call{Policy: p, State: d.State}
		case returns, panics, confuses:
			call.End(err)
			continue
		}
		if d, exhausted := call.Lost(ctx, lost); exhausted {
			return d.Err
		}
	}
	return call.Err()
}
