// Columns works on a table that has two columns for its retries, and nothing else: retry_count
// and next_retry_at. Each row decides for itself when it is due, so that any number of workers
// may run, and a worker that starts again has nothing to remember.
//
//	go run ./columns
//
// A table with more columns, leases that are extended, and transactions is what
// retrytable.Worker is for.
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
)

const schema = `CREATE TABLE IF NOT EXISTS reports (
	name          TEXT PRIMARY KEY,
	retry_count   INTEGER NOT NULL DEFAULT 0, -- attempts so far; one in progress is counted
	next_retry_at INTEGER DEFAULT 0,          -- in milliseconds since 1970; NULL: it has ended
	error         TEXT                        -- of the last attempt
)`

// claim takes the row that has been due for longest. The attempt is counted before it begins,
// so that a report that kills its worker ends too. If the worker dies, the row is due again
// after a minute, and nobody has to look for it.
const claim = `UPDATE reports SET retry_count = retry_count + 1, next_retry_at = $1 + 60000
	WHERE name = (SELECT name FROM reports WHERE next_retry_at <= $1 ORDER BY next_retry_at, name LIMIT 1)
	RETURNING name, retry_count`

// finish changes nothing if the row has been claimed again: then this worker was too slow.
const finish = `UPDATE reports SET next_retry_at = $1, error = $2 WHERE name = $3 AND retry_count = $4`

var policy = &retry.Policy{
	Name: "report", MaxAttempts: 3, Backoff: retry.Exponential{Initial: 20 * time.Millisecond},
}

// step works on one row. It reports whether one was due.
func step(ctx context.Context, db *sql.DB, work func(ctx context.Context, name string) error) (bool, error) {
	var name string
	var attempt int
	now := time.Now()
	err := db.QueryRowContext(ctx, claim, now.UnixMilli()).Scan(&name, &attempt)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	before := retry.State{Failures: attempt - 1, Key: name} // the Key gives each report jitter of its own
	d, ended := policy.Exhausted(before, now)               // after workers that died
	failure := d.Err
	if !ended {
		failure = work(ctx, name)
		if d = policy.Next(before, failure, time.Now()); d.Err != nil {
			failure = d.Err // says why there is no retry
		}
	}
	due, text := sql.NullInt64{Int64: d.At.Add(time.Millisecond - 1).UnixMilli(), Valid: d.Retry}, sql.NullString{}
	if failure != nil {
		text = sql.NullString{String: failure.Error(), Valid: true}
	}
	_, err = db.ExecContext(ctx, finish, due, text, name, attempt)
	return true, err
}

// work fails for two of the reports.
func work(_ context.Context, name string) error {
	fmt.Println("works on", name)
	switch name {
	case "monthly":
		return errors.New("database is busy")
	case "yearly":
		return retry.MarkFinal(errors.New("no such year"))
	default:
		return nil
	}
}

func open(ctx context.Context, file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // SQLite has one writer at a time
	_, err = db.ExecContext(ctx, schema)
	return db, err
}

func main() {
	ctx := context.Background()
	db, err := open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	const rows = `INSERT INTO reports (name, retry_count) VALUES ('daily', 0), ('monthly', 0), ('weekly', 3), ('yearly', 0)`
	if _, err := db.ExecContext(ctx, rows); err != nil { // three workers have died of the weekly report
		log.Fatal(err)
	}
	for left := true; left; time.Sleep(time.Millisecond) {
		if _, err := step(ctx, db, work); err != nil {
			log.Fatal(err)
		}
		if err := db.QueryRowContext(ctx, "SELECT count(next_retry_at) > 0 FROM reports").Scan(&left); err != nil {
			log.Fatal(err)
		}
	}
	var table string
	const list = `SELECT group_concat(concat_ws(': ', name, retry_count, error), char(10)) FROM reports`
	if err := db.QueryRowContext(ctx, list).Scan(&table); err != nil {
		log.Fatal(err)
	}
	fmt.Println(table)
}
