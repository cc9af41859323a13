package retryjob_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// The worker of an engine: it is handed a job, and answers what becomes of it.
func ExampleStored() {
	type job struct {
		state retry.State
		lost  int // attempts whose workers died since the state was stored
		run   func(context.Context) error
	}
	policy := &retry.Policy{Name: "import", Backoff: retry.Constant(time.Minute), MaxAttempts: 2}
	work := func(ctx context.Context, j *job) string {
		attempt := retryjob.Stored{Policy: policy, State: j.state, Lost: j.lost}
		outcome := attempt.Attempt(ctx, j.run)
		j.state, j.lost = attempt.State, 0
		switch outcome {
		case retryjob.Done:
			return "done"
		case retryjob.Again:
			return "again later" // at attempt.Decision.At
		case retryjob.Ended:
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
