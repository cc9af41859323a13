package retrytable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/internal/show"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// shift is one Run or Once of a Worker: its settings with their defaults, and what lasts
// as long as it does.
type shift[ID any] struct {
	*Worker[ID]

	lost        error
	concurrency int
	lease       time.Duration
	heartbeat   time.Duration
	overtime    time.Duration
	poll        time.Duration
	statements  *sqltable.Statements
	sweepArgs   []any

	ctx     context.Context // of what is stored: not canceled
	working context.Context // of the work: canceled in the second stage of stopping
	cancel  context.CancelCauseFunc
	tell    func(error) // OnError, or what takes its place; see report
	back    comebacks   // of jobs of ours
	limits  limits      // that have jobs wait for turns
	ahead   ahead       // of a claim that goes past their jobs
	more    bool        // the last claim found as many jobs as it wanted

	gathering gathering // outcomes to be stored
	heart     heart     // of the leases of jobs at work
	hearts    sync.WaitGroup
	beating   context.Context // done when there are no more jobs

	probing atomic.Bool  // the idle connections are being looked at
	asked   atomic.Int64 // how many statements there were
	inTx    atomic.Bool  // there was an outcome with other writes

	groupsOff atomic.Int64 // until when, in nanoseconds since 1970; see switchGroupsOff

	// What is in the way of the statements that take rows, which share a connection.
	promoting, claiming, sweeping obstacles
	lane                          sync.Mutex

	touched time.Time // when touch has last asked

	stuck map[string]int // how often the end of a lost job could not be stored
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
	s := &shift[ID]{
		Worker: w, lost: cmp.Or(w.Lost, retry.ErrLost), concurrency: max(w.Concurrency, 1),
		lease: lease, heartbeat: cmp.Or(w.Heartbeat, lease/3), poll: cmp.Or(w.Poll, defaultPoll),
		overtime:   cmp.Or(w.Overtime, lease),
		statements: statements, sweepArgs: w.ClaimArgs[:statements.Sweep.NArgs],
		ctx: context.WithoutCancel(ctx), stuck: map[string]int{},
	}
	s.back.poll, s.back.news = s.poll, make(chan struct{}, 1)
	switch sqltable.Instants(w.Table.Instants).Unit() {
	case 1_000_000:
		s.back.round = time.Second
	case 1_000:
		s.back.round = 2 * time.Millisecond // of the due time, and of the time that it is compared with
	default:
	}
	s.working = s.ctx
	if s.Grace == 0 { // at the same moment, and not by way of a goroutine
		s.working = ctx
	}
	s.working, s.cancel = context.WithCancelCause(s.working)
	return s, nil
}

// attend cancels the work when ctx is done and the grace is over. leave ends that, and waits
// for all goroutines.
func (s *shift[ID]) attend(ctx context.Context) (leave func()) {
	var attendant sync.WaitGroup
	attending, stop := context.WithCancel(s.ctx)
	s.beating = attending
	attendant.Go(func() {
		select {
		case <-ctx.Done():
			sleep(attending, s.Grace)
			s.cancel(context.Cause(ctx))
		case <-attending.Done():
		}
	})
	return func() {
		stop()
		attendant.Wait()
		s.gathering.wait()
		s.hearts.Wait()
		s.cancel(nil)
	}
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
