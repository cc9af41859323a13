package retryriver_test //nolint:testableexamples // it needs a server

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryriver"
)

type importArgs struct{ URL string }

// Kind implements [river.JobArgs].
func (importArgs) Kind() string { return "import" }

func ExampleRetries() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://127.0.0.1/jobs")
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[importArgs]) error {
		return nil // an error is classified, and the job runs again when the policy says
	}))
	config := &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}}, Workers: workers,
	}
	policy := &retry.Policy{
		Name: "import", MaxAttempts: 8, Backoff: retry.Exponential{Initial: time.Second}, FreeRateLimits: 100,
	}

	retries := &retryriver.Retries{Policy: policy}
	if err := retries.Configure(config); err != nil {
		panic(err)
	}
	client, err := river.NewClient(riverpgxv5.New(pool), config)
	if err != nil {
		panic(err)
	}
	if err := client.Start(ctx); err != nil {
		panic(err)
	}
	if _, err := client.Insert(ctx, importArgs{URL: "https://example.com/feed"}, nil); err != nil {
		panic(err)
	}
}
