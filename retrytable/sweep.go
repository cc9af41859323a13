package retrytable

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// sweepAll takes over leases that have run out until ctx is done.
func (s *shift[ID]) sweepAll(ctx context.Context) {
	idle := idleness{since: time.Now(), closed: s.DB.Stats().MaxIdleClosed}
	failures := 0
	for ctx.Err() == nil {
		more, err := s.sweep()
		advise(s, &idle)
		switch {
		case err != nil:
			s.report(err)
			failures++
		case more:
			failures = 0
			continue
		default:
			failures = 0
		}
		_ = sleep(ctx, s.pause(failures))
	}
}

// sweep takes over some leases that have run out, and reports whether there may be more.
func (s *shift[ID]) sweep() (more bool, err error) {
	ends := time.Now().Add(s.lease)
	rows, err := take(s, &s.sweeping, &s.statements.sweep, sweepSize, s.sweepArgs, scanRow[ID])
	for _, row := range rows {
		if !time.Now().Before(ends) {
			return false, err // the others run out again
		}
		stored := false
		job := &Job[ID]{Row: row}
		s.guarded(job, func() {
			o := &Outcome[ID]{Job: job, Err: s.lost, Decision: s.policy.Next(row.State, s.lost, row.Now())}
			stored = s.settle(o, ends, storingBriefly)
		})
		s.remember(row.Lease, stored)
	}
	return len(rows) == sweepSize, err
}

const (
	mostStuck    = 1000 // jobs to know of
	longestStuck = 10 * time.Minute
)

// remember has a job whose end could not be stored come back later each time, so that the
// sweeps of all workers are for others meanwhile. The first time it is when this lease
// runs out.
func (s *shift[ID]) remember(lease Lease[ID], stored bool) {
	id := fmt.Sprint(lease.ID)
	times := s.stuck[id]
	delete(s.stuck, id)
	if stored {
		return
	}
	if len(s.stuck) >= mostStuck {
		clear(s.stuck)
	}
	s.stuck[id] = times + 1
	if times == 0 {
		return
	}
	pause := s.lease
	for range times {
		pause = min(2*pause, max(longestStuck, s.lease))
	}
	_, err := within(s.ctx, s, s.patience(), func(ctx context.Context) (any, error) {
		return nil, s.Table.Extend(ctx, s.DB, lease, pause)
	})
	if errors.Is(err, ErrLeaseLost) {
		delete(s.stuck, id) // it is somebody else's
	}
}
