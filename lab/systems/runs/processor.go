package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
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

// outcome is what a run that was replayed has come to.
type outcome string

const (
	passed      outcome = "passed"
	needsReview outcome = "needs_review"
	failed      outcome = "failed" // the answer was another one: no error, and no retry
)

// store is the table runs, as far as a processor may see it.
type store struct {
	*retrytable.Table[string]

	db         *shared.DB
	categories []any // those allowed; all if empty
}

// newStore says what the columns mean. A claim is get_next_run_to_process: of the runs that
// are discovered, and those in error whose next_retry_at has come, it takes the one that was
// submitted first. It clears next_retry_at and preserves retry_count. What is added to the
// table, a lease and a fence, has no say in what is due.
func newStore(db *shared.DB, lease time.Duration, categories string) *store {
	db.Instants = db.TextLike("runs", "next_retry_at", "submitted_date")
	s := &store{db: db, Table: &retrytable.Table[string]{
		Dialect: db.Dialect, Name: "runs", Lease: lease, Instants: db.Instants,
		Columns: retrytable.Columns{
			Retries: "retry_count", Due: "next_retry_at",
			Kind: "error_class", // a run is of the kind of its last failure
		},
		Statuses: retrytable.Statuses{
			Ready: "discovered", Waiting: "error", Running: []string{"processing"},
			Done: []string{string(passed), string(needsReview), string(failed)}, Dead: "error",
		},
		// MySQL has no Merge: a claim makes the first 100 retries that are due discovered.
		OrderBy: "submitted_date, id", Merge: db.Dialect != retrytable.MySQL,
		Set: retrytable.Set{
			Succeed: "retry_count = 0, error_class = NULL", // clear_retry_fields
			Fail:    "error_class = $1",                    // schedule_retry, mark_run_permanently_failed
		},
	}}
	var in []string
	for category := range strings.FieldsFuncSeq(categories, func(r rune) bool { return r == ',' || r == ' ' }) {
		s.categories = append(s.categories, category)
		in = append(in, fmt.Sprintf("$%d", len(s.categories)))
		s.Where = "category IN (" + strings.Join(in, ", ") + ")"
	}
	return s
}

// schema is what a processor needs of the database, and writes to it. What is to be replayed only the
// user of the table knows.
func (p *processor) schema() *shared.Schema {
	index := "idx_runs_retry (next_retry_at)"
	if p.Dialect != retrytable.MySQL { // which has no such indexes
		index += " WHERE next_retry_at IS NOT NULL"
	}
	return &shared.Schema{
		Program: "runs", Jobs: p.Table, Probe: retrytable.Probe[string]{Worker: p.worker(1)},
		Tables: []shared.Table{{
			Name: "runs", Indexes: index, ByHand: "category text\nurl text\nexpected text\nsubmitted_date {instant}",
			New: `
	id             varchar(255) NOT NULL PRIMARY KEY,
	category       text NOT NULL,
	url            text NOT NULL, -- what to replay
	expected       text,          -- the recorded answer; NULL if somebody has to look at it
	submitted_date {instant} NOT NULL DEFAULT ({now})
`,
		}},
	}
}

// request is what to replay.
type request struct {
	*retrytable.Job[string]

	category, url string
	expected      *string
}
