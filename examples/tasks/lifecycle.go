package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrysql"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// starter returns the step of the start loop: it claims the task whose turn it is, and
// starts it on a goroutine of its own, so that an on_start that hangs delays no other.
func (s *service) starter(starts *sync.WaitGroup) func(context.Context) (more bool, err error) {
	slots := make(chan struct{}, callsAtOnce)
	return func(ctx context.Context) (bool, error) {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return false, ctx.Err()
		}
		rows, err := s.claim(ctx)
		if err != nil || len(rows) == 0 {
			<-slots
			return false, err
		}
		starts.Go(func() {
			defer func() { <-slots }()
			// What was begun is finished, even if the service is to stop.
			if err := s.start(context.WithoutCancel(ctx), rows[0]); err != nil {
				s.log.Error("start", "error", err)
			}
		})
		return true, nil
	}
}

// claim claims the task whose turn it is, if there is one.
func (s *service) claim(ctx context.Context) (rows []retrytable.Row[string], err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		// Two claims at once would not see each other among those that run.
		if s.db.Dialect == retrytable.PostgreSQL {
			const lock = "SELECT pg_advisory_xact_lock(hashtext(current_schema() || '.task'))"
			if _, err := tx.ExecContext(ctx, lock); err != nil {
				return err
			}
		}
		if rows, err = s.tasks.Claim(ctx, tx, 1); err != nil || len(rows) == 0 {
			return err
		}
		// If this process dies, whoever it has called may still do the work: there is as
		// much time for that as if the task ran.
		t, err := s.task(ctx, tx, rows[0].ID)
		if err != nil {
			return err
		}
		return s.tasks.Extend(ctx, tx, rows[0].Lease, max(s.lease, s.timeoutOf(t)))
	})
	return rows, err
}

// timeoutOf is how long a task may give no sign of life.
func (s *service) timeoutOf(t task) time.Duration { return time.Duration(t.Timeout) * s.second }

// start calls the on_start of a claimed task, and has it run if that is accepted.
func (s *service) start(ctx context.Context, row retrytable.Row[string]) error {
	var t task
	stopped, first := false, false
	err := s.inTx(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if t, err = s.task(ctx, tx, row.ID); err != nil {
			return err
		}
		var d retry.Decision
		if d, stopped = t.Retry.policy(s.second).Exhausted(row.State, row.Now()); stopped {
			return s.decided(ctx, tx, t, row, d, d.Err)
		}
		if t.OnStart != nil {
			first, err = s.begin(ctx, tx, t)
		}
		return err
	})
	if err != nil || stopped {
		return err
	}
	var refused error
	if first {
		refused = s.call(ctx, t.OnStart, key(t.ID, "start", success, t.Attempt), t)
	}
	return ignoreLost(s.inTx(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if refused != nil {
			err = s.fail(ctx, tx, t, row, &failure{webhookFailure, refused.Error()})
		} else {
			err = s.run(ctx, tx, t, row)
		}
		if err == nil && first {
			err = s.end(ctx, tx, t, refused)
		}
		return err
	}))
}

// run makes a claimed task a running one, whose lease is its timeout. Whoever
// does the work may have been quicker and ended it: the lease is lost then.
func (s *service) run(ctx context.Context, tx *sql.Tx, t task, row retrytable.Row[string]) error {
	if err := s.tasks.Extend(ctx, tx, row.Lease, s.timeoutOf(t)); err != nil {
		return err
	}
	s.tell(ctx, t, running, t.Attempt)
	_, err := s.update(ctx, tx, `UPDATE task SET status = 'running', started_at = {now}, last_updated = {now}
		WHERE id = $1 RETURNING id`, t.ID)
	return err
}

// fail ends an attempt. The policy decides what that means.
func (s *service) fail(ctx context.Context, tx *sql.Tx, t task, row retrytable.Row[string], err error) error {
	return s.decided(ctx, tx, t, row, t.Retry.policy(s.second).Next(row.State, err, row.Now()), err)
}

// decided stores a decision. It is the only way in which a task fails by itself,
// and so the only one by which a retry might be told to others: it is not.
func (s *service) decided(
	ctx context.Context, tx *sql.Tx, t task, row retrytable.Row[string], d retry.Decision, err error,
) error {
	attempt := t.Attempt
	if d.Retry {
		attempt++
	}
	if err := s.tasks.Fail(ctx, tx, row.Lease, d, err.Error()); err != nil {
		return err
	}
	if d.Retry {
		s.tell(ctx, t, retryPending, attempt, "delay", d.Delay, "error", err)
		return nil
	}
	s.tell(ctx, t, failed, attempt, "stop", d.Stop, "error", err)
	if t.Retry != nil && d.Stop == retry.StopAttempts {
		retrysql.AfterCommit(ctx, func(context.Context) { s.counts.exhausted.Inc() })
	}
	return s.ended(ctx, tx, t.ID, failed)
}

// timeouts fails the tasks whose lease has run out, because they gave no sign of life:
// those that run, and those whose worker died while it called their on_start.
func (s *service) timeouts(ctx context.Context) (bool, error) {
	rows, err := s.tasks.Sweep(ctx, s.db, 100)
	for _, row := range rows {
		err = errors.Join(err, s.timeout(ctx, row))
	}
	return len(rows) > 0, err
}

// timeout fails one of them, unless word of it has come since.
func (s *service) timeout(ctx context.Context, row retrytable.Row[string]) error {
	return ignoreLost(s.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		t, err := s.task(ctx, tx, row.ID)
		if err != nil {
			return err
		}
		silent := &failure{timedOut, fmt.Sprintf("no word for %d s", t.Timeout)}
		if err := s.fail(ctx, tx, t, row, silent); err != nil || t.Status == running {
			return err
		}
		return s.end(ctx, tx, t, silent)
	}))
}

// retries is the retry loop's: what is due becomes pending.
func (s *service) retries(ctx context.Context) (more bool, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		ids, err := s.tasks.Promote(ctx, tx, 100)
		for _, id := range ids {
			t, readErr := s.task(ctx, tx, id)
			err = errors.Join(err, readErr)
			s.tell(ctx, t, pending, t.Attempt)
			retrysql.AfterCommit(ctx, func(context.Context) { s.counts.retries.WithLabelValues(strconv.Itoa(t.Attempt)).Inc() })
		}
		more = len(ids) > 0
		return err
	})
	return more, err
}

// patch is what whoever does the work says about it.
type patch struct {
	Status        string `json:"status"` // Success, Failure, or nothing yet
	FailureReason string `json:"failure_reason"`
	NewSuccess    int64  `json:"new_success"` // to be added
	NewFailures   int64  `json:"new_failures"`
	Attempt       *int   `json:"attempt"` // if it is there, the patch is for no other
}

// apply patches a task that runs. Any patch is a sign of life.
func (s *service) apply(ctx context.Context, id string, p patch) (t task, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if t, err = s.task(ctx, tx, id); err != nil {
			return err
		}
		switch {
		case t.Status != running && t.Status != claimed:
			return conflict(t, "must be Claimed or Running")
		case p.Attempt != nil && *p.Attempt != t.Attempt:
			return &problem{http.StatusConflict, fmt.Sprintf("attempt: %d: the task is at attempt %d", *p.Attempt, t.Attempt)}
		}
		if _, err := s.update(ctx, tx, `UPDATE task SET success = success + $2, failures = failures + $3, last_updated = {now}
			WHERE id = $1 RETURNING id`, id, p.NewSuccess, p.NewFailures); err != nil {
			return err
		}
		if t.Status == claimed { // whoever says so was called
			if err := s.end(ctx, tx, t, nil); err != nil {
				return err
			}
		}
		// Its lease is that of the claim. The caller need not know the fence.
		row := retrytable.Row[string]{
			Lease: retrytable.Lease[string]{ID: id, Fence: t.fence}, Claimed: t.now.Time, State: retry.State{Failures: t.attempts - 1},
		}
		switch status(p.Status) {
		case success:
			if err = s.tasks.Succeed(ctx, tx, row.Lease); err == nil {
				s.tell(ctx, t, success, t.Attempt)
				err = s.ended(ctx, tx, id, success)
			}
		case failed:
			err = s.fail(ctx, tx, t, row, &failure{explicit, p.FailureReason})
		default:
			err = s.tasks.Extend(ctx, tx, row.Lease, s.timeoutOf(t))
		}
		if err != nil {
			return err
		}
		t, err = s.task(ctx, tx, id)
		return err
	})
	if errors.Is(err, retrytable.ErrLeaseLost) {
		err = conflict(t, "changed meanwhile")
	}
	return t, err
}

// ended is for a task that has reached its end: its webhook is to be called, and
// the tasks that depend on it may start, or never will.
func (s *service) ended(ctx context.Context, tx *sql.Tx, id string, end status) error {
	if err := s.enqueue(ctx, tx, id, end); err != nil {
		return err
	}
	if end == success {
		_, err := s.update(ctx, tx, `UPDATE task SET waiting_for = waiting_for - 1, last_updated = {now},
			status = CASE WHEN waiting_for = 1 AND status = 'waiting' THEN 'pending' ELSE status END
			WHERE id IN (SELECT child_id FROM task_link WHERE parent_id = $1) RETURNING id`, id)
		return err
	}
	below, err := s.update(ctx, tx, `WITH RECURSIVE below(id) AS (
			SELECT child_id FROM task_link WHERE parent_id = $1
			UNION SELECT child_id FROM task_link JOIN below ON parent_id = below.id)
		UPDATE task SET status = $2, failure_reason = $3, ended_at = {now}, last_updated = {now}
		WHERE id IN (SELECT id FROM below) AND status IN ('waiting', 'paused') RETURNING id`,
		id, string(end), "dependency "+id+": "+end.String())
	for _, id := range below {
		t, readErr := s.task(ctx, tx, id)
		s.tell(ctx, t, end, t.Attempt)
		err = errors.Join(err, readErr, s.enqueue(ctx, tx, id, end))
	}
	return err
}

// tell logs what became of a task once it is true.
func (s *service) tell(ctx context.Context, t task, now status, attempt int, more ...any) {
	retrysql.AfterCommit(ctx, func(context.Context) {
		s.log.Info(t.Name, append([]any{"status", now.String(), "attempt", attempt}, more...)...)
	})
}

// ignoreLost is for what came too late: the task was canceled or ended meanwhile.
func ignoreLost(err error) error {
	if errors.Is(err, retrytable.ErrLeaseLost) {
		return nil
	}
	return err
}

func conflict(t task, problemText string) error {
	return &problem{http.StatusConflict, fmt.Sprintf("task %s: status %v: %s", t.ID, t.Status, problemText)}
}
