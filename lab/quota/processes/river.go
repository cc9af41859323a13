package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryriver"
	"github.com/seed-5ff3c98e/retry/retryquota"
)

type promptArgs struct{}

// Kind implements [river.JobArgs].
func (promptArgs) Kind() string { return prompt }

type otherArgs struct{}

// Kind implements [river.JobArgs].
func (otherArgs) Kind() string { return other }

// riverTables are the tables of River.
type riverTables struct{ table }

func (riverTables) prepare(ctx context.Context, t *task) (func(context.Context) error, error) {
	remove, err := newDatabase(ctx, t)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, t.DSN)
	if err != nil {
		return remove, err
	}
	defer pool.Close()
	driver, quiet := riverpgxv5.New(pool), slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return remove, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return remove, err
	}
	config := &river.Config{Logger: quiet}
	if t.By != riverHand {
		err = (&retryriver.Retries{Policy: newPolicy()}).Configure(config)
	}
	client, wrong := river.NewClient(driver, config)
	if err := errors.Join(err, wrong); err != nil {
		return remove, err
	}
	var all []river.InsertManyParams
	for range t.Prompts {
		all = append(all, river.InsertManyParams{Args: promptArgs{}})
	}
	for range t.Others {
		all = append(all, river.InsertManyParams{Args: otherArgs{}})
	}
	for len(all) > 0 {
		n := min(len(all), 5000)
		if _, err := client.InsertManyFast(ctx, all[:n]); err != nil {
			return remove, err
		}
		all = all[n:]
	}
	_, err = pool.Exec(ctx, "VACUUM ANALYZE river_job")
	return remove, err
}

const riverHand = "River, JobSnooze by hand"

// riverByHand snoozes a job that is refused, for as long as the API asks.
func riverByHand(ctx context.Context, t *task, done *tally) error {
	return riverAt(ctx, t, done, &river.Config{}, func(err error) error {
		if v := retry.Classify(err); v.Class == retry.RateLimited {
			return river.JobSnooze(v.After)
		}
		return err
	})
}

func riverQuota(ctx context.Context, t *task, done *tally) error {
	policy := newPolicy()
	policy.Quota = &retryquota.Quota{}
	config := &river.Config{}
	retries := &retryriver.Retries{Policy: newPolicy(), PolicyFor: func(kind string) (*retry.Policy, error) {
		if kind == prompt {
			return policy, nil
		}
		return nil, nil
	}}
	if err := retries.Configure(config); err != nil {
		return err
	}
	return riverAt(ctx, t, done, config, func(err error) error { return err })
}

// riverAt works until ctx ends, with the settings as they come.
func riverAt(ctx context.Context, t *task, done *tally, config *river.Config, refusal func(error) error) error {
	pool, err := pgxpool.New(ctx, t.DSN)
	if err != nil {
		return err
	}
	defer pool.Close()
	config.Logger, config.Workers = slog.New(slog.DiscardHandler), river.NewWorkers()
	config.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: t.Places}}
	river.AddWorker(config.Workers, river.WorkFunc(func(ctx context.Context, _ *river.Job[promptArgs]) error {
		return refusal(call(ctx, http.DefaultClient, t.API, nil))
	}))
	river.AddWorker(config.Workers, river.WorkFunc(func(context.Context, *river.Job[otherArgs]) error { return nil }))
	client, err := river.NewClient(riverpgxv5.New(pool), config)
	if err != nil {
		return err
	}
	events, end := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: t.Prompts + t.Others + 1, Kinds: []river.EventKind{river.EventKindJobCompleted},
	})
	defer end()
	go func() {
		for e := range events {
			done.note(e.Job.Kind)
		}
	}()
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return client.StopAndCancel(stopping)
}
