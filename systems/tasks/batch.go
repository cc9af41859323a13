package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"
)

// validateBatch reports everything that is wrong with a batch.
func (s *service) validateBatch(batch []newTask) error {
	var errs []error
	if len(batch) == 0 {
		errs = append(errs, errors.New("tasks: 0: must be at least 1"))
	}
	known := map[string]*newTask{}
	for i := range batch {
		t := &batch[i]
		fail := func(field string, err error) {
			if err != nil {
				errs = append(errs, fmt.Errorf("task %q: %s%w", t.ID, field, err))
			}
		}
		if t.ID == "" || known[t.ID] != nil {
			fail("id: ", errors.New("must be there and unique"))
		}
		known[t.ID] = t
		if t.Timeout < 0 {
			fail("", fmt.Errorf("timeout: %d: must not be negative", t.Timeout))
		}
		if t.MaxRunning < 0 {
			fail("", fmt.Errorf("max_concurrency: %d: must not be negative", t.MaxRunning))
		}
		if len(t.Retry) > 0 {
			var err error
			t.policy, err = newPolicy(t.Retry, s.limits)
			fail("retry: ", err)
		}
		fail("on_start: ", t.OnStart.validate())
		fail("on_success: ", t.OnSuccess.validate())
		fail("on_failure: ", t.OnFailure.validate())
	}
	if err := acyclic(batch, known); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// acyclic follows the dependencies.
func acyclic(batch []newTask, known map[string]*newTask) error {
	const entered, left = 1, 2
	state := map[string]int{}
	var visit func(id, from string) error
	visit = func(id, from string) error {
		switch t := known[id]; {
		case t == nil:
			return fmt.Errorf("task %q: dependencies: %q: there is no such task", from, id)
		case state[id] == entered:
			return fmt.Errorf("task %q: dependencies: %q: must not depend on itself", from, id)
		case state[id] == 0:
			state[id] = entered
			for _, parent := range t.Dependencies {
				if err := visit(parent, id); err != nil {
					return err
				}
			}
			state[id] = left
		}
		return nil
	}
	for _, t := range batch {
		if err := visit(t.ID, ""); err != nil {
			return err
		}
	}
	return nil
}

// create stores a batch.
func (s *service) create(ctx context.Context, batch []newTask) (created []task, err error) {
	if err := s.validateBatch(batch); err != nil {
		return nil, &problem{http.StatusBadRequest, err.Error()}
	}
	batchID, ids := uuid.NewString(), map[string]string{}
	for _, t := range batch {
		ids[t.ID] = uuid.NewString()
	}
	err = s.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		created = nil
		for i, t := range batch {
			if err := s.insert(ctx, tx, batchID, i, t, ids); err != nil {
				return err
			}
			stored, err := s.task(ctx, tx, ids[t.ID])
			if err != nil {
				return err
			}
			created = append(created, stored)
		}
		return nil
	})
	return created, err
}

// insert stores a task, if an earlier try of the transaction has not.
func (s *service) insert(
	ctx context.Context, tx *sql.Tx, batchID string, position int, t newTask, ids map[string]string,
) error {
	first, timeout := pending, t.Timeout
	if len(t.Dependencies) > 0 {
		first = waiting
	}
	if timeout == 0 {
		timeout = 60
	}
	if _, err := tx.ExecContext(ctx, s.db.SQL(`INSERT INTO task (id, batch_id, position, local_id, name, kind, timeout,
			max_concurrency, status, on_start, on_success, on_failure, retry_policy, created_at, last_updated)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, {now}, {now}) ON CONFLICT DO NOTHING`),
		ids[t.ID], batchID, position, t.ID, t.Name, t.Kind, timeout, t.MaxRunning, string(first),
		column{t.OnStart}, column{t.OnSuccess}, column{t.OnFailure}, column{t.policy}); err != nil {
		return err
	}
	for _, parent := range t.Dependencies {
		const link = "INSERT INTO task_link VALUES ($1, $2) ON CONFLICT DO NOTHING"
		if _, err := tx.ExecContext(ctx, link, ids[parent], ids[t.ID]); err != nil {
			return err
		}
	}
	return nil
}
