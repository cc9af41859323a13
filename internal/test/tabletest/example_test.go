package tabletest_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// exampleDB opens a database with a table of mails that was there before.
func exampleDB(table *retrytable.Table[string]) (db *sql.DB, remove func()) {
	dir, err := os.MkdirTemp("", "mails")
	if err != nil {
		panic(err)
	}
	db, err = sql.Open("sqlite", sqliteDSN(filepath.Join(dir, "mails.db")))
	if err != nil {
		panic(err)
	}
	db.SetMaxOpenConns(1)
	for _, statement := range []string{
		"CREATE TABLE mails (recipient TEXT PRIMARY KEY, error TEXT, answer TEXT)",
		table.Schema(),
		"INSERT INTO mails (recipient, due_at) VALUES ('bob', 1), ('carol', 2), ('alice', 3)",
	} {
		if _, err := db.Exec(statement); err != nil {
			panic(err)
		}
	}
	return db, func() { _, _ = db.Close(), os.RemoveAll(dir) }
}

func newMails() *retrytable.Table[string] {
	return &retrytable.Table[string]{
		Dialect: retrytable.SQLite,
		Name:    "mails",
		Columns: retrytable.Columns{ID: "recipient", Pending: "polls"},
		Lease:   5 * time.Minute,
		Set:     retrytable.Set{Fail: "error = $1"},
	}
}

// The policy lets a mail wait for no time, so that the examples end.
var mailPolicy = &retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(0)}

// deliver fails once for bob, and for good for carol.
func deliver(recipient string, failures int) error {
	switch {
	case recipient == "carol":
		return retry.MarkFinal(errors.New("no such mailbox"))
	case recipient == "bob" && failures == 0:
		return errors.New("connection reset")
	default:
		return nil
	}
}

// A worker that sends mails. What it says of each is told once it is stored.
func ExampleWorker() {
	mails := newMails()
	db, remove := exampleDB(mails)
	defer remove()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()

	left := 3
	w := &retrytable.Worker[string]{
		Table:  mails,
		DB:     db,
		Policy: mailPolicy,
		Work: func(ctx context.Context, job *retrytable.Job[string]) error {
			return deliver(job.ID, job.State.Failures)
		},
		FinishArgs: func(o *retrytable.Outcome[string]) []any {
			return []any{o.Err.Error()} // of Set.Fail
		},
		After: func(_ context.Context, o *retrytable.Outcome[string]) {
			switch {
			case o.Err == nil:
				fmt.Printf("%s: sent, attempt %d\n", o.Job.ID, o.Job.Attempt())
			case o.Decision.Retry:
				fmt.Printf("%s: %v, again in %v\n", o.Job.ID, o.Err, o.Decision.Delay)
				return
			default:
				fmt.Printf("%s: %v, given up\n", o.Job.ID, o.Err)
			}
			if left--; left == 0 {
				stop()
			}
		},
	}
	fmt.Println(w.Run(ctx))
	// Output:
	// bob: connection reset, again in 0s
	// carol: no such mailbox, given up
	// alice: sent, attempt 1
	// bob: sent, attempt 2
	// context canceled
}

// What the work has to write takes effect together with the end of the job.
func ExampleJob_InTx() {
	mails := newMails()
	db, remove := exampleDB(mails)
	defer remove()
	ctx := context.Background()
	w := &retrytable.Worker[string]{
		Table: mails, DB: db, Policy: mailPolicy,
		Work: func(_ context.Context, job *retrytable.Job[string]) error {
			answer := "hello, " + job.ID // takes half an hour
			job.InTx(func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE mails SET answer = $1 WHERE recipient = $2", answer, job.ID)
				return err
			})
			return nil
		},
	}
	fmt.Println(w.Once(ctx))
	var status, answer string
	err := db.QueryRowContext(ctx, "SELECT status, answer FROM mails WHERE recipient = 'bob'").Scan(&status, &answer)
	fmt.Println(status, answer, err)
	// Output:
	// 1 <nil>
	// done hello, bob <nil>
}

// A job that polls for something costs no attempts.
func ExampleWorker_pending() {
	mails := newMails()
	db, remove := exampleDB(mails)
	defer remove()
	ctx := context.Background()
	asked := 0
	w := &retrytable.Worker[string]{
		Table: mails, DB: db, Policy: mailPolicy,
		Work: func(context.Context, *retrytable.Job[string]) error {
			if asked++; asked < 10 {
				return retry.MarkPending(errors.New("not delivered yet"))
			}
			return nil
		},
		FinishArgs: func(o *retrytable.Outcome[string]) []any {
			return []any{o.Err.Error()}
		},
	}
	for range 10 {
		if _, err := w.Once(ctx); err != nil {
			fmt.Println(err)
		}
	}
	var polls, attempts int
	err := db.QueryRowContext(ctx, "SELECT sum(polls), sum(attempts) FROM mails").Scan(&polls, &attempts)
	fmt.Println(polls, "polls and", attempts, "attempt", err)
	// Output:
	// 9 polls and 1 attempt <nil>
}

// A program that starts is told everything that its table lacks.
func ExampleTable_Check() {
	mails := newMails()
	db, remove := exampleDB(mails)
	defer remove()
	mails = newMails()
	mails.Columns.First, mails.Columns.Due = "first_at", "send_at"
	fmt.Println(mails.Check(context.Background(), db))
	// Output:
	// retrytable: the table does not fit:
	// retrytable: Columns.Due: "send_at": there is no such column; run: ALTER TABLE `mails` ADD COLUMN `send_at` INTEGER
	// retrytable: Columns.First: "first_at": there is no such column; run: ALTER TABLE `mails` ADD COLUMN `first_at` INTEGER
}

// A program adds what its table lacks.
func ExampleTable_Missing() {
	mails := newMails()
	db, remove := exampleDB(mails)
	defer remove()
	mails = newMails()
	mails.Columns.First = "first_at"
	statements, err := mails.Missing(context.Background(), db)
	if err != nil {
		fmt.Println(err)
	}
	for _, statement := range statements {
		fmt.Println(statement)
		if _, err := db.ExecContext(context.Background(), statement); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(mails.Check(context.Background(), db))
	// Output:
	// ALTER TABLE `mails` ADD COLUMN `first_at` INTEGER
	// <nil>
}

// An instant in a statement of the program's own.
func ExampleInstant() {
	mails := newMails()
	db, remove := exampleDB(mails)
	defer remove()
	ctx := context.Background()
	at := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	_, err := db.ExecContext(ctx, "UPDATE mails SET due_at = $1 WHERE recipient = 'bob'",
		retrytable.Instant{Time: at, As: retrytable.UnixMicros})
	if err != nil {
		fmt.Println(err)
	}
	var due retrytable.Instant
	var late bool
	err = db.QueryRowContext(ctx, "SELECT due_at, due_at > "+retrytable.UnixMicros.Now(retrytable.SQLite)+
		" FROM mails WHERE recipient = 'bob'").Scan(&due, &late)
	fmt.Println(due.Time, late, err)
	// Output:
	// 2031-02-03 04:05:06 +0000 UTC true <nil>
}

// The loop of a Worker, written by hand.
func Example() {
	mails := newMails()
	db, remove := exampleDB(mails)
	defer remove()
	ctx := context.Background()
	for {
		rows, err := mails.Claim(ctx, db, 1)
		if err != nil || len(rows) == 0 {
			fmt.Println(err) // a worker that goes on sleeps here, and sweeps
			return
		}
		if err := sendOne(ctx, db, mails, rows[0]); err != nil && !errors.Is(err, retrytable.ErrLeaseLost) {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// bob: failed, again in 0s
	// carol: failed, for good: no such mailbox
	// alice: sent
	// bob: sent
	// <nil>
}

func sendOne(ctx context.Context, db *sql.DB, mails *retrytable.Table[string], row retrytable.Row[string]) error {
	if d, exhausted := mailPolicy.Exhausted(row.State, row.Now()); exhausted {
		return mails.Fail(ctx, db, row.Lease, d, d.Err.Error())
	}
	failure := deliver(row.ID, row.State.Failures)
	if failure == nil {
		fmt.Printf("%s: sent\n", row.ID)
		return mails.Succeed(ctx, db, row.Lease)
	}
	d := mailPolicy.Next(row.State, failure, row.Now())
	if d.Retry {
		fmt.Printf("%s: failed, again in %v\n", row.ID, d.Delay)
	} else {
		fmt.Printf("%s: failed, for good: %v\n", row.ID, d.Err)
	}
	return mails.Fail(ctx, db, row.Lease, d, failure.Error())
}

// A mail that somebody asks for by its ID is claimed, and sent by another program, which has
// the lease and ends the job by a call. If it never calls, the lease runs out, and a Worker
// of the same table sweeps the job.
func ExampleLease() {
	mails := newMails()
	mails.ClaimWhere = "recipient = $1"
	db, remove := exampleDB(mails)
	defer remove()
	ctx := context.Background()

	claim := func(recipient string) (message []byte, err error) {
		rows, err := mails.Claim(ctx, db, 1, recipient)
		if err != nil || len(rows) == 0 {
			return nil, errors.Join(err, errors.New("it is not due, or another has it"))
		}
		return json.Marshal(rows[0])
	}
	// end is the handler of the call.
	end := func(message []byte, failure error) error {
		var row retrytable.Row[string]
		if err := json.Unmarshal(message, &row); err != nil {
			return err
		}
		if failure == nil {
			return mails.Succeed(ctx, db, row.Lease)
		}
		return mails.FailWith(ctx, db, row.Lease, mailPolicy.Next(row.State, failure, row.Now()), failure, failure.Error())
	}

	message, err := claim("carol")
	fmt.Println("claimed:", err)
	_, err = claim("carol")
	fmt.Println("again:", err)
	fmt.Println("ended:", end(message, deliver("carol", 0)))
	fmt.Println("twice:", errors.Is(end(message, nil), retrytable.ErrLeaseLost))
	var status string
	fmt.Println(db.QueryRow("SELECT status FROM mails WHERE recipient = 'carol'").Scan(&status), status)
	// Output:
	// claimed: <nil>
	// again: it is not due, or another has it
	// ended: <nil>
	// twice: true
	// <nil> dead
}
