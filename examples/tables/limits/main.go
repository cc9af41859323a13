// Limits works on tickets with a limit for each kind of failure. A ticket whose retries are used
// up is on hold, and a person gives it back to the workers.
//
//	go run ./limits
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"time"

	_ "modernc.org/sqlite"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

var (
	errBusy   = errors.New("model is busy")
	errBroken = errors.New("tests fail")
)

// kinds says of which kind a failure is. All are retried; how often is up to the policy. A kind
// without an Override has the limit of the policy.
func kinds(err error) retry.Verdict {
	switch {
	case errors.Is(err, errBusy):
		return retry.Verdict{Class: retry.Retryable, Category: "busy"}
	case errors.Is(err, errBroken):
		return retry.Verdict{Class: retry.Retryable, Category: "broken"}
	default:
		return retry.Classify(err)
	}
}

// The limit of the latest failure is compared with all failures of the ticket.
var policy = &retry.Policy{
	MaxAttempts: 2,
	Backoff:     retry.Constant(0), // seconds and minutes, in earnest
	Classifier:  kinds,
	Overrides: map[string]retry.Override{
		"busy":   {MaxAttempts: 4, Backoff: retry.Exponential{Initial: time.Millisecond}},
		"broken": {MaxAttempts: 3},
	},
}

var tickets = &retrytable.Table[string]{
	Dialect:  retrytable.SQLite,
	Name:     "tickets",
	Columns:  retrytable.Columns{ID: "title", Error: "error"},
	Statuses: retrytable.Statuses{Done: []string{"review"}, Dead: "on_hold"},
	Set:      retrytable.Set{Fail: "kind = $1"},
}

// release is what a person does with a ticket that is on hold: it has all its attempts again.
func release(ctx context.Context, db *sql.DB, title string) error {
	_, err := db.ExecContext(ctx, "UPDATE tickets SET status = 'ready', attempts = 0, due_at = NULL WHERE title = $1 AND status = 'on_hold'", title)
	return err
}

// agent does all tickets but two: one waits for a model, the other for a person.
func agent(mended *bool) func(context.Context, *retrytable.Job[string]) error {
	return func(_ context.Context, job *retrytable.Job[string]) error {
		fmt.Printf("%s: attempt %d\n", job.ID, job.Attempt())
		switch {
		case job.ID == "docs" && job.Attempt() < 4:
			return errBusy
		case job.ID == "build" && !*mended:
			return errBroken
		}
		return nil
	}
}

func run(ctx context.Context) error {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1) // SQLite has one writer at a time
	setup := "CREATE TABLE tickets (title TEXT PRIMARY KEY, kind TEXT);" + tickets.Schema() +
		"INSERT INTO tickets (title) VALUES ('build'), ('docs')"
	if _, err := db.ExecContext(ctx, setup); err != nil {
		return err
	}
	mended := false
	worker := &retrytable.Worker[string]{
		Table: tickets, DB: db, Policy: policy, Work: agent(&mended),
		FinishArgs: func(o *retrytable.Outcome[string]) []any { return []any{o.Decision.Verdict.Category} },
	}
	for _, mended = range []bool{false, true} {
		for range 9 { // a program calls worker.Run
			if _, err := worker.Once(ctx); err != nil {
				return err
			}
			time.Sleep(5 * time.Millisecond)
		}
		var rows string
		const list = "SELECT group_concat(concat_ws(', ', title, status, kind, error), char(10)) FROM tickets"
		if err := db.QueryRowContext(ctx, list).Scan(&rows); err != nil {
			return err
		}
		fmt.Println(rows)
		if err := release(ctx, db, "build"); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
