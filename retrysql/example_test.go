package retrysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrysql"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// openDB opens a database in which the first transaction conflicts with another
// one.
func openDB() *sql.DB {
	s := &server{scripts: map[string][]step{}}
	s.on("exec", nil, pg("40001"))
	return sql.OpenDB(s)
}

func ExampleInTx() {
	db := openDB() // sql.Open("pgx", "postgres://…")
	defer func() { _ = db.Close() }()

	policy := &retry.Policy{
		MaxAttempts: 5,
		Clock:       &retrytest.Clock{}, // the example does not wait
		Observer: retry.ObserverFunc(func(_ context.Context, e retry.Event) {
			if e.Kind == retry.Retrying {
				fmt.Println("attempt", e.Attempt, "failed:", e.Verdict.Category)
			}
		}),
	}
	opts := &retrysql.TxOptions{Isolation: sql.LevelSerializable}
	err := retrysql.InTx(context.Background(), db, policy, opts, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 1"); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance + 10 WHERE id = 2")
		return err
	})
	switch {
	case errors.Is(err, retrysql.ErrCommitUnknown):
		fmt.Println("look whether it happened:", err)
	case err != nil:
		fmt.Println("rolled back:", err)
	default:
		fmt.Println("done")
	}
	// Output:
	// attempt 1 failed: sql_40001
	// done
}

func ExampleClassify() {
	db := openDB()
	defer func() { _ = db.Close() }()
	policy := &retry.Policy{Classifier: retrysql.Classify}
	err := policy.Execute(context.Background(), func(ctx context.Context) error {
		return db.PingContext(ctx)
	})
	fmt.Println(err)
	// Output: <nil>
}
