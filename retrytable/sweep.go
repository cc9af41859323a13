package retrytable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// sweepAll takes over leases that have run out until ctx is done.
func (s *claiming[ID]) sweepAll(ctx context.Context) {
	churn := churn{since: time.Now(), closed: s.DB.Stats().MaxIdleClosed}
	failures := failures[ID]{shift: s.shift}
	for ctx.Err() == nil {
		more, err := s.sweep()
		s.adviseMoreIdle(&churn)
		if failures.note(err); err == nil && more {
			continue
		}
		sleep(ctx, failures.pause(err))
	}
}

// sweep takes over some leases that have run out, and reports whether there may be more.
func (s *claiming[ID]) sweep() (more bool, err error) {
	ends := time.Now().Add(s.lease)
	rows, err := take(s, &s.refusing.sweep, s.statements.Sweep, sqltable.Some{N: sweepSize}, s.ClaimArgs[:s.statements.Sweep.NArgs], scanRow[ID])
	for _, row := range rows {
		if !time.Now().Before(ends) {
			return false, err // the others run out again
		}
		job := &Job[ID]{Row: row}
		stored := s.equip(job, nil) == nil && s.settle(s.failed(job, s.lost), ends, briefly)
		s.remember(row.Lease, stored)
	}
	return len(rows) == sweepSize, err
}

const (
	mostStuck    = 1000 // jobs to know of
	longestStuck = 10 * time.Minute
)

// remember delays a job whose end could not be stored, or which has no policy, longer
// each time, so that all workers sweep other jobs meanwhile. The first time, the job
// comes back when this lease runs out.
func (s *claiming[ID]) remember(lease Lease[ID], stored bool) {
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
	err := s.within(s.ctx, s.patience(), func(ctx context.Context) error {
		return s.Table.Extend(ctx, s.DB, lease, pause)
	})
	if errors.Is(err, ErrLeaseLost) {
		delete(s.stuck, id) // it is somebody else's
	}
}
