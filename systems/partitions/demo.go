package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"io"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry/systems/shared"
)

// speed is the factor by which a demonstration is faster than its settings: 5
// minutes take 300 ms.
const speed = 1000

func demo(flags *flag.FlagSet) shared.Action {
	open := shared.Sandbox(flags)
	settings := policyFlags(flags, speed)
	interval := flags.Duration("interval", time.Minute, "the pause between sweeps")
	return func(ctx context.Context, out io.Writer) error {
		d, err := settings(out)
		if err != nil {
			return err
		}
		d.interval = shared.Faster(*interval, speed)
		if d.db, err = open(ctx); err != nil {
			return err
		}
		d.log.Info("partitions", "policy", d.policy)
		return errors.Join(d.demonstrate(ctx), d.db.Close())
	}
}

// demonstrate lets three instances of the daemon and a validator work on the same
// partitions until there is nothing left to retry.
func (d *daemon) demonstrate(ctx context.Context) error {
	if err := seed(ctx, d.db); err != nil {
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

// create makes a table, which a user has already.
func create(ctx context.Context, db *shared.DB) error {
	_, err := db.ExecContext(ctx, db.SQL("CREATE TABLE partition_state ("+definitions()+
		", run_id text, PRIMARY KEY (customer, query, partition_key))"))
	return err
}

// seed makes partitions that have just failed.
func seed(ctx context.Context, db *shared.DB) error {
	if err := create(ctx, db); err != nil {
		return err
	}
	_, err := db.ExecContext(ctx, db.SQL(`
		INSERT INTO partition_state (customer, query, partition_key, status, attempt_count, run_id, error_message, updated_at) VALUES
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

// runPending logs the partitions as they are after their run.
func (d *daemon) runPending(ctx context.Context) error {
	_, err := shared.Query(ctx, d.db, func(rows *sql.Rows) (p partition, err error) {
		var status string
		err = rows.Scan(&p.customer, &p.query, &p.key, &p.attempts, &status)
		d.log.Info("validator", "partition", p.name(), "attempt_count", p.attempts, "status", status)
		return p, err
	}, d.db.SQL(`
		UPDATE partition_state SET updated_at = {now},
			status = CASE WHEN attempt_count < 3 THEN 'failed' ELSE 'success' END,
			attempt_count = CASE WHEN attempt_count < 3 THEN attempt_count + 1 ELSE attempt_count END
		WHERE status = 'pending' RETURNING customer, query, partition_key, attempt_count, status`))
	return err
}
