package enginetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// director does to the workers what the script says.
type director struct {
	engine  *Engine
	play    *play   // of the job to which the script's acts happen
	plays   []*play // of all jobs
	queue   Queue
	workers Workers   // those that run
	started []Workers // all of them
	over    time.Time // when the job was seen to have ended
}

// policyFor has the policies of the scripts with kinds.
func (d *director) policyFor(kind string) (*retry.Policy, error) {
	for _, pl := range d.plays {
		if pl.kind == kind {
			return pl.current.Load(), nil
		}
	}
	return nil, fmt.Errorf("enginetest: there are no jobs of kind %q", kind)
}

func (d *director) start(p *retry.Policy) error {
	policies := Policies{Policy: d.play.policy(p)}
	if d.play.script.byKind() {
		policies = Policies{PolicyFor: d.policyFor}
	}
	w, err := d.queue.Start(policies, d.handler(p))
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	d.workers = w
	d.started = append(d.started, w)
	return nil
}

// direct follows the job to its end.
func (d *director) direct(ctx context.Context) (Outcome, error) {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case i := <-d.play.entered:
			if i > 0 && d.play.script.has(repeats) {
				d.look(ctx, d.play.seen()[0].end)
			}
			if i == 1 && d.play.script.has(sticks) {
				close(d.play.acted)
			}
			if err := d.act(ctx, i); err != nil {
				return Outcome{}, err
			}
		case <-poll.C:
			if o := d.look(ctx, time.Now()); o.Status != Open && len(d.play.entered) == 0 {
				return o, nil
			}
		case <-ctx.Done():
			return Outcome{}, errors.New("the job has not ended in time")
		}
	}
}

// look returns the outcome of the job. The first look that finds an end notes at as the
// time of the end.
func (d *director) look(ctx context.Context, at time.Time) Outcome {
	o, err := d.queue.Outcome(ctx, job)
	if err != nil {
		return Outcome{}
	}
	if o.Status != Open && d.over.IsZero() {
		d.over = at
	}
	return o
}

// linger waits for an attempt too many, which would come now. If the job has arrived
// twice, that may be the second delivery, and the outcome is what it is after that.
func (d *director) linger(ctx context.Context, o Outcome) (Outcome, error) {
	s := d.play.script
	time.Sleep(2 * d.engine.unit())
	if !s.has(repeats) {
		return o, nil
	}
	time.Sleep(d.engine.grain() + s.steps[1].took)
	return d.queue.Outcome(ctx, job)
}

// act does to the workers what step i says.
func (d *director) act(ctx context.Context, i int) error {
	s, p := d.play.script, &d.play.script.policy
	for _, step := range s.steps[:i] {
		if step.act == switches {
			p = s.then
		}
	}
	switch s.steps[i].act {
	case dies:
		if err := d.workers.Kill(); err != nil {
			return fmt.Errorf("kill: %w", err)
		}
	case outlives:
		if err := d.workers.Kill(); err != nil {
			return fmt.Errorf("kill: %w", err)
		}
		close(d.play.acted)
	case switches:
		if err := d.decided(ctx); err != nil {
			return err
		}
		p = s.then
		fallthrough
	case shuts:
		if err := d.workers.Stop(ctx); err != nil {
			return fmt.Errorf("stop: %w", err)
		}
	case repeats:
		if err := d.engine.Repeat(ctx, d.queue, job); err != nil {
			return fmt.Errorf("repeat: %w", err)
		}
		close(d.play.acted)
		return nil
	case refuses:
		return d.refuse(ctx)
	case returns, panics, confuses, reloads, sticks:
		return nil
	}
	return d.start(p)
}

// refuse lets the place of dead jobs refuse a job for a while.
func (d *director) refuse(ctx context.Context) error {
	mend, err := d.engine.RefuseDead(ctx, d.queue)
	if err != nil {
		return fmt.Errorf("refuse: %w", err)
	}
	close(d.play.acted)
	time.Sleep(refusal)
	if err := mend(); err != nil {
		return fmt.Errorf("mend: %w", err)
	}
	return nil
}

// refusal is how long dead jobs are refused.
const refusal = 500 * time.Millisecond

// decided waits until the policy has decided about the first failure.
func (d *director) decided(ctx context.Context) error {
	for len(d.play.rec.Events()) == 0 {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return errors.New("the Observer was not told of the first failure")
		}
	}
	return nil
}

// another checks that the workers run another job.
func (d *director) another(ctx context.Context) error {
	if err := d.queue.Submit(ctx, kind, nextJob); err != nil {
		return fmt.Errorf("submit another job: %w", err)
	}
	if o, err := d.ended(ctx, nextJob); err != nil || o.Status != Succeeded {
		return errors.New("no other job runs after this one")
	}
	return nil
}

// ended waits for the end of a job to which no act happens.
func (d *director) ended(ctx context.Context, job string) (Outcome, error) {
	for {
		select {
		case <-time.After(10 * time.Millisecond):
			if o, err := d.queue.Outcome(ctx, job); err == nil && o.Status != Open {
				return o, nil
			}
		case <-ctx.Done():
			return Outcome{}, fmt.Errorf("%s has not ended in time", job)
		}
	}
}
