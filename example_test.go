package retry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// A wait that would end after the deadline is not begun. The error says so, and
// wraps the failure.
func ExampleError_deadline() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	policy := &retry.Policy{Name: "task", Backoff: retry.Constant(time.Minute)}
	refused := errors.New("connection refused")
	err := policy.Execute(ctx, func(context.Context) error { return refused })

	fmt.Println(err)
	fmt.Println(errors.Is(err, refused), errors.Is(err, context.DeadlineExceeded))
	// Output:
	// task failed after 1 attempt (next attempt would miss the context's deadline): connection refused
	// true true
}

// The server asks for a wait of three hours. The program stores the state and when to
// come back, and exits. On the next day it goes on where it was.
func ExampleError_state() {
	type row struct {
		State retry.State
		Due   time.Time
	}
	ctx := context.Background()
	clock := retrytest.NewClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)) // tests only: waits take no time
	policy := &retry.Policy{Name: "import", MaxElapsed: 48 * time.Hour, Clock: clock}
	busy := retry.MarkRateLimited(errors.New("too many requests"), 3*time.Hour)
	reset := errors.New("connection reset")
	fetch := retrytest.Script(reset, busy, reset).Run // stands for an operation of yours

	var job row
	var gaveUp *retry.Error
	err := policy.Execute(ctx, fetch)
	if errors.As(err, &gaveUp) && gaveUp.Stop == retry.StopRetryAfter {
		job = row{State: gaveUp.State, Due: time.Now().Add(gaveUp.RetryAfter)}
	}
	fmt.Println(err)

	stored, _ := json.Marshal(job) // a file, or the columns of a row
	clock.Advance(24 * time.Hour)
	job = row{}
	_ = json.Unmarshal(stored, &job)
	fmt.Println(job.State.Failures, job.State.First, time.Until(job.Due).Round(time.Hour))

	call := retry.Call{Policy: policy, State: job.State}
	for call.Next(ctx) {
		call.End(fetch(call.Context()))
	}
	err = call.Err()
	fmt.Println(err)
	// Output:
	// import failed after 2 attempts (server asks to wait 3h0m0s): too many requests
	// 2 2026-11-21 12:00:00 +0000 UTC 3h0m0s
	// import failed after 3 attempts: connection reset
}

// Every kind of failure has its own limit and backoff. The limits count
// attempts, one more than retries.
func ExamplePolicy_overrides() {
	policy := &retry.Policy{
		Jitter:     retry.NoJitter, // for the output below
		Classifier: categories,
		Overrides: map[string]retry.Override{
			"transient":    {MaxAttempts: 4, Backoff: retry.Exponential{Initial: time.Second}},
			"api_error":    {MaxAttempts: 3, Backoff: retry.Linear{Initial: time.Second}},
			"code_error":   {MaxAttempts: 2, Backoff: retry.Constant(0)},
			"system_error": {MaxAttempts: 3, Backoff: retry.Exponential{Initial: 5 * time.Second}},
			"unknown":      {MaxAttempts: 2, Backoff: retry.Linear{Initial: 3 * time.Second}},
		},
	}
	for _, err := range []error{errTimeout, errAPI, errCode, errSystem, errors.New("?")} {
		var state retry.State
		for {
			d := policy.Next(state, err, time.Now())
			if !d.Retry {
				fmt.Println(d.Err)
				break
			}
			fmt.Print(d.Delay, " ")
			state = d.State
		}
	}
	// Output:
	// 1s 2s 4s failed after 4 attempts: timeout
	// 1s 2s failed after 3 attempts: api
	// 0s failed after 2 attempts: code
	// 5s 10s failed after 3 attempts: system
	// 3s failed after 2 attempts: ?
}

var (
	errTimeout = errors.New("timeout")
	errAPI     = errors.New("api")
	errCode    = errors.New("code")
	errSystem  = errors.New("system")
)

// categories names the kinds of failures. It has no opinion about others.
func categories(err error) retry.Verdict {
	switch {
	case errors.Is(err, errTimeout):
		return retry.Verdict{Class: retry.Retryable, Category: "transient"}
	case errors.Is(err, errAPI):
		return retry.Verdict{Class: retry.Retryable, Category: "api_error"}
	case errors.Is(err, errCode):
		return retry.Verdict{Class: retry.Retryable, Category: "code_error"}
	case errors.Is(err, errSystem):
		return retry.Verdict{Class: retry.Retryable, Category: "system_error"}
	default:
		return retry.Verdict{}
	}
}

func ExampleObserver() {
	policy := &retry.Policy{
		Backoff: retry.Constant(time.Second),
		Jitter:  retry.NoJitter,
		Clock:   new(retrytest.Clock),
		Observer: retry.ObserverFunc(func(_ context.Context, e retry.Event) {
			fmt.Println(e.Kind, e.Attempt, e.Delay, e.Err)
		}),
	}
	op := retrytest.Script(errors.New("boom"), errors.New("boom"), nil)
	_ = policy.Execute(context.Background(), op.Run)
	// Output:
	// retrying 1 1s boom
	// retrying 2 1s boom
	// succeeded 3 0s <nil>
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

// spans is an Observer that sees attempts: it could start a span for each.
type spans struct{}

func (spans) Observe(context.Context, retry.Event) {}

func (spans) Attempt(ctx context.Context, n int) (context.Context, func(error)) {
	fmt.Println("attempt", n)
	return ctx, func(err error) { fmt.Println("ended:", err) }
}

func ExampleObserver_attempts() {
	policy := &retry.Policy{Observer: spans{}}
	_ = policy.Execute(context.Background(), func(context.Context) error { return nil })
	// Output:
	// attempt 1
	// ended: <nil>
}
