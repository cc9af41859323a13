// Worker works on the jobs of a SQLite database. A job outlives the process that works
// on it:
//
//	go run . demo              # a worker is killed in the middle of a job
//	go run . work -db jobs.db  # a worker on jobs.db, until it is interrupted
//
// The worker is this file, and the demonstration is demo.go.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "modernc.org/sqlite"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

var jobs = &retrytable.Table[int64]{
	Dialect: retrytable.SQLite,
	Name:    "jobs",
	Columns: retrytable.Columns{Error: "error"}, // why an attempt failed
	Lease:   3 * time.Second,                    // how long after its worker died a job is taken over; 0 means a minute
}

// work does a job. What it writes by InTx is committed together with the end of the job.
func work(ctx context.Context, job *retrytable.Job[int64]) error {
	fmt.Printf("job %d, attempt %d: begins\n", job.ID, job.Attempt())
	for _, part := range []string{"half of it", "all of it"} {
		select {
		case <-time.After(300 * time.Millisecond): // the work
			fmt.Printf("job %d, attempt %d: %s\n", job.ID, job.Attempt(), part)
		case <-ctx.Done(): // the lease is lost, or the worker has to stop
			return context.Cause(ctx)
		}
	}
	job.InTx(func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO receipts VALUES (?, ?)", job.ID, job.Attempt())
		return err
	})
	return nil
}

// serve works until ctx is done.
func serve(ctx context.Context, file string) error {
	db, err := open(ctx, file)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	worker := &retrytable.Worker[int64]{
		Table: jobs, DB: db, Work: work, Poll: 100 * time.Millisecond,
		Policy: &retry.Policy{MaxAttempts: 5, Backoff: retry.Exponential{Initial: 200 * time.Millisecond}},
		After: func(_ context.Context, o *retrytable.Outcome[int64]) {
			end := "done"
			if o.Err != nil {
				end = fmt.Sprintf("%v; again: %t", o.Err, o.Released || o.Decision.Retry)
			}
			fmt.Printf("job %d, attempt %d: %s\n", o.Job.ID, o.Job.Attempt(), end)
		},
	}
	return worker.Run(ctx)
}

// open opens the database, and makes its tables if they are not there.
func open(ctx context.Context, file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // SQLite has one writer at a time
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	var exists bool
	err = tx.QueryRowContext(ctx, "SELECT count(*) > 0 FROM sqlite_schema WHERE name = 'receipts'").Scan(&exists)
	if err == nil && !exists {
		_, err = tx.ExecContext(ctx, "CREATE TABLE jobs (id INTEGER PRIMARY KEY);"+jobs.Schema()+
			"CREATE TABLE receipts (job_id INTEGER NOT NULL, attempt INTEGER NOT NULL);")
	}
	if err == nil {
		err = tx.Commit()
	}
	return db, err
}

const usage = `worker work -db jobs.db   works until it is interrupted; the file is made if it is missing
worker demo               kills a worker in the middle of a job
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	flag.Parse() // ends the program after -h
	work := flag.NewFlagSet("work", flag.ExitOnError)
	file := work.String("db", "", "the `file` of the database")
	var err error
	switch command := flag.Arg(0); {
	case command == "work" && work.Parse(flag.Args()[1:]) == nil && work.NArg() == 0 && *file != "":
		err = serve(ctx, *file)
	case command == "demo" && flag.NArg() == 1:
		err = demonstrate(ctx, os.Stdout)
	default:
		flag.Usage()
		os.Exit(2)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}
