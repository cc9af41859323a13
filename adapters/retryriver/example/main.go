// Example runs a job of River under a policy, and prints what happens. It needs
// PostgreSQL:
//
//	go run . -server postgres://postgres@127.0.0.1:5432/test
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryriver"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func main() {
	server := flag.String("server", "postgres://postgres@127.0.0.1:5432/test?sslmode=disable", "a PostgreSQL; a schema is made, and dropped at the end")
	flag.Parse()
	if err := run(context.Background(), *server, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func policy(out io.Writer, over chan<- struct{}) *retry.Policy {
	return &retry.Policy{
		Name: "import", MaxAttempts: 4, Backoff: retry.Exponential{Initial: time.Second}, FreeRateLimits: 5,
		Observer: timeline(out, over),
	}
}

type importArgs struct{}

// Kind implements [river.JobArgs].
func (importArgs) Kind() string { return "import" }

func run(ctx context.Context, server string, out io.Writer) (err error) {
	db, drop, err := open(ctx, server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop()) }()
	over, work, workers := make(chan struct{}), job(), river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, _ *river.Job[importArgs]) error { return work(ctx) }))
	config := &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}}, Workers: workers,
		Logger: slog.New(slog.DiscardHandler), // which would repeat the timeline
	}
	if err := (&retryriver.Retries{Policy: policy(out, over)}).Configure(config); err != nil {
		return err
	}
	client, err := river.NewClient(riverpgxv5.New(db), config)
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	if _, err = client.Insert(ctx, importArgs{}, nil); err == nil {
		<-over
	}
	return errors.Join(err, client.Stop(ctx))
}

// open makes a schema with River's tables.
func open(ctx context.Context, server string) (db *pgxpool.Pool, drop func() error, err error) {
	config, err := pgxpool.ParseConfig(server)
	if err != nil {
		return nil, nil, err
	}
	schema := "example_" + strings.ToLower(rand.Text()[:10])
	config.ConnConfig.RuntimeParams["search_path"] = schema
	if db, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, nil, err
	}
	drop = func() error {
		_, err := db.Exec(context.WithoutCancel(ctx), "DROP SCHEMA "+schema+" CASCADE")
		db.Close()
		return err
	}
	if _, err := db.Exec(ctx, "CREATE SCHEMA "+schema); err != nil {
		return nil, nil, err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(db), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		return nil, nil, errors.Join(err, drop())
	}
	return db, drop, nil
}

// job fails three times, each time in another way, and then succeeds.
func job() func(context.Context) error {
	return retrytest.Script(
		errors.New("connection refused"),
		retry.MarkRateLimited(errors.New("429 Too Many Requests"), 2*time.Second),
		retry.MarkRetryable(errors.New("503 Service Unavailable")),
		nil,
	).Run
}

// timeline prints what happens, and closes over at the end.
func timeline(out io.Writer, over chan<- struct{}) retry.Observer {
	start := time.Now()
	return retry.ObserverFunc(func(_ context.Context, e retry.Event) {
		at := time.Since(start).Truncate(time.Second)
		if e.Kind == retry.Retrying {
			fmt.Fprintf(out, "%v: attempt %d: %v: again in %v\n", at, e.Attempt, e.Err, e.Delay.Truncate(time.Second))
			return
		}
		fmt.Fprintf(out, "%v: attempt %d: %v\n", at, e.Attempt, e.Kind)
		close(over)
	})
}
