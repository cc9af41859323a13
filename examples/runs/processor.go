package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/examples/shared"
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

// serve processes runs until the context is done.
func (p *processor) serve(ctx context.Context) {
	for ctx.Err() == nil {
		found, err := p.step(ctx)
		if err != nil && ctx.Err() == nil {
			p.log.Error("step", "error", err) // what was claimed comes back with its lease
		}
		if err != nil || !found {
			_ = shared.Wait(ctx, p.poll)
		}
	}
}

// step takes over what dead processors have left, and processes one run, if
// there is one.
func (p *processor) step(ctx context.Context) (found bool, err error) {
	lost, err := p.Sweep(ctx, p.db, 10, p.categories...)
	for _, row := range lost {
		err = errors.Join(err, p.fail(ctx, row, p.policy.Next(row.State, retry.ErrLost, row.Now()), retry.ErrLost))
	}
	if err != nil {
		return false, err
	}
	rows, err := p.next(ctx)
	for _, row := range rows {
		err = errors.Join(err, p.process(ctx, row))
	}
	return len(rows) > 0, err
}

// process is process_run and process_replay_result.
func (p *processor) process(ctx context.Context, row retrytable.Row[string]) error {
	if d, exhausted := p.policy.Exhausted(row.State, row.Now()); exhausted {
		return p.fail(ctx, row, d, d.Err)
	}
	r, err := p.load(ctx, row)
	if err != nil {
		return err
	}
	attempt := "initial attempt"
	if r.previous != nil {
		attempt = "retry attempt"
	}
	p.log.Info(attempt, "run", r.ID, "attempt", r.State.Failures+1, "category", r.category)

	limited, cancel := context.WithTimeout(ctx, p.Lease/2) // so that no lease has to be extended
	result, err := p.replay(limited, r)
	cancel()
	interrupted := ctx.Err() != nil
	ctx = context.WithoutCancel(ctx) // what has happened is stored all the same
	switch {
	case err == nil:
		return p.succeed(ctx, r, result)
	case interrupted:
		return p.lostOr(row, p.Release(ctx, p.db, row.ID, row.Fence))
	default:
		return p.fail(ctx, row, p.policy.Next(row.State, err, row.Now()), err)
	}
}

func (p *processor) succeed(ctx context.Context, r *request, result outcome) error {
	if err := p.SucceedAs(ctx, p.db, r.ID, r.Fence, string(result)); err != nil {
		return p.lostOr(r.Row, err)
	}
	message := "succeeded"
	if r.previous != nil {
		message = "retry succeeded"
	}
	p.log.Info(message, "run", r.ID, "attempt", r.State.Failures+1, "status", result)
	return nil
}

// fail stores what was decided about a failure.
func (p *processor) fail(ctx context.Context, row retrytable.Row[string], d retry.Decision, failure error) error {
	class := errorClass(d.Verdict)
	if err := p.Fail(ctx, p.db, row.ID, row.Fence, d, class); err != nil {
		return p.lostOr(row, err)
	}
	log := p.log.With("run", row.ID, "error", failure, "error_class", class)
	switch {
	case d.Retry:
		log.Warn("retry scheduled", "attempt", d.State.Failures+1, "delay", d.Delay)
	case d.Stop == retry.StopAttempts:
		log.Error("max attempts reached", "attempts", d.State.Failures)
	default:
		log.Error("permanently failed", "reason", d.Stop)
	}
	return nil
}

// lostOr is err, unless it says that the run is somebody else's by now.
func (p *processor) lostOr(row retrytable.Row[string], err error) error {
	if errors.Is(err, retrytable.ErrLeaseLost) {
		p.log.Warn("too late", "run", row.ID)
		return nil
	}
	return err
}
