package retrytable

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// shift is one Run or Once of a Worker: its settings with their defaults, and what lasts
// as long as it does.
type shift[ID any] struct {
	*Worker[ID]

	policy      *retry.Policy
	lost        error
	concurrency int
	lease       time.Duration
	heartbeat   time.Duration
	poll        time.Duration
	statements  *statements
	claimArgs   []any
	sweepArgs   []any

	ctx     context.Context // of what is stored: not canceled
	working context.Context // of the work: canceled in the second stage of stopping
	cancel  context.CancelCauseFunc
	tell    func(error)   // OnError, or what takes its place; see report
	due     chan struct{} // a job of ours is due again at once

	probing atomic.Bool // the idle connections are being looked at

	// What is in the way of the statements that take rows.
	promoting, claiming, sweeping obstacle

	stuck map[string]int // how often the end of a lost job could not be stored
}

// shift prepares one.
func (w *Worker[ID]) shift(ctx context.Context) (*shift[ID], error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	statements, err := w.Table.prepared()
	if err != nil {
		return nil, err
	}
	if len(w.ClaimArgs) != statements.claim.args {
		return nil, fmt.Errorf("retrytable: Worker.ClaimArgs: %d given, %d wanted by the SQL of the Table",
			len(w.ClaimArgs), statements.claim.args)
	}
	lease := time.Duration(statements.lease) * time.Microsecond
	s := &shift[ID]{
		Worker: w, policy: w.Policy, lost: w.Lost,
		concurrency: max(w.Concurrency, 1), lease: lease, heartbeat: w.Heartbeat, poll: w.Poll,
		statements: statements, claimArgs: w.ClaimArgs, sweepArgs: w.ClaimArgs[:statements.sweep.args],
		ctx: context.WithoutCancel(ctx), due: make(chan struct{}, 1), stuck: map[string]int{},
	}
	if s.policy == nil {
		s.policy = &retry.Policy{}
	}
	if s.lost == nil {
		s.lost = retry.ErrLost
	}
	if s.heartbeat == 0 {
		s.heartbeat = lease / 3
	}
	if s.poll == 0 {
		s.poll = defaultPoll
	}
	s.working = s.ctx
	if s.Grace == 0 { // at the same moment, and not by way of a goroutine
		s.working = timeless{ctx}
	}
	s.working, s.cancel = context.WithCancelCause(s.working)
	return s, nil
}

// timeless is a context without its deadline, which would be one for the retries of jobs.
type timeless struct{ context.Context }

// Deadline implements [context.Context].
func (timeless) Deadline() (time.Time, bool) { return time.Time{}, false }

// attend cancels the work when ctx is done and the grace is over. What it returns ends
// that.
func (s *shift[ID]) attend(ctx context.Context) (end func()) {
	var attendant sync.WaitGroup
	over, leave := context.WithCancel(s.ctx)
	attendant.Go(func() {
		select {
		case <-ctx.Done():
			_ = sleep(over, s.Grace)
			s.cancel(context.Cause(ctx))
		case <-over.Done():
		}
	})
	return func() {
		leave()
		attendant.Wait()
		s.cancel(nil)
	}
}

// check checks the table, as soon as the database answers.
func (s *shift[ID]) check(ctx context.Context) error {
	for failures := 1; ; failures++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		_, err := within(ctx, s, longestPatience, func(ctx context.Context) (any, error) {
			return nil, s.Table.Check(ctx, s.DB)
		})
		if err == nil || errors.Is(err, ErrTable) {
			return err
		}
		if ctx.Err() == nil {
			s.report(err)
		}
		_ = sleep(ctx, s.pause(failures))
	}
}

// claimAll claims jobs and has them done until ctx is done, and returns when they are.
//
//nolint:contextcheck // see claim
func (s *shift[ID]) claimAll(ctx context.Context) {
	var jobs sync.WaitGroup
	defer jobs.Wait()
	busy, wake, failures := make(chan struct{}, s.concurrency), s.Wake, 0
	for {
		free := reserve(ctx, busy)
		if free == 0 {
			return
		}
		rows, ends, err := s.claim(free)
		for _, row := range rows {
			jobs.Go(func() {
				defer func() { <-busy }()
				s.work(ctx, row, ends)
			})
		}
		for range free - len(rows) {
			<-busy
		}
		switch {
		case err != nil:
			s.report(err)
			failures++
			_ = sleep(ctx, s.pause(failures))
			continue
		case len(rows) < free:
			wake = s.rest(ctx, wake)
		}
		failures = 0
	}
}

// reserve takes all places that are free, and waits for one if none is. It takes none
// when ctx is done.
func reserve(ctx context.Context, busy chan struct{}) (n int) {
	select {
	case <-ctx.Done():
		return 0
	case busy <- struct{}{}:
		n++
	}
	for {
		select {
		case busy <- struct{}{}:
			n++
		default:
			if ctx.Err() == nil {
				return n
			}
			for range n {
				<-busy
			}
			return 0
		}
	}
}

// rest waits until it is time to look for jobs again, or somebody says that there are
// some. It returns the channel to listen to the next time.
func (s *shift[ID]) rest(ctx context.Context, wake <-chan struct{}) <-chan struct{} {
	timer := time.NewTimer(s.pause(0))
	defer timer.Stop()
	for {
		select {
		case _, open := <-wake:
			if open {
				return wake
			}
			wake = nil // a closed channel would be ready for ever
		case <-s.due:
			return wake
		case <-timer.C:
			return wake
		case <-ctx.Done():
			return wake
		}
	}
}

// pause returns how long to wait after so many failures in a row.
func (s *shift[ID]) pause(failures int) time.Duration {
	d := s.poll
	for range failures {
		if d >= longestPoll {
			break
		}
		d = min(2*d, longestPoll)
	}
	return d - d/4 + rand.N(d/2+1)
}

// sleep waits until d has passed, or ctx is done, whose error it returns.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
