package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// With a key, the wait is the same wherever and whenever it is computed: a
// stateless daemon computes from two columns whether a row is due.
func ExamplePolicy_Delay() {
	policy := &retry.Policy{
		MaxAttempts: 8,
		Backoff:     retry.Exponential{Initial: 5 * time.Minute},
		MaxDelay:    6 * time.Hour,
		Jitter:      retry.PlusMinus(30 * time.Second),
	}
	attemptCount, updatedAt := 2, time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

	due := updatedAt.Add(policy.Delay(retry.State{Failures: attemptCount, Key: "partition-17"}))
	again := updatedAt.Add(policy.Delay(retry.State{Failures: attemptCount, Key: "partition-17"}))
	fmt.Println(due.Round(time.Minute).Format(time.TimeOnly), due.Equal(again))
	// Output: 12:10:00 true
}

// The attempt is counted when the job is claimed, so that a job that kills its
// worker ends too. Ask Exhausted before it runs.
func ExamplePolicy_Exhausted() {
	policy := &retry.Policy{Name: "export"}
	claimed := 4 // the column of attempts, with the one that was just claimed

	d, exhausted := policy.Exhausted(retry.State{Failures: claimed - 1}, time.Now())
	fmt.Println(exhausted, d.Err)
	// Output: true export failed after 3 attempts
}

// The worker of an engine: it is handed a job, and answers what becomes of it.
func ExampleStored() {
	type job struct {
		state retry.State
		lost  int // attempts whose workers died since the state was stored
		run   func(context.Context) error
	}
	policy := &retry.Policy{Name: "import", Backoff: retry.Constant(time.Minute), MaxAttempts: 2}
	work := func(ctx context.Context, j *job) string {
		attempt := retry.Stored{Policy: policy, State: j.state, Lost: j.lost}
		outcome := attempt.Attempt(ctx, j.run)
		j.state, j.lost = attempt.State, 0
		switch outcome {
		case retry.Done:
			return "done"
		case retry.Again:
			return "again later" // at attempt.Decision.At
		case retry.Ended:
			return "dead: " + attempt.Decision.Err.Error()
		default:
			return "back in the queue" // the worker stops
		}
	}

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	busy := &job{run: retrytest.Script(errors.New("busy"), nil).Run}
	fmt.Println("busy:", work(ctx, busy))
	fmt.Println("busy:", work(ctx, busy))
	fmt.Println("poison:", work(ctx, &job{lost: 2}))
	fmt.Println("cut off:", work(ctx, &job{run: func(ctx context.Context) error {
		stop()
		return ctx.Err()
	}}))
	// Output:
	// busy: again later
	// busy: done
	// poison: dead: import failed after 2 attempts: retry: worker lost
	// cut off: back in the queue
}
