package sqltest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// The server asks for a wait of three hours. The first run of the program stores that in
// the row of its job; the second run goes on with what it finds there.
func Example_row() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1) // all of them see the same memory
	_, err = db.ExecContext(ctx, "CREATE TABLE job (id INT PRIMARY KEY, state TEXT, due INT); INSERT INTO job VALUES (7, '', 0)")
	if err != nil {
		fmt.Println(err)
		return
	}
	policy := &retry.Policy{Name: "import"}
	busy := retry.MarkRateLimited(errors.New("too many requests"), 3*time.Hour)
	fetch := retrytest.Script(busy, nil).Run // stands for an operation of yours

	run := func() error {
		var text string
		call := retry.Call{Policy: policy}
		if err := db.QueryRowContext(ctx, "SELECT state FROM job WHERE id = 7").Scan(&text); err != nil {
			return err
		}
		if err := call.State.UnmarshalText([]byte(text)); err != nil {
			return err
		}
		fmt.Printf("the row has %q\n", text)
		for call.Next(ctx) {
			call.End(fetch(call.Context()))
		}
		var gaveUp *retry.Error
		if !errors.As(call.Err(), &gaveUp) || gaveUp.Stop != retry.StopRetryAfter {
			return call.Err()
		}
		state, err := gaveUp.State.MarshalText()
		if err != nil {
			return err
		}
		due := time.Now().Add(gaveUp.RetryAfter).Unix()
		_, err = db.ExecContext(ctx, "UPDATE job SET state = ?, due = ? WHERE id = 7", string(state), due)
		return errors.Join(call.Err(), err)
	}
	fmt.Println(run())
	fmt.Println(run())
	// Output:
	// the row has ""
	// import failed after 1 attempt (server asks to wait 3h0m0s): too many requests
	// the row has "f=1"
	// <nil>
}
