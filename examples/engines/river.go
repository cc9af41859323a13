package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryriver"
)

type importArgs struct{}

// Kind implements [river.JobArgs].
func (importArgs) Kind() string { return "import" }

func riverQueue(ctx context.Context, url string, p *retry.Policy, job work, over <-chan struct{}) (err error) {
	config, err := pgxpool.ParseConfig(cmp.Or(url, "postgres://postgres@127.0.0.1:5432/test"))
	if err != nil {
		return err
	}
	schema := "engines_" + strings.ToLower(rand.Text()[:10]) // dropped at the end
	config.ConnConfig.RuntimeParams["search_path"] = schema
	db, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.Exec(ctx, "CREATE SCHEMA "+schema); err != nil {
		return err
	}
	defer func() {
		_, dropErr := db.Exec(context.WithoutCancel(ctx), "DROP SCHEMA "+schema+" CASCADE")
		err = errors.Join(err, dropErr)
	}()
	quiet := slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(riverpgxv5.New(db), &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, _ *river.Job[importArgs]) error { return job(ctx) }))
	settings := &river.Config{
		Logger: quiet, Workers: workers, FetchPollInterval: 100 * time.Millisecond,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2}},
	}
	if err := (&retryriver.Retries{Policy: p}).Configure(settings); err != nil {
		return err
	}
	client, err := river.NewClient(riverpgxv5.New(db), settings)
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	_, err = client.Insert(ctx, importArgs{}, nil)
	until(ctx, over)
	return errors.Join(err, client.Stop(context.WithoutCancel(ctx)))
}
