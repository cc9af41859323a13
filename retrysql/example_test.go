package retrysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
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
		Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.Retrying {
				fmt.Println("attempt", e.Attempt, "failed:", e.Verdict.Category)
			}
		}},
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

// The function assigns the result of the transaction. It starts from the beginning in
// each attempt.
func ExampleInTx_result() {
	db := openDB() // sql.Open("pgx", "postgres://…")
	defer func() { _ = db.Close() }()
	policy := &retry.Policy{Clock: &retrytest.Clock{}} // it does not wait in a test

	var moved int64
	err := retrysql.InTx(context.Background(), db, policy, nil, func(ctx context.Context, tx *sql.Tx) error {
		moved = 0 // of an attempt that was rolled back
		for _, id := range []int{1, 2} {
			result, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE jobs SET queue = 'b' WHERE id = %d", id))
			if err != nil {
				return err
			}
			n, err := result.RowsAffected()
			if err != nil {
				return err
			}
			moved += n
		}
		return nil
	})
	fmt.Println(moved, err)
	// Output: 2 <nil>
}

// The connection broke during the commit, so its outcome is unknown. A transaction with
// the option Idempotent is repeated.
func ExampleTxOptions_idempotent() {
	setPrice := func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE products SET price = 10 WHERE id = 1")
		return err
	}
	for _, opts := range []*retrysql.TxOptions{nil, {Idempotent: true}} {
		db := openDBThatLosesACommit()
		policy := &retry.Policy{Clock: &retrytest.Clock{}} // it does not wait in a test
		err := retrysql.InTx(context.Background(), db, policy, opts, setPrice)
		fmt.Println(errors.Is(err, retrysql.ErrCommitUnknown), err == nil)
		_ = db.Close()
	}
	// Output:
	// true false
	// false true
}

// openDBThatLosesACommit opens a database whose connection breaks at the first commit.
func openDBThatLosesACommit() *sql.DB {
	s := &server{scripts: map[string][]step{}}
	s.on("commit", driver.ErrBadConn)
	return sql.OpenDB(s)
}

// "No rows" is an answer and not a failure, so it is returned at once.
func ExampleInTx_noRows() {
	db := openDB()
	defer func() { _ = db.Close() }()
	attempts := 0
	err := retrysql.InTx(context.Background(), db, nil, nil, func(context.Context, *sql.Tx) error {
		attempts++
		return sql.ErrNoRows // of tx.QueryRowContext(…).Scan(…)
	})
	fmt.Println(errors.Is(err, sql.ErrNoRows), attempts)
	// Output: true 1
}
