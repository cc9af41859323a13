package main

import (
	"context"
	"database/sql"
	"sync"

	"github.com/seed-5ff3c98e/retry/examples/shared"
)

// speed is the factor by which a demonstration is faster than its settings: 5
// minutes take 300 ms.
const speed = 1000

// demonstrate lets three instances of the daemon and a validator work on the same
// partitions until there is nothing left to retry. A dry run is a single sweep.
func (d *daemon) demonstrate(ctx context.Context) error {
	if err := seed(ctx, d.db); err != nil {
		return err
	}
	if d.dryRun {
		_, longest := d.policy.Bounds(1)
		if err := shared.Wait(ctx, longest); err != nil {
			return err
		}
		_, err := d.sweep(ctx, selection{})
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var daemons sync.WaitGroup
	defer daemons.Wait()
	defer stop()
	for instance := range 3 {
		db, err := shared.Open(ctx, d.db.DSN)
		if err != nil {
			return err
		}
		other := &daemon{db: db, policy: d.policy, interval: d.interval, log: d.log.With("instance", instance+1)}
		daemons.Go(func() {
			_ = other.serve(ctx) // ends with the context
			_ = db.Close()
		})
	}
	return d.validate(ctx)
}

// seed makes partitions that have just failed.
func seed(ctx context.Context, db *shared.DB) error {
	_, err := db.ExecContext(ctx, db.SQL(`
		INSERT INTO partition_state (customer, query, day, status, attempt_count, run_id, error_message, updated_at) VALUES
			('acme', 'campaigns', '2026-11-18', 'failed', 1, 'run-1', 'quota exceeded', {now}),
			('acme', 'campaigns', '2026-11-19', 'failed', 1, 'run-2', 'quota exceeded', {now}),
			('acme', 'keywords', '2026-11-19', 'failed', 2, 'run-3', 'row count differs', {now}),
			('zeta', 'campaigns', '2026-11-19', 'failed', 3, 'run-4', 'row count differs', {now}),
			('zeta', 'keywords', '2026-11-19', 'failed', 1, 'run-5', '[terminal] no such column', {now})`))
	return err
}

// validate plays the validator: it runs the pending partitions and stores their
// results. Every partition succeeds after its third failure.
func (d *daemon) validate(ctx context.Context) error {
	for left := 1; left > 0; {
		if err := shared.Wait(ctx, d.interval); err != nil {
			return err
		}
		if err := d.runPending(ctx); err != nil {
			return err
		}
		err := d.db.QueryRowContext(ctx, `SELECT count(*) FROM partition_state
			WHERE status = 'pending' OR status = 'failed' AND `+notTerminal).Scan(&left)
		if err != nil {
			return err
		}
	}
	d.log.Info("done: nothing is left to retry but what is terminal")
	return nil
}

// result is a result of the validator.
type result struct {
	partition

	status string
}

func (d *daemon) runPending(ctx context.Context) error {
	ran, err := shared.Query(ctx, d.db, func(rows *sql.Rows) (r result, err error) {
		err = rows.Scan(&r.customer, &r.query, &r.day, &r.attempts, &r.status)
		return r, err
	}, d.db.SQL(`
		UPDATE partition_state SET updated_at = {now},
			status = CASE WHEN attempt_count < 3 THEN 'failed' ELSE 'success' END,
			attempt_count = CASE WHEN attempt_count < 3 THEN attempt_count + 1 ELSE attempt_count END
		WHERE status = 'pending' RETURNING customer, query, day, attempt_count, status`))
	for _, r := range ran {
		d.log.Info("validator", "partition", r.key(), "attempt_count", r.attempts, "status", r.status)
	}
	return err
}
