package tabletest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// A worker that sends mails from a table that was there before. Its policy lets
// a mail wait for no time, so that the example ends.
func Example() {
	dir, err := os.MkdirTemp("", "mails")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", sqliteDSN(filepath.Join(dir, "mails.db")))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()
	ctx := context.Background()
	fmt.Println(send(ctx, db))
	// Output:
	// bob: failed, again in 0s
	// carol: failed, for good: no such mailbox
	// alice: sent
	// bob: sent
	// <nil>
}

var (
	mails = &retrytable.Table[string]{
		Dialect: retrytable.SQLite,
		Name:    "mails",
		Columns: retrytable.Columns{ID: "recipient"},
		Lease:   5 * time.Minute,
		Set:     retrytable.Set{Fail: "error = $1"},
	}
	mailPolicy = &retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(0)}
)

func send(ctx context.Context, db *sql.DB) error {
	for _, statement := range []string{
		"CREATE TABLE mails (recipient TEXT PRIMARY KEY, error TEXT)",
		mails.Schema(),
		"INSERT INTO mails (recipient, due_at) VALUES ('bob', 1), ('carol', 2), ('alice', 3)",
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	for {
		rows, err := mails.Claim(ctx, db, 1)
		if err != nil || len(rows) == 0 {
			return err // a worker that goes on sleeps here, and sweeps
		}
		if err := sendOne(ctx, db, rows[0]); err != nil && !errors.Is(err, retrytable.ErrLeaseLost) {
			return err
		}
	}
}

func sendOne(ctx context.Context, db *sql.DB, row retrytable.Row[string]) error {
	if d, exhausted := mailPolicy.Exhausted(row.State, row.Now()); exhausted {
		return mails.Fail(ctx, db, row.ID, row.Fence, d, d.Err.Error())
	}
	failure := deliver(row.ID, row.State.Failures)
	if failure == nil {
		fmt.Printf("%s: sent\n", row.ID)
		return mails.Succeed(ctx, db, row.ID, row.Fence)
	}
	d := mailPolicy.Next(row.State, failure, row.Now())
	if d.Retry {
		fmt.Printf("%s: failed, again in %v\n", row.ID, d.Delay)
	} else {
		fmt.Printf("%s: failed, for good: %v\n", row.ID, d.Err)
	}
	return mails.Fail(ctx, db, row.ID, row.Fence, d, failure.Error())
}

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
