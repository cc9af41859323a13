package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
	"golang.org/x/sync/errgroup"
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

// onAsynq is asynq, with a queue of its own and the shortest pauses that it takes. It counts a
// job as done when its queue, in Redis, has none left.
func onAsynq(ctx context.Context, t task) (took time.Duration, err error) {
	redis := asynq.RedisClientOpt{Addr: cmp.Or(os.Getenv("RETRY_TEST_REDIS"), "127.0.0.1:6379")}
	queue := "durable_" + rand.Text()
	client, inspector := asynq.NewClient(redis), asynq.NewInspector(redis)
	defer func() { err = errors.Join(err, inspector.DeleteQueue(queue, true), client.Close(), inspector.Close()) }()
	for n := range t.jobs {
		job := asynq.NewTask("durable", []byte(strconv.Itoa(n+1)), asynq.Queue(queue), asynq.MaxRetry(4))
		if _, err := client.EnqueueContext(ctx, job); err != nil {
			return 0, err
		}
	}
	done := make(chan struct{})
	var left atomic.Int64
	left.Store(int64(t.jobs))
	server := asynq.NewServer(redis, asynq.Config{
		Concurrency: t.places, Queues: map[string]int{queue: 1}, Logger: silent{}, LogLevel: asynq.FatalLevel,
		TaskCheckInterval: time.Millisecond, DelayedTaskCheckInterval: 2 * time.Millisecond,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 },
	})
	start := time.Now()
	err = server.Start(asynq.HandlerFunc(func(ctx context.Context, job *asynq.Task) error {
		n, err := strconv.ParseInt(string(job.Payload()), 10, 64)
		if err != nil {
			return err
		}
		retried, _ := asynq.GetRetryCount(ctx)
		if t.fails(n, retried+1) {
			return errJob
		}
		if left.Add(-1) == 0 {
			close(done)
		}
		return nil
	}))
	if err != nil {
		return 0, err
	}
	defer server.Shutdown()
	select {
	case <-done:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	for {
		switch info, err := inspector.GetQueueInfo(queue); {
		case err != nil:
			return 0, err
		case info.Archived > 0:
			return 0, fmt.Errorf("%d jobs were given up", info.Archived)
		case info.Size == 0:
			return time.Since(start), nil
		}
	}
}

// silent is a logger of asynq's.
type silent struct{}

func (silent) Debug(...any)      {}
func (silent) Info(...any)       {}
func (silent) Warn(...any)       {}
func (silent) Error(args ...any) { slog.Error(fmt.Sprint(args...)) }
func (silent) Fatal(args ...any) { slog.Error(fmt.Sprint(args...)) }

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
