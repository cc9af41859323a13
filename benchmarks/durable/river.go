package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

type riverArgs struct{ N int64 }

// Kind implements [river.JobArgs].
func (riverArgs) Kind() string { return "durable" }

// atOnce is a policy of River's kind. An instant that is over by the time that River
// compares it would be taken for a mistake.
type atOnce struct{}

// NextRetry implements [river.ClientRetryPolicy].
func (atOnce) NextRetry(*rivertype.JobRow) time.Time { return time.Now().Add(time.Millisecond) }

// riverClient is River with the shortest pause between two claims that it takes, and what
// it has to say of jobs that are done.
type riverClient struct {
	*river.Client[pgx.Tx]

	done <-chan *river.Event
	end  func()
}

// newRiver makes the tables of River in a bed, and a client of theirs that has not begun.
func newRiver(ctx context.Context, b *bed, t task) (*riverClient, error) {
	pool, err := pgxpool.New(ctx, b.dsn+"&pool_max_conns=20")
	if err != nil {
		return nil, err
	}
	driver, quiet := riverpgxv5.New(pool), slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	config := &river.Config{
		Logger: quiet, Workers: river.NewWorkers(), RetryPolicy: atOnce{},
		FetchCooldown: river.FetchCooldownMin, FetchPollInterval: 2 * time.Millisecond,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: t.places}},
	}
	river.AddWorker(config.Workers, river.WorkFunc(func(_ context.Context, job *river.Job[riverArgs]) error {
		if t.began != nil {
			t.began(job.Args.N)
		}
		if t.fails(job.Args.N, job.Attempt) {
			return errJob
		}
		return nil
	}))
	client, err := river.NewClient(driver, config)
	if err != nil {
		return nil, err
	}
	done, end := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: t.jobs + 1, Kinds: []river.EventKind{river.EventKindJobCompleted},
	})
	return &riverClient{client, done, func() { end(); pool.Close() }}, nil
}

// await waits for the end of so many jobs.
func (c *riverClient) await(ctx context.Context, jobs int) error {
	for range jobs {
		select {
		case <-c.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func onRiver(ctx context.Context, b *bed, t task) (time.Duration, error) {
	client, err := newRiver(ctx, b, t)
	if err != nil {
		return 0, err
	}
	defer client.end()
	const some = 5000
	for at := 0; at < t.jobs; at += some {
		var all []river.InsertManyParams
		for n := at; n < min(at+some, t.jobs); n++ {
			all = append(all, river.InsertManyParams{Args: riverArgs{int64(n + 1)}})
		}
		if _, err := client.InsertManyFast(ctx, all); err != nil {
			return 0, err
		}
	}
	if err := b.exec(ctx, "VACUUM ANALYZE river_job", "CHECKPOINT"); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := client.Start(ctx); err != nil {
		return 0, err
	}
	err = client.await(ctx, t.jobs)
	took := time.Since(start)
	return took, errors.Join(err, client.StopAndCancel(ctx))
}

// riverOneByOne is [oneByOne] on River, which is told of an insertion by PostgreSQL.
func riverOneByOne(ctx context.Context, jobs int) (all []time.Duration, err error) {
	_, err = onPostgres(func(ctx context.Context, b *bed, t task) (time.Duration, error) {
		client, err := newRiver(ctx, b, t)
		if err != nil {
			return 0, err
		}
		defer client.end()
		if err := client.Start(ctx); err != nil {
			return 0, err
		}
		for range jobs {
			start := time.Now()
			if _, err := client.Insert(ctx, riverArgs{}, nil); err != nil {
				return 0, err
			}
			if err := client.await(ctx, 1); err != nil {
				return 0, err
			}
			all = append(all, time.Since(start))
			time.Sleep(pause)
		}
		return 0, client.StopAndCancel(ctx)
	})(ctx, task{places: 16})
	return all, err
}
