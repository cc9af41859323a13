package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// processor processes runs. Any number of them may work on the same table.
type processor struct {
	*store

	policy *retry.Policy
	replay func(context.Context, *request) (outcome, error)
	poll   time.Duration
	log    *slog.Logger
}

// worker processes so many runs at a time.
func (p *processor) worker(n int) *retrytable.Worker[string] {
	policy := *p.policy
	policy.AttemptTimeout = p.Lease / 2
	return &retrytable.Worker[string]{
		Table: p.Table, DB: p.db.DB, Policy: &policy, Work: p.process, Concurrency: n, Poll: p.poll,
		BeforeClaim: p.promote, ClaimArgs: p.categories, FinishArgs: finishArgs, After: p.tell,
		OnError: func(_ context.Context, err error) {
			if errors.Is(err, retrytable.ErrLeaseLost) {
				p.log.Warn("too late", "error", err)
			} else {
				p.log.Error("processor", "error", err) // what was claimed comes back with its lease
			}
		},
	}
}

// process is process_run and process_replay_result.
func (p *processor) process(ctx context.Context, job *retrytable.Job[string]) error {
	r, err := p.load(ctx, job.Row)
	if err != nil {
		return err
	}
	attempt := "initial attempt"
	if r.previous != nil {
		attempt = "retry attempt"
	}
	p.log.Info(attempt, "run", r.ID, "attempt", r.State.Failures+1, "category", r.category)
	if r.result, err = p.replay(ctx, r); err != nil {
		return err
	}
	job.Data = r
	return nil
}

// finishArgs is the status of a success, and the error_class of a failure with the delay
// of its retry, if there is one.
func finishArgs(o *retrytable.Outcome[string]) []any {
	switch {
	case o.Released:
		return nil
	case o.Err == nil:
		return []any{string(o.Job.Data.(*request).result)}
	case o.Decision.Retry:
		return []any{errorClass(o.Decision.Verdict), o.Decision.DelayCeil(time.Microsecond).Microseconds()}
	default:
		return []any{errorClass(o.Decision.Verdict), nil}
	}
}

// tell logs what was stored about a run.
func (p *processor) tell(_ context.Context, o *retrytable.Outcome[string]) {
	d := o.Decision
	log := p.log.With("run", o.Job.ID)
	if o.Err != nil && !o.Released {
		log = log.With("error", o.Err, "error_class", errorClass(d.Verdict))
	}
	switch {
	case o.Released:
	case o.Err == nil:
		r, message := o.Job.Data.(*request), "succeeded"
		if r.previous != nil {
			message = "retry succeeded"
		}
		log.Info(message, "attempt", r.State.Failures+1, "status", r.result)
	case d.Retry:
		log.Warn("retry scheduled", "attempt", d.State.Failures+1, "delay", d.Delay)
	case d.Stop == retry.StopAttempts:
		log.Error("max attempts reached", "attempts", d.State.Failures)
	default:
		log.Error("permanently failed", "reason", d.Stop)
	}
}
