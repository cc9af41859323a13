package main

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retrysql"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// starter is the start loop: it claims tasks whose turn it is, calls their on_start, and
// has them run if that is accepted. What has happened is stored as soon as the database
// answers, within the lease.
func (s *service) starter() *retrytable.Worker[string] {
	w := s.worker(s.starts, &failure{trigger: lost, reason: "whoever called its on_start has died, or was cut off from the database"})
	w.Work, w.Turn, w.Concurrency = s.start, s.turn, callsAtOnce
	return w
}

// worker is a worker on tasks, each of which brings its policy.
func (s *service) worker(table *retrytable.Table[string], lost error) *retrytable.Worker[string] {
	return &retrytable.Worker[string]{
		Table: table, DB: s.db.DB, Poll: s.poll, Grace: 2 * s.hookTime, Lost: lost,
		Work:   func(context.Context, *retrytable.Job[string]) error { return nil },
		Policy: (*retryPolicy)(nil).policy(),
		PolicyFor: func(stored string) (*retry.Policy, error) {
			var p *retryPolicy
			err := json.Unmarshal([]byte(cmp.Or(stored, "null")), &p)
			return p.policy(), err
		},
		InTx:    s.outcome,
		OnError: shared.Failed(s.log, "worker", slog.LevelDebug),
	}
}

// turn has the claims of all services take turns: at once, they would not see each other
// among the tasks that run.
func (s *service) turn(ctx context.Context, db retrytable.DB) error {
	if s.db.Dialect == retrytable.SQLite {
		return nil
	}
	_, err := db.ExecContext(ctx, "SELECT pg_advisory_xact_lock(hashtext(current_schema() || '.task'))")
	return err
}

// start calls the on_start of a task.
func (s *service) start(ctx context.Context, job *retrytable.Job[string]) error {
	t, err := s.task(ctx, s.db, job.ID)
	if err = cmp.Or(err, t.unread); err == nil && t.OnStart == nil {
		return nil
	}
	called, keyErr := s.startKey(ctx, s.db, job.ID, t.Attempt)
	if err = cmp.Or(err, keyErr); err != nil {
		return retryjob.MarkNotStarted(err) // nobody was called
	}
	if err := s.call(ctx, t.OnStart, called, t); err != nil {
		return &failure{webhookFailure, err.Error(), new(retry.Policy).Next(retry.State{}, err, time.Time{}).Verdict.After}
	}
	return nil
}

// outcome writes what a start, a refusal, a lost starter or a timeout means, with it.
func (s *service) outcome(ctx context.Context, tx *sql.Tx, o *retrytable.Outcome[string]) error {
	t, err := s.task(ctx, tx, o.Job.ID)
	switch {
	case err != nil:
		return err
	case t.Status == running:
		s.tell(ctx, t)
		return s.record(ctx, tx, t, t.Attempt, nil)
	}
	if f, ok := errors.AsType[*failure](o.Err); ok && f.trigger != timedOut {
		before := t.Attempt
		if o.Decision.Retry {
			before--
		}
		err = s.record(ctx, tx, t, before, f)
	}
	return errors.Join(err, s.decided(ctx, tx, t, o.Decision))
}

// decided is what follows from a decision, which is stored. It is the only way in which a
// task fails by itself, and so the only one by which a retry might be told to others: it
// is not.
func (s *service) decided(ctx context.Context, tx *sql.Tx, t task, d retry.Decision) error {
	if d.Retry {
		s.tell(ctx, t, "delay", d.Delay, "error", t.FailureReason)
		return nil
	}
	s.tell(ctx, t, "stop", d.Stop, "error", t.FailureReason)
	if t.Retry != nil && d.Stop == retry.StopAttempts {
		retrysql.AfterCommit(ctx, func(context.Context) { s.counts.exhausted.Inc() })
	}
	return s.ended(ctx, tx, t)
}

// timeout is the step of the timeout loop. A task that gave no sign of life for its timeout
// gets a lease that has run out, and so does one that a starter without leases has left:
// the workers make a failure of that. An outage of the database is no silence of the tasks.
func (s *service) timeout(ctx context.Context) (more bool, err error) {
	defer func() {
		if retrysql.Classify(err).Class == retry.Retryable {
			s.hears = time.Now().Add(soon)
		}
	}()
	within, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	if time.Now().Before(s.hears) {
		return false, s.db.PingContext(within)
	}
	if _, err := s.db.ExecContext(within, s.db.SQL(`UPDATE task SET lease_until = {now}
		WHERE status IN ('claimed', 'running') AND lease_until IS NULL AND last_updated + {microsecond} * CASE status
			WHEN 'running' THEN timeout * CAST($1 AS bigint) ELSE CAST($2 AS bigint) END <= {now}`),
		time.Second.Microseconds(), s.lease.Microseconds()); err != nil {
		return false, err
	}
	_, err = s.worker(s.timeouts, &failure{trigger: timedOut, reason: "no word in time"}).Once(ctx)
	return false, err
}

// soon is within how long whoever could not reach us tries again.
const soon = 5 * time.Second

// retries is the retry loop's: what is due becomes pending. What others have made pending
// is not due later.
func (s *service) retries(ctx context.Context) (more bool, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := s.update(ctx, tx, `UPDATE task SET next_retry_at = NULL
			WHERE status = 'pending' AND next_retry_at IS NOT NULL RETURNING id`); err != nil {
			return err
		}
		ids, err := s.starts.Promote(ctx, tx, 100)
		for _, id := range ids {
			t, readErr := s.task(ctx, tx, id)
			err = errors.Join(err, readErr)
			s.tell(ctx, t)
			retrysql.AfterCommit(ctx, func(context.Context) { s.counts.retries.WithLabelValues(strconv.Itoa(t.Attempt)).Inc() })
		}
		more = len(ids) > 0
		return err
	})
	return more, err
}

// patch is what whoever does the work says about it.
type patch struct {
	Status        status `json:"status"` // Success, Failure, or nothing yet
	FailureReason string `json:"failure_reason"`
	NewSuccess    int64  `json:"new_success"` // to be added
	NewFailures   int64  `json:"new_failures"`
	Attempt       *int   `json:"attempt"` // if it is there, the patch is for no other
}

// apply patches a task that runs. Any patch is a sign of life. By the new fence, nobody
// else fails a task that gave one. A patch that ends the task has a lease until report.
func (s *service) apply(ctx context.Context, id string, p patch) (task, error) {
	return s.change(ctx, id, func(ctx context.Context, tx *sql.Tx, t task) error {
		called, err := s.startKey(ctx, tx, id, t.Attempt)
		switch {
		case err != nil:
			return err
		case t.Status != running && t.Status != claimed:
			return conflict(t, "must be Claimed or Running")
		case p.Attempt != nil && *p.Attempt != t.Attempt && key(id, "start", success, *p.Attempt) != called:
			return &problem{http.StatusConflict, fmt.Sprintf("attempt: %d: the task is at attempt %d", *p.Attempt, t.Attempt)}
		}
		if _, err := s.update(ctx, tx, `UPDATE task SET success = success + $2, failures = failures + $3, last_updated = {now},
			started_at = CASE status WHEN 'claimed' THEN {now} ELSE started_at END,
			status = 'running', lease_until = CASE WHEN $4 THEN {now} END, fence = coalesce(fence, 0) + 1 WHERE id = $1 RETURNING id`,
			id, p.NewSuccess, p.NewFailures, p.Status != ""); err != nil {
			return err
		}
		if t.Status == claimed { // whoever says so was called
			if err := s.record(ctx, tx, t, t.Attempt, nil); err != nil {
				return err
			}
		}
		return s.report(ctx, tx, t, retrytable.Lease[string]{ID: id, Fence: t.fence + 1}, p)
	})
}

// report ends a task, if a patch says so.
func (s *service) report(ctx context.Context, tx *sql.Tx, t task, lease retrytable.Lease[string], p patch) error {
	switch p.Status {
	case success:
		if err := s.runs.Succeed(ctx, tx, lease); err != nil {
			return err
		}
		t.Status = success
		s.tell(ctx, t)
		return s.ended(ctx, tx, t)
	case failed:
		f := &failure{trigger: explicit, reason: p.FailureReason}
		d := t.Retry.policy().Next(retry.State{Failures: t.Attempt}, f, t.now.Time)
		if err := s.runs.Fail(ctx, tx, lease, d, f.Error()); err != nil {
			return err
		}
		t, err := s.task(ctx, tx, t.ID)
		return errors.Join(err, s.decided(ctx, tx, t, d))
	default:
		return nil
	}
}

func conflict(t task, problemText string) error {
	return &problem{http.StatusConflict, fmt.Sprintf("task %s: status %v: %s", t.ID, t.Status, problemText)}
}

// blocked is the condition of a task that depends on one that has not succeeded.
const blocked = `EXISTS (SELECT 1 FROM task_link JOIN task AS parent ON parent.id = parent_id
	WHERE child_id = task.id AND parent.status <> 'success')`

// ended is for a task that has reached its end: its webhook is to be called, the tasks that
// depend on it may start, or never will, and then the tasks that it depended on may be of no use.
func (s *service) ended(ctx context.Context, tx *sql.Tx, t task) error {
	if err := s.enqueue(ctx, tx, t); err != nil {
		return err
	}
	if t.Status == success {
		return s.release(ctx, tx, t.ID)
	}
	below, err := s.tasks(ctx, tx, `WITH RECURSIVE below(id) AS (
			SELECT child_id FROM task_link WHERE parent_id = $1
			UNION SELECT child_id FROM task_link JOIN below ON parent_id = below.id)
		UPDATE task SET status = $2, failure_reason = $3, ended_at = {now}, last_updated = {now}
		WHERE id IN (SELECT id FROM below) AND status IN ('waiting', 'paused')`+returning,
		t.ID, string(t.Status), fmt.Sprintf("dependency %.100s: %v", t.Name, t.Status))
	for _, child := range below {
		s.tell(ctx, child)
		err = errors.Join(err, s.enqueue(ctx, tx, child))
	}
	if err != nil {
		return err
	}
	return s.deadEnds(ctx, tx, t.ID)
}

// release lets the tasks start that depended on a task that has succeeded, and depend on no
// other. Locked, they see what the one has done that had the lock before.
func (s *service) release(ctx context.Context, tx *sql.Tx, id string) error {
	const children = "id IN (SELECT child_id FROM task_link WHERE parent_id = $1)"
	if _, err := s.update(ctx, tx, "SELECT id FROM task WHERE "+children+" ORDER BY id{lock}", id); err != nil {
		return err
	}
	_, err := s.update(ctx, tx, `UPDATE task SET status = 'pending', last_updated = {now}
		WHERE `+children+` AND status = 'waiting' AND NOT `+blocked+` RETURNING id`, id)
	return err
}

// deadEnds cancels the ancestors of a task that has failed or was canceled, if all tasks
// that depend on them have ended. What waits for its retry has not.
func (s *service) deadEnds(ctx context.Context, tx *sql.Tx, id string) error {
	ends, err := s.tasks(ctx, tx, `WITH RECURSIVE below(id) AS (SELECT id FROM task WHERE id = $1
			UNION SELECT child_id FROM task_link JOIN below ON parent_id = below.id)
		UPDATE task SET status = 'canceled', failure_reason = 'all tasks that depend on it have ended',
			next_retry_at = NULL, lease_until = NULL, ended_at = {now}, last_updated = {now}
		WHERE status IN `+alive+` AND id IN (SELECT parent_id FROM task_link WHERE child_id IN (SELECT id FROM below))
			AND NOT EXISTS (SELECT 1 FROM task_link JOIN task AS child ON child.id = child_id
				WHERE parent_id = task.id AND child.status IN `+alive+`)`+returning, id)
	for _, t := range ends {
		s.tell(ctx, t)
		err = errors.Join(err, s.ended(ctx, tx, t))
	}
	return err
}
