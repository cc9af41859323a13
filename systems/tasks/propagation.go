package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/seed-5ff3c98e/retry/retrytable"
)

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
	if s.db.Dialect == retrytable.PostgreSQL {
		if _, err := s.update(ctx, tx, "SELECT id FROM task WHERE "+children+" ORDER BY id FOR UPDATE", id); err != nil {
			return err
		}
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
