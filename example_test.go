package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// fetch stands for an operation of yours: it fails twice.
var fetch = retrytest.Script(errors.New("connection reset"), errors.New("connection reset"), nil).Run

func load(context.Context) (string, error) { return "42", nil }

func Example() {
	ctx := context.Background()
	policy := &retry.Policy{
		Name:        "fetch",
		MaxAttempts: 5,
		Backoff:     retry.Exponential{Initial: 100 * time.Millisecond, Multiplier: 2},
		Clock:       new(retrytest.Clock), // tests only: waits take no time
	}
	err := policy.Execute(ctx, func(ctx context.Context) error {
		return fetch(ctx)
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleDo() {
	ctx := context.Background()
	policy := &retry.Policy{Name: "load", MaxAttempts: 5}

	value, err := retry.Do(ctx, policy, load)

	var gaveUp *retry.Error
	if errors.As(err, &gaveUp) { // not if the error is Final
		fmt.Println(gaveUp.Attempts, gaveUp.Stop, gaveUp.RetryAfter)
	}
	fmt.Println(value, err)
	// Output: 42 <nil>
}

func ExampleMarkFinal() {
	var policy retry.Policy
	err := policy.Execute(context.Background(), func(context.Context) error {
		return retry.MarkFinal(errors.New("no such account"))
	})
	fmt.Println(err)
	// Output: no such account
}

func ExampleOn() {
	errSold := errors.New("sold out")
	policy := &retry.Policy{
		Classifier: retry.Chain(
			retry.On(retry.Final, errSold),
			retry.On(retry.Retryable, fs.ErrNotExist), // by default Final
		),
	}
	fmt.Println(policy.Classify(fmt.Errorf("order 7: %w", errSold)).Class)
	fmt.Println(policy.Classify(&fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}).Class)
	fmt.Println(policy.Classify(fs.ErrPermission).Class)
	// Output:
	// final
	// retryable
	// final
}

// A server's hint is a lower bound of the wait. Up to 10 % are added, so that
// clients with the same hint do not come back in step.
func ExampleMarkRateLimited() {
	var clock retrytest.Clock
	policy := &retry.Policy{Clock: &clock}
	op := retrytest.Script(retry.MarkRateLimited(errors.New("slow down"), 10*time.Second), nil)
	err := policy.Execute(context.Background(), op.Run)

	wait := clock.Sleeps()[0]
	fmt.Println(err, wait >= 10*time.Second, wait <= 11*time.Second)
	// Output: <nil> true true
}

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

// "Not ready yet" is not a failure: it uses up no attempts.
func ExampleMarkPending() {
	policy := &retry.Policy{
		Timeout:   10 * time.Minute,
		Overrides: map[string]retry.Override{"pending": {Backoff: retry.Constant(5 * time.Second)}},
		Clock:     &retrytest.Clock{},
	}
	polls := 0
	err := policy.Execute(context.Background(), func(context.Context) error {
		if polls++; polls < 7 {
			return retry.MarkPending(errors.New("not ready"))
		}
		return nil
	})
	fmt.Println(polls, err)
	// Output: 7 <nil>
}

func ExampleError() {
	policy := &retry.Policy{Name: "task", Clock: new(retrytest.Clock)}
	refused := errors.New("connection refused")
	err := policy.Execute(context.Background(), func(context.Context) error { return refused })

	fmt.Println(err)
	fmt.Println(errors.Is(err, refused), errors.Is(err, retry.StopAttempts))
	// Output:
	// task failed after 3 attempts: connection refused
	// true true
}

// job is a row of a table of yours.
type job struct {
	id    string
	state retry.State // a column of JSON, or one for each of its fields
	runAt time.Time   // when it is due
	done  bool
	err   error
}

// The state of a job lives in a database; a worker claims a job that is due, runs
// it, and stores the decision of Next.
func ExamplePolicy_Next() {
	policy := &retry.Policy{
		Name:        "export",
		MaxAttempts: 3,
		Backoff:     retry.Exponential{Initial: time.Minute},
		MaxDelay:    time.Hour,
		Jitter:      retry.NoJitter,
	}
	work := func(j *job, now time.Time, err error) {
		d := policy.Next(j.state, err, now)
		j.state = d.State
		if d.Retry {
			j.runAt = d.At
		} else {
			j.done, j.err = true, d.Err
		}
	}

	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	j := &job{id: "job-7", runAt: now, state: retry.State{First: now}}
	for !j.done {
		work(j, j.runAt, errors.New("disk is slow"))
		text, _ := j.state.MarshalText()
		fmt.Println(j.runAt.Format(time.TimeOnly), string(text))
	}
	fmt.Println(j.err)
	// Output:
	// 12:01:00 f=1 t=2026-11-21T12:00:00Z
	// 12:03:00 f=2 t=2026-11-21T12:00:00Z
	// 12:03:00 f=3 t=2026-11-21T12:00:00Z
	// export failed after 3 attempts: disk is slow
}
