package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
)

// mostFaults is how many faults of a batch are told. Each quotes what was sent.
const mostFaults = 20

// validateBatch reports what is wrong with a batch.
func (s *service) validateBatch(batch []newTask) error {
	if len(batch) == 0 {
		return errors.New("tasks: 0: must be at least 1")
	}
	var errs []error
	fail := func(t *newTask, field string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("task %.60q: %s%w", t.ID, field, err))
		}
	}
	var ids []string
	needs := map[string][]string{}
	for i := range batch {
		t := &batch[i]
		if _, known := needs[t.ID]; known || t.ID == "" {
			fail(t, "id: ", errors.New("must be there and unique"))
		}
		ids = append(ids, t.ID)
		needs[t.ID] = t.Dependencies
		fail(t, "", shared.Must(t.Timeout >= 0, "timeout", t.Timeout, "not be negative"))
		fail(t, "", shared.Must(t.MaxRunning >= 0, "max_concurrency", t.MaxRunning, "not be negative"))
		var err error
		t.policy, err = newPolicy(t.Retry, s.limits)
		fail(t, "retry: ", err)
		fail(t, "on_start: ", t.OnStart.validate())
		fail(t, "on_success: ", t.OnSuccess.validate())
		fail(t, "on_failure: ", t.OnFailure.validate())
	}
	for i := range batch {
		for _, parent := range batch[i].Dependencies {
			if _, known := needs[parent]; !known {
				fail(&batch[i], "dependencies: ", fmt.Errorf("%.60q: there is no such task", parent))
			}
		}
	}
	if _, cycle := shared.Order(ids, needs); cycle != nil {
		errs = slices.Insert(errs, 0, fmt.Errorf("dependencies: there is a cycle: %.1000s", strings.Join(cycle, " needs ")))
	}
	if more := len(errs) - mostFaults; more > 0 {
		errs = append(errs[:mostFaults], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
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
		for i, t := range batch {
			if err := s.insert(ctx, tx, batchID, i, t, ids); err != nil {
				return err
			}
		}
		created, err = s.tasks(ctx, tx, "SELECT "+taskColumns+" FROM task WHERE batch_id = $1 ORDER BY position", batchID)
		return err
	})
	return created, err
}

// insert stores a task, if an earlier try of the transaction has not.
func (s *service) insert(
	ctx context.Context, tx *sql.Tx, batchID string, position int, t newTask, ids map[string]string,
) error {
	first := pending
	if len(t.Dependencies) > 0 {
		first = waiting
	}
	if _, err := tx.ExecContext(ctx, s.db.SQL(`INSERT INTO task (id, batch_id, position, local_id, name, kind, timeout,
			max_concurrency, status, on_start, on_success, on_failure, retry_policy, created_at, last_updated)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, {now}, {now}) ON CONFLICT DO NOTHING`),
		ids[t.ID], batchID, position, t.ID, t.Name, t.Kind, cmp.Or(t.Timeout, 60), t.MaxRunning, string(first),
		shared.JSON{In: t.OnStart}, shared.JSON{In: t.OnSuccess}, shared.JSON{In: t.OnFailure}, shared.JSON{In: t.policy}); err != nil {
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
