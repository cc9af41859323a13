package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/examples/shared"
	"github.com/seed-5ff3c98e/retry/retrysql"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// engine has agents work on tickets.
type engine struct {
	db      *shared.DB
	table   *retrytable.Table[int64]
	policy  *retry.Policy
	agent   func(context.Context, ticket) error
	vm      string
	metrics *metrics
	notify  func(change) // after every change of a state but to in_progress
	log     *slog.Logger

	interval time.Duration // between looks for work
	beat     time.Duration // between two extensions of a lease, which must be shorter than that
}

// change is what notifyTicketStateChange tells of a ticket.
type change struct {
	Ticket            int64
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

// serve works on tickets, so many at a time, until the context is done.
func (e *engine) serve(ctx context.Context, workers int) {
	busy := make(chan struct{}, workers)
	var working sync.WaitGroup
	defer working.Wait()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case busy <- struct{}{}:
		}
		rows, err := e.next(ctx)
		e.report(err)
		for _, row := range rows {
			working.Go(func() {
				defer func() { <-busy }()
				e.report(e.work(ctx, row))
			})
		}
		if len(rows) == 0 {
			<-busy
			_ = shared.Wait(ctx, e.interval)
		}
	}
}

func (e *engine) report(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		e.log.Error("engine", "error", err)
	}
}

// next claims the ticket that goes first of those that are ready, if there is one.
// Retries whose time has come are among them.
func (e *engine) next(ctx context.Context) ([]retrytable.Row[int64], error) {
	const batch = 1000
	lost, err := e.table.Sweep(ctx, e.db, batch)
	for _, row := range lost {
		err = errors.Join(err, e.retryOrFail(ctx, row, errLost))
	}
	if err != nil {
		return nil, err
	}
	if _, err := e.table.Promote(ctx, e.db, batch); err != nil {
		return nil, err
	}
	return e.table.Claim(ctx, e.db, 1, e.vm)
}

// work has the agent work on a claimed ticket, and says how that ended even if the
// context is done.
func (e *engine) work(ctx context.Context, row retrytable.Row[int64]) error {
	t, err := load(ctx, e.db, row)
	if err != nil {
		return err // its lease runs out
	}
	working, stop := context.WithCancelCause(ctx)
	var beating sync.WaitGroup
	beating.Go(func() {
		for shared.Wait(working, e.beat) == nil {
			if err := e.table.Extend(working, e.db, row.ID, row.Fence, 0); errors.Is(err, retrytable.ErrLeaseLost) {
				stop(err)
			}
		}
	})
	failure := e.agent(working, t)
	stop(nil)
	beating.Wait()

	stopped := ctx.Err() != nil
	ctx = context.WithoutCancel(ctx)
	switch err := context.Cause(working); {
	case errors.Is(err, retrytable.ErrLeaseLost):
		return err
	case failure == nil:
		return e.succeed(ctx, row)
	case stopped:
		return e.table.Release(ctx, e.db, row.ID, row.Fence)
	default:
		return e.retryOrFail(ctx, row, failure)
	}
}

func (e *engine) succeed(ctx context.Context, row retrytable.Row[int64]) error {
	if err := e.table.Succeed(ctx, e.db, row.ID, row.Fence); err != nil {
		return err
	}
	e.metrics.ended(row.State, true)
	e.notify(change{Ticket: row.ID, State: needsReview})
	return nil
}

// retryOrFail is retryOrFailTicket: the ticket is ready again, after the delay of
// its category, or on hold. The decision is logged in the same transaction.
func (e *engine) retryOrFail(ctx context.Context, row retrytable.Row[int64], failure error) error {
	d := e.policy.Next(row.State, failure, row.Now())
	category, text := cmp.Or(d.Verdict.Category, unknown), storable(failure.Error())
	c := change{
		Ticket: row.ID, State: ready, Category: category, Error: text,
		RetryAfter: d.At, AttemptsRemaining: max(d.Limit-d.State.Failures, 0),
	}
	details := decision{category, d.State.Failures, d.Limit - 1, d.Retry, d.Delay.Milliseconds(), text}
	if !d.Retry {
		c.State, c.Reason, c.RetryAfter = onHold, d.Stop.String()+": "+category, time.Time{}
		if d.Stop == retry.StopAttempts {
			c.Reason = "Max retries exceeded: " + category
		}
		d.State = row.State // no retry follows, and the column counts retries
	}
	used, err := strategy(e.policy, category)
	if err != nil {
		return err
	}
	err = retrysql.InTx(ctx, e.db.DB, nil, nil, func(ctx context.Context, tx *sql.Tx) error {
		// First, so that no delay begins before the decision is in the log.
		if err := logActivity(ctx, tx, e.db, row.ID, "retry_decision", details, "system"); err != nil {
			return err
		}
		reason := sql.NullString{String: c.Reason, Valid: c.Reason != ""}
		return e.table.Fail(ctx, tx, row.ID, row.Fence, d, text, reason, used)
	})
	if err != nil {
		return err
	}
	e.metrics.ended(row.State, false)
	e.metrics.decided(category, d)
	e.notify(c)
	return nil
}

// storable is text without what PostgreSQL has no place for: an agent's may be
// anything, and a decision must not be lost for that.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
