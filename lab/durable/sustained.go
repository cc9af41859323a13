package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"

	"github.com/seed-5ff3c98e/retry/retrytable"
)

// sustained prints how many jobs are done in each minute, while new ones come as quickly as
// they are done.
func sustained(ctx context.Context, out io.Writer, minutes int) error {
	for _, c := range []struct {
		name string
		run  measured
	}{
		{"Worker", func(ctx context.Context, b *bed, _ task) (time.Duration, error) {
			return 0, sustainWorker(ctx, b, out, minutes)
		}},
		{"River", func(ctx context.Context, b *bed, t task) (time.Duration, error) {
			return 0, sustainRiver(ctx, b, t, out, minutes)
		}},
	} {
		if _, err := onPostgres(c.run)(ctx, task{places: 100}); err != nil {
			return fmt.Errorf("%s, sustained: %w", c.name, err)
		}
	}
	return nil
}

// vacuums returns an error if PostgreSQL does not vacuum by itself: what becomes of the speed
// in minutes would then say nothing about the servers that people have.
func vacuums(ctx context.Context) error {
	db, err := sql.Open("pgx", postgresDSN())
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	var on string
	if err := db.QueryRowContext(ctx, "SHOW autovacuum").Scan(&on); err != nil {
		return err
	}
	if on != "on" {
		return fmt.Errorf("PostgreSQL: autovacuum is %s: must be on, or -minutes 0", on)
	}
	return nil
}

// feed keeps about 20,000 jobs waiting, and prints how many were done in each minute.
func feed(ctx context.Context, out io.Writer, by string, minutes int, done *atomic.Int64, insert func(n int) error) error {
	const waiting, some = 20_000, 5_000
	inserted, before := int64(0), int64(0)
	for minute := range minutes {
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			if inserted-done.Load() > waiting-some {
				select {
				case <-time.After(10 * time.Millisecond):
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				continue
			}
			if err := insert(some); err != nil {
				return err
			}
			inserted += some
		}
		now := done.Load()
		report(out, fmt.Sprintf("Sustained/minute=%d", minute+1), by, "%.0f sustained-jobs/s", float64(now-before)/60)
		before = now
	}
	return nil
}

func sustainWorker(ctx context.Context, b *bed, out io.Writer, minutes int) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var done atomic.Int64
	w := &retrytable.Worker[int64]{
		Table: b.table, DB: b.db, Policy: policy, Concurrency: 100,
		Work:  func(context.Context, *retrytable.Job[int64]) error { return nil },
		After: func(context.Context, *retrytable.Outcome[int64]) { done.Add(1) },
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	err := feed(ctx, out, "Worker", minutes, &done, func(n int) error {
		return b.exec(ctx, fmt.Sprintf("INSERT INTO jobs (attempts) SELECT 0 FROM generate_series(1, %d)", n))
	})
	stop()
	if failed := <-ended; !errors.Is(failed, context.Canceled) {
		err = errors.Join(err, failed)
	}
	return err
}

func sustainRiver(ctx context.Context, b *bed, t task, out io.Writer, minutes int) error {
	t.jobs = 100_000 // so many events may wait
	client, err := newRiver(ctx, b, t)
	if err != nil {
		return err
	}
	defer client.end()
	if err := client.Start(ctx); err != nil {
		return err
	}
	var done atomic.Int64
	go func() {
		for range client.done {
			done.Add(1)
		}
	}()
	err = feed(ctx, out, "River", minutes, &done, func(n int) error {
		all := make([]river.InsertManyParams, n)
		for i := range all {
			all[i].Args = riverArgs{}
		}
		_, err := client.InsertManyFast(ctx, all)
		return err
	})
	return errors.Join(err, client.StopAndCancel(ctx))
}
