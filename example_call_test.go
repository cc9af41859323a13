package retry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// A loop of your own can do work between two attempts.
func ExampleCall() {
	ctx := context.Background()
	policy := &retry.Policy{Name: "fetch", Clock: new(retrytest.Clock)} // tests only: waits take no time
	reset := errors.New("connection reset")
	fetch := retrytest.Script(reset, reset, nil).Run // stands for an operation of yours

	call := retry.Call{Policy: policy}
	for call.Next(ctx) {
		err := fetch(call.Context())
		fmt.Printf("attempt %d: %v\n", call.Attempt(), err)
		call.End(err)
	}
	fmt.Println(call.Err())
	// Output:
	// attempt 1: connection reset
	// attempt 2: connection reset
	// attempt 3: <nil>
	// <nil>
}

// Only the loop over the queue blocks here: the decision says when a job is due,
// and only its state has to be kept until then.
func ExampleCall_Begin() {
	type job struct {
		name  string
		run   func(context.Context) error
		due   time.Time
		state retry.State
	}
	ctx := context.Background()
	clock := retrytest.NewClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	policy := &retry.Policy{Backoff: retry.Constant(time.Minute), Jitter: retry.NoJitter, Clock: clock}
	busy := errors.New("busy")
	queue := []job{
		{name: "mail", run: retrytest.Script(busy, busy, nil).Run, due: clock.Now()},
		{name: "sync", run: retrytest.Script(busy, busy, busy).Run, due: clock.Now().Add(30 * time.Second)},
	}
	for len(queue) > 0 {
		slices.SortFunc(queue, func(a, b job) int { return a.due.Compare(b.due) })
		next := queue[0]
		queue = queue[1:]
		clock.Advance(next.due.Sub(clock.Now())) // a timer of yours

		call := retry.Call{Policy: policy, State: next.state}
		if call.Begin(ctx) { // false if ctx is done
			d := call.End(next.run(call.Context()))
			if d.Retry {
				next.due, next.state = d.At, d.State
				queue = append(queue, next)
				continue
			}
		}
		fmt.Println(clock.Now().Format(time.TimeOnly), next.name, call.Err())
	}
	// Output:
	// 12:02:00 mail <nil>
	// 12:02:30 sync failed after 3 attempts: busy
}

// An Error keeps only the last failure. A loop of your own can keep all
// failures.
func ExampleCall_allErrors() {
	policy := &retry.Policy{Name: "upload", Clock: new(retrytest.Clock)} // tests only: waits take no time
	upload := retrytest.Script(errors.New("no route to host"), errors.New("connection reset"), errors.New("disk full")).Run

	var errs []error
	call := retry.Call{Policy: policy}
	for call.Next(context.Background()) {
		err := upload(call.Context())
		if call.End(err).Retry {
			errs = append(errs, err)
		}
	}
	if err := call.Err(); err != nil {
		fmt.Println(errors.Join(append(errs, err)...)) // err has the last failure
	}
	// Output:
	// no route to host
	// connection reset
	// upload failed after 3 attempts: disk full
}

// connect stands for a connection, a watch or a consumer: it returns when that ends.
func connect(context.Context) error { return errors.New("connection lost") }

// A loop that reconnects forever: it waits up to 1s, 2s, 4s, … 30s, and starts these
// waits again after a connection that lasted a minute. An unknown host or a bad
// certificate is Final and would end it, so the Classifier makes every error Retryable.
func Example_reconnect() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()

	policy := &retry.Policy{
		MaxAttempts: retry.Unlimited,
		Backoff:     retry.Exponential{Initial: time.Second},
		ResetAfter:  time.Minute,
		Classifier:  func(error) retry.Verdict { return retry.Verdict{Class: retry.Retryable} },
	}
	err := policy.Execute(ctx, connect)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

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
