package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// A Quota learns the limit that calls share: if one of them is refused, all wait, and then go
// one by one.
func ExamplePacer() {
	ctx := context.Background()
	ask := func(context.Context) error { return nil }

	quota := &retryquota.Quota{} // one for all calls with this API key
	policy := &retry.Policy{Name: "prompt", Quota: quota}
	err := policy.Execute(ctx, ask)
	fmt.Println(err)
	// Output: <nil>
}

// One Budget for all calls to a dependency bounds the load that retries add.
func ExampleBudget() {
	billing := &retry.Budget{} // 10 % of the successes, and a reserve of 3
	charge := &retry.Policy{Name: "charge", Budget: billing}
	refund := &retry.Policy{Name: "refund", Budget: billing}

	charge.Clock, refund.Clock = new(retrytest.Clock), new(retrytest.Clock)
	outage := func(context.Context) error { return errors.New("unavailable") }
	for _, policy := range []*retry.Policy{charge, refund, charge} {
		fmt.Println(policy.Execute(context.Background(), outage))
	}
	// Output:
	// charge failed after 3 attempts: unavailable
	// refund failed after 2 attempts (local retry budget exhausted): unavailable
	// charge failed after 1 attempt (local retry budget exhausted): unavailable
}

// limiter adapts a rate limiter of the program, such as golang.org/x/time/rate's: AllowN
// takes the same instant.
type limiter struct{ left int }

func (l *limiter) Deposit(time.Time) {}

func (l *limiter) TryWithdraw(time.Time) bool {
	l.left--
	return l.left >= 0
}

// All calls share a throttle of the program.
func ExampleThrottle() {
	policy := &retry.Policy{MaxAttempts: 10, Backoff: retry.Constant(0), Budget: &limiter{left: 2}}
	err := policy.Execute(context.Background(), func(context.Context) error { return errors.New("down") })
	fmt.Println(err)
	// Output: failed after 3 attempts (local retry budget exhausted): down
}
