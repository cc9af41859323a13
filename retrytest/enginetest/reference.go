package enginetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// record is what happened to a job.
type record struct {
	attempts []span
	events   []retry.Event
	timeline []string
	outcome  Outcome
	headers  map[string]string // of the user's, where the job was given up
	over     time.Time         // when the engine's records said first that the job has ended
	other    *record           // of the job of another kind
}

// span is when an attempt ran.
type span struct{ start, end time.Time }

// expected runs a script without an engine, on a fake clock. A script in which nothing
// happens to the worker runs in Execute. In the others, every attempt is a
// [retryjob.Stored] that goes on with the State of the one before.
func (s *script) expected(e *Engine) *record {
	var clock retrytest.Clock
	var rec retrytest.Recorder
	ref := &reference{engine: e, script: s, clock: &clock, rec: &rec}
	var err error
	if s.plain() {
		p := ref.policy(&s.policy)
		err = p.Execute(context.Background(), ref.attempt)
	} else {
		err = ref.stored()
	}
	outcome := Outcome{Status: Succeeded}
	if err != nil {
		outcome = Outcome{Status: GaveUp, Err: err.Error()}
	}
	want := &record{attempts: ref.spans, events: rec.Events(), timeline: rec.Timeline(), outcome: outcome}
	if s.other != nil {
		want.other = s.other.expected(e)
	}
	return want
}

// plain reports whether nothing happens to the worker, and the policy stays the same.
func (s *script) plain() bool {
	return !s.has(dies, outlives, sticks, shuts, switches, reloads) && s.name != notStarted
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
	q.Clock, q.Observer, q.Classifier = r.clock, r.rec.Observer(), nil
	return &q
}

// attempt is one attempt. A panic ends the job, as a Final error does.
func (r *reference) attempt(context.Context) error {
	if len(r.spans) == len(r.script.steps) {
		return retry.MarkFinal(fmt.Errorf("enginetest: script %q has %d steps", r.script.name, len(r.spans)))
	}
	step := r.script.steps[len(r.spans)]
	start := r.clock.Now()
	r.clock.Advance(step.took)
	r.spans = append(r.spans, span{start, r.clock.Now()})
	if step.act == panics || step.act == confuses {
		return retry.MarkFinal(errors.New("panicked"))
	}
	return cmp.Or(step.call, step.err)
}

// stored runs a script in which something happens to the worker: every attempt is one of
// another worker.
func (r *reference) stored() error {
	p, state, lost := r.policy(&r.script.policy), retry.State{}, 0
	for {
		ctx, stop := context.WithCancel(context.Background())
		job := retryjob.Stored{Policy: p, State: state, Lost: lost}
		outcome := job.Attempt(ctx, func(ctx context.Context) error {
			err := r.attempt(ctx)
			switch r.act() {
			case dies, outlives, sticks:
				if r.engine.AsksAboutLost {
					return retry.ErrLost
				}
				job.Abort()
			case shuts:
				stop()
				return context.Canceled
			case returns, panics, confuses, switches, reloads, repeats, refuses:
			}
			return err
		})
		stop()
		_ = job.Tell(ctx)
		switch state, lost = job.State, 0; outcome {
		case retryjob.Again, retryjob.Refused:
			r.clock.Advance(job.Decision.Delay)
		case retryjob.Handed:
			if a := r.act(); a == dies || a == outlives || a == sticks { // it is counted when the next worker finds the job
				lost = 1
			}
		default:
			return job.Decision.Err
		}
		if r.act() == switches || r.act() == reloads {
			p = r.policy(r.script.then)
		}
	}
}

// act is what happened in the last attempt.
func (r *reference) act() act { return r.script.steps[len(r.spans)-1].act }
