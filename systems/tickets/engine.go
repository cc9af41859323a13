package main

import (
	"cmp"
	"context"
	"database/sql"
	"log/slog"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared"
)

// engine has agents work on tickets.
type engine struct {
	db      *shared.DB
	table   *retrytable.Table[string]
	policy  *retry.Policy
	agent   func(context.Context, ticket) error
	vm      string
	metrics *metrics
	notify  func(change) // after every change of a state but to in_progress
	log     *slog.Logger

	interval time.Duration // between looks for work
	grace    time.Duration // for the agents, when the engine has to stop
}

// change is what notifyTicketStateChange tells of a ticket.
type change struct {
	Ticket            string
	State             string
	Category          string // of the error
	Error             string
	Reason            string    // why it is on hold
	RetryAfter        time.Time // if it is ready
	AttemptsRemaining int
}

// decision is what the activity says of every failure.
type decision struct {
	ErrorCategory  string `json:"errorCategory"`
	CurrentAttempt int    `json:"currentAttempt"`
	MaxRetries     int    `json:"maxRetries"`
	ShouldRetry    bool   `json:"shouldRetry"`
	NextDelayMs    int64  `json:"nextDelayMs"`
	Error          string `json:"error"`
}

// worker works on so many tickets at a time.
func (e *engine) worker(n int) *retrytable.Worker[string] {
	return &retrytable.Worker[string]{
		Table: e.table, DB: e.db.DB, Policy: e.policy, Work: e.work, Concurrency: n,
		Poll: e.interval, Grace: e.grace, Lost: errLost,
		ClaimArgs: []any{e.vm}, FinishArgs: e.decided, InTx: e.logDecision, After: e.tell, OnError: shared.Failed(e.log, "engine", slog.LevelWarn),
	}
}

// work has the agent work on a claimed ticket.
func (e *engine) work(ctx context.Context, job *retrytable.Job[string]) error {
	t, err := load(ctx, e.db, job.Row)
	if err != nil {
		return retry.MarkNotStarted(err)
	}
	if err = e.agent(ctx, t); err != nil {
		err = &told{err}
	}
	return err
}

// decided is retryOrFailTicket: the ticket is ready again, after the delay of its
// category, or on hold.
func (e *engine) decided(o *retrytable.Outcome[string]) []any {
	d := &o.Decision
	category, text := cmp.Or(d.Verdict.Category, unknown), storable(o.Err.Error())
	c := change{
		Ticket: o.Job.ID, State: ready, Category: category, Error: text,
		RetryAfter: d.At, AttemptsRemaining: max(d.Limit-d.State.Failures, 0),
	}
	if !d.Retry {
		c.State, c.Reason, c.RetryAfter = onHold, d.Stop.Error()+": "+category, time.Time{}
		if d.Stop == retry.StopAttempts {
			c.Reason = "Max retries exceeded: " + category
		}
	}
	o.Job.Data = c
	return []any{sql.NullString{String: c.Reason, Valid: c.Reason != ""}, strategy(e.policy, category)}
}

// logDecision logs a decision in the transaction that stores it.
func (e *engine) logDecision(ctx context.Context, tx *sql.Tx, o *retrytable.Outcome[string]) error {
	if o.Err == nil {
		return nil
	}
	c, d := o.Job.Data.(change), &o.Decision
	details := decision{c.Category, d.State.Failures, d.Limit - 1, d.Retry, d.Delay.Milliseconds(), c.Error}
	return logActivity(ctx, tx, e.db, o.Job.ID, "retry_decision", details, "system")
}

// tell tells of what was stored.
func (e *engine) tell(_ context.Context, o *retrytable.Outcome[string]) {
	switch {
	case o.Released:
		return
	case o.Err == nil:
		e.metrics.ended(o.Job.State, true)
		e.notify(change{Ticket: o.Job.ID, State: needsReview})
	default:
		c := o.Job.Data.(change)
		e.metrics.ended(o.Job.State, false)
		e.metrics.decided(c.Category, o.Decision)
		e.notify(c)
	}
}

// storable is text without what PostgreSQL has no place for: an agent's may be
// anything, and a decision must not be lost for that.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
