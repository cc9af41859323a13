package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retryjob"
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
		ClaimArgs: p.categories, After: p.tell,
		FinishArgs: func(o *retrytable.Outcome[string]) []any { return []any{errorClass(o.Decision.Verdict)} },
		OnError:    shared.Failed(p.log, "processor", slog.LevelError),
	}
}

// process is process_run and process_replay_result.
func (p *processor) process(ctx context.Context, job *retrytable.Job[string]) error {
	r := &request{Job: job}
	recorded := p.db.SQL("SELECT category, url, expected FROM runs WHERE id = $1")
	if err := p.db.QueryRowContext(ctx, recorded, job.ID).Scan(&r.category, &r.url, &r.expected); err != nil {
		return retryjob.MarkNotStarted(err)
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

// replay sends the request of a run, and compares the answer with the recorded
// one. What it returns as an error says by its class whether to try again.
func replay(ctx context.Context, r *request) (outcome, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return "", retry.MarkFinal(retryhttp.Redact(err))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", retryhttp.Redact(err)
	}
	defer resp.Body.Close()
	if v := retryhttp.ClassifyResponse(resp, r.Now()); v != (retry.Verdict{}) {
		return "", retry.Mark(errors.New(resp.Status), v)
	}
	if r.expected == nil {
		if _, err := io.Copy(io.Discard, resp.Body); err != nil { // it has to arrive whole
			return "", err
		}
		return needsReview, nil
	}
	// One byte more than the recorded answer tells a longer one from it, and no answer
	// can take more memory than the recorded one.
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(len(*r.expected))+1))
	switch {
	case err != nil:
		return "", err
	case *r.expected != string(body):
		return failed, nil
	default:
		return passed, nil
	}
}
