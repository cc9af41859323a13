package retrytable_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypolicies"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// A table of tickets, with words of its own, that takes urgent ones before others that have
// waited up to an hour longer for each step of priority.
func ExampleTable_Schema() {
	tickets := &retrytable.Table[int64]{
		Name:    "tickets",
		Columns: retrytable.Columns{Status: "state", Attempts: "retry_count", Due: "retry_after"},
		Statuses: retrytable.Statuses{
			Ready: "ready", Waiting: "ready", Running: []string{"in_progress"}, Done: []string{"needs_review"}, Dead: "on_hold",
		},
		Where:   "assignee_type = 'agent'",
		OrderBy: "turn",
		Set:     retrytable.Set{Promote: "turn = retry_after - priority * interval '1 hour'"},
	}
	fmt.Print(tickets.Schema())
	// Output:
	// ALTER TABLE "tickets" ADD COLUMN IF NOT EXISTS "state" text NOT NULL DEFAULT 'ready';
	// ALTER TABLE "tickets" ADD COLUMN IF NOT EXISTS "retry_count" bigint NOT NULL DEFAULT 0;
	// ALTER TABLE "tickets" ADD COLUMN IF NOT EXISTS "retry_after" timestamptz;
	// ALTER TABLE "tickets" ADD COLUMN IF NOT EXISTS "lease_until" timestamptz;
	// ALTER TABLE "tickets" ADD COLUMN IF NOT EXISTS "fence" bigint NOT NULL DEFAULT 0;
	// CREATE INDEX IF NOT EXISTS "tickets_claim_e74e8d3b" ON "tickets" ("state", turn) WHERE "state" IN ('ready') AND "retry_after" IS NULL AND (assignee_type = 'agent');
	// CREATE INDEX IF NOT EXISTS "tickets_promote_e74e8d3b" ON "tickets" ("retry_after") WHERE "state" IN ('ready') AND "retry_after" IS NOT NULL AND (assignee_type = 'agent');
	// CREATE INDEX IF NOT EXISTS "tickets_sweep_e74e8d3b" ON "tickets" ("lease_until") WHERE "state" IN ('in_progress') AND (assignee_type = 'agent');
	// CREATE INDEX IF NOT EXISTS "tickets_dead_e74e8d3b" ON "tickets" ("state", "id") WHERE "state" IN ('on_hold') AND (assignee_type = 'agent');
	// ALTER TABLE "tickets" SET (autovacuum_vacuum_scale_factor = 0.01);
}

// The jobs that died in an outage are tried again within an hour. This table has no column for texts,
// which is told before anything is changed.
func ExampleTable_TryAgain() {
	var db *sql.DB // here there is none
	ctx := context.Background()
	jobs := &retrytable.Table[int64]{Name: "jobs"}
	n, err := jobs.TryAgain(ctx, db, retrytable.Jobs[int64]{Error: "*connection refused*"}, retrytable.Again{Spread: time.Hour})
	fmt.Println(n, err)
	// Output: 0 retrytable: try again: Jobs.Error: "*connection refused*": the table has no column for it: name one in Columns.Error
}

// A worker on a table of mails, until the context is done. What the work has to write is
// committed together with the end of the job. internal/test/real/tabletest runs the same with a
// database.
func ExampleWorker() {
	var db *sql.DB // of any driver for PostgreSQL or SQLite; here there is none
	mails := &retrytable.Table[string]{
		Name:    "mails",
		Columns: retrytable.Columns{ID: "recipient", First: "first_at"},
		Set:     retrytable.Set{Fail: "error = $1"},
	}
	worker := &retrytable.Worker[string]{
		Table:       mails,
		DB:          db,
		Policy:      &retry.Policy{MaxAttempts: 5, MaxElapsed: 24 * time.Hour, AttemptTimeout: time.Minute},
		Concurrency: 10,
		Grace:       20 * time.Second,
		Work: func(_ context.Context, job *retrytable.Job[string]) error {
			answer := "hello, " + job.ID
			job.InTx(func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO answers (recipient, text) VALUES ($1, $2)", job.ID, answer)
				return err
			})
			return nil
		},
		FinishArgs: func(o *retrytable.Outcome[string]) []any {
			return []any{o.Err.Error()} // of Set.Fail
		},
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fmt.Println(worker.Run(ctx))
	// Output: retrytable: Worker.DB: <nil>: must be there
}

// A policy for each kind of jobs, from a file that may be loaded again while they wait.
func ExampleWorker_policyFor() {
	var policies retrypolicies.Policies
	err := policies.Load("policies.json", []byte(`{"policies": {
		"mail":   {"max_attempts": 10, "max_elapsed": "24h"},
		"report": {"max_attempts": 3, "attempt_timeout": "5m"}
	}}`))
	if err != nil {
		fmt.Println(err)
	}
	var db *sql.DB // here there is none
	worker := &retrytable.Worker[int64]{
		Table:     &retrytable.Table[int64]{Name: "jobs", Columns: retrytable.Columns{Kind: "kind", First: "first_at"}},
		DB:        db,
		PolicyFor: policies.Get,
		Work: func(_ context.Context, job *retrytable.Job[int64]) error {
			fmt.Println(job.Kind, job.ID)
			return nil
		},
	}
	fmt.Println(worker.Validate())
	// Output: retrytable: Worker.DB: <nil>: must be there
}
