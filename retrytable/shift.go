package retrytable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/internal/show"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// shift is one Run or Once of a Worker: its settings with their defaults, and what all of it
// needs. Its work is done by three parts, each of which stands on the next and knows none above
// it: claiming takes rows, running does their jobs, and storing stores the outcomes.
type shift[ID any] struct {
	*Worker[ID]

	lost        error
	concurrency int
	lease       time.Duration
	heartbeat   time.Duration
	overtime    time.Duration
	poll        time.Duration
	statements  *sqltable.Statements

	ctx  context.Context // of what is stored: not canceled
	tell func(error)     // OnError, or what takes its place; see report

	probing atomic.Bool  // the idle connections are being looked at
	asked   atomic.Int64 // how many statements there were
	inTx    atomic.Bool  // there was an outcome with other writes
}

// shift prepares one.
func (w *Worker[ID]) shift(ctx context.Context) (*shift[ID], error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	statements, err := w.Table.sql()
	if err != nil {
		return nil, err
	}
	if args := statements.Claim.NArgs; len(w.ClaimArgs) != args {
		return nil, fmt.Errorf("retrytable: Worker.ClaimArgs: %d given, %d wanted by the SQL of the Table", len(w.ClaimArgs), args)
	}
	if err := statements.Claim.CheckArgs(w.ClaimArgs); err != nil {
		return nil, fmt.Errorf("Worker.ClaimArgs: %w", err)
	}
	lease := statements.Lease
	return &shift[ID]{
		Worker: w, lost: cmp.Or(w.Lost, retry.ErrLost), concurrency: max(w.Concurrency, 1),
		lease: lease, heartbeat: cmp.Or(w.Heartbeat, lease/3), poll: cmp.Or(w.Poll, defaultPoll),
		overtime: cmp.Or(w.Overtime, lease), statements: statements, ctx: context.WithoutCancel(ctx),
	}, nil
}

// check checks the table, as soon as the database answers.
func (s *shift[ID]) check(ctx context.Context) error {
	for failures := 1; ; failures++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := s.within(ctx, longestPatience, func(ctx context.Context) error { return s.Table.Check(ctx, s.DB) })
		if err == nil || errors.Is(err, ErrTable) {
			return err
		}
		if ctx.Err() == nil {
			s.report(err)
		}
		sleep(ctx, s.pause(failures, longestPoll))
	}
}

// report tells OnError. If that panics, the log has both, because nobody else is left to
// be told.
func (s *shift[ID]) report(err error) {
	if panicked := engine.Guard("OnError", func() error { s.tell(err); return nil }); panicked != nil {
		s.log(err)
		s.log(panicked)
	}
}

// reportOf is report for an error of a job.
func (s *shift[ID]) reportOf(job *Job[ID], err error) {
	s.report(fmt.Errorf("retrytable: job %s: %w", show.Text(fmt.Sprint(job.ID)), err))
}

// log takes the place of OnError if it is nil.
func (s *shift[ID]) log(err error) {
	slog.Default().ErrorContext(s.ctx, "retrytable worker", "table", s.Table.Name, "error", err)
}
