package main

import (
	"context"
	"database/sql"
	"net/http"

	"github.com/seed-5ff3c98e/retry/retrytable"
)

// cancellation ends tasks for good, whatever they were about to do; which ones is to
// be added.
const cancellation = `UPDATE task SET status = 'canceled', next_retry_at = NULL, lease_until = NULL,
	ended_at = {now}, last_updated = {now} WHERE status IN ` + alive + ` AND `

// commands are what users may want of a task with an ID, besides retry.
var commands = map[string]string{
	"cancel": cancellation + "id = $1" + returning,
	"pause": `UPDATE task SET status = 'paused', last_updated = {now}
		WHERE id = $1 AND status IN ('waiting', 'pending', 'retry_pending')` + returning, // its next_retry_at stays
	"unpause": `UPDATE task SET last_updated = {now}, status = CASE
			WHEN next_retry_at IS NOT NULL THEN 'retry_pending' WHEN ` + blocked + ` THEN 'waiting' ELSE 'pending' END
		WHERE id = $1 AND status = 'paused'` + returning, // to where it was
}

// retry has a task that has failed for good attempted once more, under a new key of its webhooks. What
// it depends on must have succeeded.
func (s *service) retry(ctx context.Context, id string) (task, error) {
	return s.change(ctx, id, func(ctx context.Context, tx *sql.Tx, t task) error {
		n, err := s.starts.TryAgain(ctx, tx, retrytable.Jobs[string]{IDs: []string{id}, Where: "NOT " + blocked}, retrytable.Again{
			KeepCounts: true, Set: s.db.SQL("attempt = attempt + 1, ended_at = NULL, last_updated = {now}"),
		})
		if err == nil && n == 0 {
			err = conflict(t, "must be Failure, and what it depends on must be Success")
		}
		return err
	})
}

// command executes one of [commands], if the status of the task allows that.
func (s *service) command(ctx context.Context, id, name string) (task, error) {
	return s.change(ctx, id, func(ctx context.Context, tx *sql.Tx, t task) error {
		done, err := s.tasks(ctx, tx, commands[name], id)
		switch {
		case err != nil:
			return err
		case len(done) == 0:
			return conflict(t, "does not allow that")
		}
		s.tell(ctx, done[0])
		if done[0].Status == canceled {
			return s.ended(ctx, tx, done[0])
		}
		return nil
	})
}

// stopBatch cancels what is not at its end, what waits for its retry included.
func (s *service) stopBatch(ctx context.Context, batch string) (stopped []task, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		stopped, err = s.tasks(ctx, tx, cancellation+"batch_id = $1"+returning, batch)
		for _, t := range stopped {
			s.tell(ctx, t)
		}
		if err != nil || len(stopped) > 0 {
			return err
		}
		exists, err := s.update(ctx, tx, "SELECT id FROM task WHERE batch_id = $1 LIMIT 1", batch)
		if err == nil && len(exists) == 0 {
			err = &problem{http.StatusNotFound, "batch " + batch + ": not found"}
		}
		return err
	})
	return stopped, err
}
