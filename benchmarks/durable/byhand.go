package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

const (
	claimSome = `WITH picked AS MATERIALIZED (SELECT id FROM jobs WHERE status = 'ready' ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED)
		UPDATE jobs SET status = 'running' FROM picked WHERE jobs.id = picked.id RETURNING jobs.id`
	finishSome = `UPDATE jobs SET status = 'done' WHERE id = ANY($1)`
)

// inOnes is a loop for each place that claims a job and ends it, as it is written by hand.
func inOnes(ctx context.Context, b *bed, t task) (time.Duration, error) {
	return byHand(ctx, b, t, t.places, 1)
}

// inHundreds is the quickest loop by hand: nobody else gets its jobs, so if it fails,
// those that it has done are done again.
func inHundreds(ctx context.Context, b *bed, t task) (time.Duration, error) {
	return byHand(ctx, b, t, 4, 100)
}

func byHand(ctx context.Context, b *bed, t task, loops, some int) (time.Duration, error) {
	config, err := pgxpool.ParseConfig(b.dsn)
	if err != nil {
		return 0, err
	}
	config.MaxConns = int32(min(loops, 50)) //nolint:gosec // no more than 50
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, "CREATE INDEX ON jobs (due_at) WHERE status = 'ready'"); err != nil {
		return 0, err
	}
	var left atomic.Int64
	left.Store(int64(t.jobs))
	start := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for range loops {
		group.Go(func() error {
			for left.Load() > 0 {
				rows, err := pool.Query(ctx, claimSome, some)
				if err != nil {
					return err
				}
				ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
				if err != nil {
					return err
				}
				if len(ids) == 0 {
					time.Sleep(time.Millisecond)
					continue
				}
				if _, err := pool.Exec(ctx, finishSome, ids); err != nil {
					return err
				}
				left.Add(-int64(len(ids)))
			}
			return nil
		})
	}
	err = group.Wait()
	return time.Since(start), err
}
