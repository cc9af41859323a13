package main

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared"
)

// processor processes runs. Any number of them may work on the same table.
type processor struct {
	*store

	policy *retry.Policy
	replay func(context.Context, *request) (outcome, error)
	poll   time.Duration
	log    *slog.Logger
}

func newProcessor(db *shared.DB, c *DaemonConfig, out io.Writer) *processor {
	p := &processor{newStore(db, c.Lease, c.Categories), c.Retry.policy(), replay, c.Poll, slog.New(slog.NewTextHandler(out, nil))}
	p.log.Info("processor", "policy", p.policy, "categories", c.Categories)
	return p
}

// worker processes so many runs at a time.
func (p *processor) worker(n int) *retrytable.Worker[string] {
	policy := *p.policy
	policy.AttemptTimeout = p.Lease / 2
	return &retrytable.Worker[string]{
		Table: p.Table, DB: p.db.DB, Policy: &policy, Work: p.process, Concurrency: n, Poll: p.poll,
		ClaimArgs: p.categories, FinishArgs: finishArgs, After: p.tell,
		// What was claimed comes back with its lease.
		OnError: func(_ context.Context, err error) { p.log.Error("processor", "error", err) },
	}
}

// schema is what a processor needs of the database, and writes to it.
func (p *processor) schema() *shared.Schema {
	return &shared.Schema{
		Program: "runs", Jobs: p.Table, Tables: p.tables(), Probe: retrytable.Probe[string]{Worker: p.worker(1)},
	}
}

// process is process_run and process_replay_result.
func (p *processor) process(ctx context.Context, job *retrytable.Job[string]) error {
	r, err := p.load(ctx, job)
	if err != nil {
		return retry.MarkNotStarted(err)
	}
	attempt := "initial attempt"
	if job.Kind != "" {
		attempt = "retry attempt"
	}
	p.log.Info(attempt, "run", r.ID, "attempt", job.State.Failures+1, "category", r.category)
	result, err := p.replay(ctx, r)
	job.Data = result
	job.SucceedAs(string(result))
	return err
}

// finishArgs is the error_class of a failure.
func finishArgs(o *retrytable.Outcome[string]) []any {
	return []any{errorClass(o.Decision.Verdict)}
}

// tell logs what was stored about a run.
func (p *processor) tell(_ context.Context, o *retrytable.Outcome[string]) {
	d, log, success := o.Decision, p.log.With("run", o.Job.ID), "succeeded"
	if o.Err != nil {
		log = log.With("error", o.Err, "error_class", errorClass(d.Verdict))
	} else if o.Job.Kind != "" {
		success = "retry succeeded"
	}
	switch {
	case o.Released: // as it was
	case o.Err == nil:
		log.Info(success, "attempt", o.Job.State.Failures+1, "status", o.Job.Data)
	case d.Retry:
		log.Warn("retry scheduled", "attempt", d.State.Failures+1, "delay", d.Delay)
	case d.Stop == retry.StopAttempts:
		log.Error("max attempts reached", "attempts", d.State.Failures)
	default:
		log.Error("permanently failed", "reason", d.Stop)
	}
}
