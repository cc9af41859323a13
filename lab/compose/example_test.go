package compose_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/semaphore"

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

// The bulkhead is inside the policy: a call that waits for its retry holds no slot.
func Example_bulkheadInside() {
	slots := semaphore.NewWeighted(10)
	free := 0
	policy := &retry.Policy{
		Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.Retrying { // before the wait
				for slots.TryAcquire(1) {
					free++
				}
				slots.Release(int64(free))
			}
		}},
		MaxAttempts: 2,
		Clock:       &retrytest.Clock{},
	}
	op, _ := counted()

	err := policy.Execute(context.Background(), func(ctx context.Context) error {
		if err := slots.Acquire(ctx, 1); err != nil {
			return err
		}
		defer slots.Release(1)
		return op(ctx)
	})
	fmt.Println(err)
	fmt.Println(free, "of 10 slots are free during the wait")
	// Output:
	// failed after 2 attempts: down
	// 10 of 10 slots are free during the wait
}

var errFull = errors.New("no slot")

// A bulkhead that refuses, in the place of waiting, has had no effect: say so, and the
// attempt is repeated even if the operation must not happen twice.
func Example_bulkheadRefuses() {
	slots := semaphore.NewWeighted(1)
	clock := &retrytest.Clock{}
	policy := &retry.Policy{NonIdempotent: true, Clock: clock}
	slots.TryAcquire(1)                                    // somebody else
	clock.At(time.Nanosecond, func() { slots.Release(1) }) // is done soon

	attempts := 0
	err := policy.Execute(context.Background(), func(context.Context) error {
		attempts++
		if !slots.TryAcquire(1) {
			return retry.MarkRetryable(errFull)
		}
		defer slots.Release(1)
		return nil
	})
	fmt.Println(err, attempts)
	// Output: <nil> 2
}

func load(context.Context) (string, error) { return "", errDown }

// The fallback is around the policy: it takes over when the retries have run out, unless
// the caller no longer wants anything.
func Example_fallbackAround() {
	ctx := context.Background()
	policy := &retry.Policy{Clock: &retrytest.Clock{}} // tests only: waits take no time
	cached := "41"

	value, err := retry.Do(ctx, policy, load)
	if err != nil && ctx.Err() == nil {
		value, err = cached, nil
	}
	fmt.Println(value, err)
	// Output: 41 <nil>
}

// Where it is a matter of the reason: the fallback is for an outage, and not for an order
// that does not exist.
//
//nolint:modernize // for readers with Go 1.25
func Example_fallbackByReason() {
	policy := &retry.Policy{Clock: &retrytest.Clock{}}
	for _, failure := range []error{errDown, retry.MarkFinal(errors.New("no such order"))} {
		err := policy.Execute(context.Background(), func(context.Context) error { return failure })
		var gaveUp *retry.Error
		if errors.As(err, &gaveUp) { // not if the error is Final
			fmt.Println("the cached one, because of", gaveUp.Stop)
			continue
		}
		fmt.Println(err)
	}
	// Output:
	// the cached one, because of attempts
	// no such order
}

// A second server, inside the policy: the attempts take turns. A fallback that answers
// from a cache in here would be a success, and end the retries.
func Example_fallbackInside() {
	policy := &retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(10 * time.Millisecond)}
	servers := []string{"a", "b"}
	call := retry.Call{Policy: policy}
	for call.Next(context.Background()) {
		server := servers[(call.Attempt()-1)%len(servers)]
		fmt.Println("asking", server)
		call.End(errDown)
	}
	fmt.Println(call.Err())
	// Output:
	// asking a
	// asking b
	// asking a
	// asking b
	// failed after 4 attempts: down
}
