package main

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
)

// cancellation ends tasks for good, whatever they were about to do; which ones is to
// be added.
const cancellation = `UPDATE task SET status = 'canceled', next_retry_at = NULL, lease_until = NULL,
	ended_at = {now}, last_updated = {now} WHERE status IN ` + alive + ` AND `

// commands are what users may want of a task with an ID.
var commands = map[string]string{
	"cancel": cancellation + "id = $1 RETURNING id",
	"pause": `UPDATE task SET status = 'paused', last_updated = {now}
		WHERE id = $1 AND status IN ('waiting', 'pending', 'retry_pending') RETURNING id`, // its next_retry_at stays
	"unpause": `UPDATE task SET last_updated = {now}, status = CASE
			WHEN next_retry_at IS NOT NULL THEN 'retry_pending' WHEN ` + blocked + ` THEN 'waiting' ELSE 'pending' END
		WHERE id = $1 AND status = 'paused' RETURNING id`, // to where it was
}

// command executes one of [commands], if the status of the task allows that.
func (s *service) command(ctx context.Context, id, name string) (task, error) {
	return s.change(ctx, id, func(ctx context.Context, tx *sql.Tx, t task) error {
		done, err := s.update(ctx, tx, commands[name], id)
		if err != nil {
			return err
		}
		if len(done) == 0 {
			return conflict(t, "does not allow that")
		}
		if t, err = s.task(ctx, tx, id); err != nil {
			return err
		}
		s.tell(ctx, t)
		if t.Status == canceled {
			return s.ended(ctx, tx, t)
		}
		return nil
	})
}

// stopBatch cancels what is not at its end, what waits for its retry included.
func (s *service) stopBatch(ctx context.Context, batch string) (ids []string, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		ids, err = s.update(ctx, tx, cancellation+"batch_id = $1 RETURNING id", batch)
		for _, id := range ids {
			t, readErr := s.task(ctx, tx, id)
			s.tell(ctx, t)
			err = errors.Join(err, readErr)
		}
		if err != nil || len(ids) > 0 {
			return err
		}
		exists, err := s.update(ctx, tx, "SELECT id FROM task WHERE batch_id = $1 LIMIT 1", batch)
		if err == nil && len(exists) == 0 {
			err = &problem{http.StatusNotFound, "batch " + batch + ": not found"}
		}
		return err
	})
	return ids, err
}
