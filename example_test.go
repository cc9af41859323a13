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

func ExampleError() {
	policy := &retry.Policy{Name: "task", Clock: new(retrytest.Clock)}
	refused := errors.New("connection refused")
	err := policy.Execute(context.Background(), func(context.Context) error { return refused })

	fmt.Println(err)
	fmt.Println(errors.Is(err, refused), errors.Is(err, retry.ErrAttemptsExhausted))
	// Output:
	// task failed after 3 attempts: connection refused
	// true true
}

// A wait that leads past the deadline is not begun. The error says so, and still
// leads to the failure.
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

func ExampleMarkFinal() {
	var policy retry.Policy
	err := policy.Execute(context.Background(), func(context.Context) error {
		return retry.MarkFinal(errors.New("no such account"))
	})
	fmt.Println(err)
	// Output: no such account
}

// A server's hint is a lower bound of the wait. Up to 10 % are added, so that
// clients that got the same hint do not come back in step.
func ExampleMarkRateLimited() {
	var clock retrytest.Clock
	policy := &retry.Policy{Clock: &clock}
	op := retrytest.Script(retry.MarkRateLimited(errors.New("slow down"), 10*time.Second), nil)
	err := policy.Execute(context.Background(), op.Run)

	wait := clock.Sleeps()[0]
	fmt.Println(err, wait >= 10*time.Second, wait <= 11*time.Second)
	// Output: <nil> true true
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

// A durable policy around one that blocks wants to know what the inner one gave
// up on; by default, a failure that was retried once is Final.
func ExampleThroughGiveUp() {
	inner := &retry.Policy{Clock: new(retrytest.Clock)}
	err := inner.Execute(context.Background(), func(context.Context) error {
		return context.DeadlineExceeded // of a call that it made
	})

	outer := &retry.Policy{Classifier: retry.ThroughGiveUp}
	fmt.Println(retry.Classify(err).Class, outer.Classify(err).Class)
	// Output: final retryable
}

// Every kind of failure has its own limit and backoff. The limits count
// attempts: one more than the retries.
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
