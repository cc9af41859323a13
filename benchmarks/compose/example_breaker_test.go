package compose_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

var errDown = errors.New("down")

// counted returns an operation that always fails, and how often it was called.
func counted() (op func(context.Context) error, calls *int) {
	calls = new(int)
	return func(context.Context) error {
		*calls++
		return errDown
	}, calls
}

// newBreaker returns a breaker that opens after three failures.
func newBreaker() *gobreaker.CircuitBreaker[any] {
	return gobreaker.NewCircuitBreaker[any](gobreaker.Settings{
		Timeout:     time.Minute,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 3 },
	})
}

// The breaker is around the policy: it counts calls, and nothing retries its refusal.
func Example_breakerAround() {
	breaker := newBreaker()
	policy := &retry.Policy{Clock: &retrytest.Clock{}} // tests only: waits take no time
	op, calls := counted()

	for range 5 {
		_, err := breaker.Execute(func() (any, error) {
			return nil, policy.Execute(context.Background(), op)
		})
		fmt.Println(err)
	}
	fmt.Println(*calls, "attempts")
	// Output:
	// failed after 3 attempts: down
	// failed after 3 attempts: down
	// failed after 3 attempts: down
	// circuit breaker is open
	// circuit breaker is open
	// 9 attempts
}

// The breaker is inside the policy: it counts attempts. Its refusal is Final, because the
// Classifier says so.
func Example_breakerInside() {
	breaker := newBreaker()
	policy := &retry.Policy{
		MaxAttempts: 10,
		Classifier:  retry.On(retry.Final, gobreaker.ErrOpenState, gobreaker.ErrTooManyRequests),
		Clock:       &retrytest.Clock{},
	}
	op, calls := counted()

	err := policy.Execute(context.Background(), func(ctx context.Context) error {
		_, err := breaker.Execute(func() (any, error) { return nil, op(ctx) })
		return err
	})
	fmt.Println(err)
	fmt.Println(*calls, "attempts")
	// Output:
	// circuit breaker is open
	// 3 attempts
}

// The trap: to a policy without the Classifier, the refusal of an open breaker is an error
// like any other. It waits for nothing seven times.
func Example_breakerTrap() {
	breaker := newBreaker()
	clock := &retrytest.Clock{}
	policy := &retry.Policy{MaxAttempts: 10, Clock: clock}
	op, calls := counted()

	err := policy.Execute(context.Background(), func(ctx context.Context) error {
		_, err := breaker.Execute(func() (any, error) { return nil, op(ctx) })
		return err
	})
	fmt.Println(err)
	fmt.Println(*calls, "attempts,", len(clock.Sleeps()), "waits")
	// Output:
	// failed after 10 attempts: circuit breaker is open
	// 3 attempts, 9 waits
}

// A background job would rather wait until the breaker lets somebody through again.
func Example_breakerWaits() {
	policy := &retry.Policy{
		MaxRetryAfter: 2 * time.Minute,
		Classifier: func(err error) retry.Verdict {
			if errors.Is(err, gobreaker.ErrOpenState) {
				return retry.Verdict{Class: retry.RateLimited, After: time.Minute, NotApplied: true}
			}
			return retry.Verdict{}
		},
	}
	d := policy.Next(retry.State{}, gobreaker.ErrOpenState, time.Unix(0, 0))
	fmt.Println(d.Retry, d.Delay >= time.Minute)
	// Output: true true
}

// What the caller did wrong, or no longer wants, says nothing about the health of the
// server. The breaker asks the policy.
func Example_breakerSuccesses() {
	policy := &retry.Policy{}
	settings := gobreaker.Settings{
		IsSuccessful: func(err error) bool { return err == nil || policy.Classify(err).Class == retry.Final },
	}
	fmt.Println(settings.IsSuccessful(retry.MarkFinal(errors.New("no such user"))), settings.IsSuccessful(errDown))
	// Output: true false
}
