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
		Columns: retrytable.Columns{ID: "recipient"},
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
