package compose_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// The bulkhead is inside the policy: a call that waits for its retry holds no slot.
func Example_bulkheadInside() {
	slots := semaphore.NewWeighted(10)
	free := 0
	policy := &retry.Policy{
		Observer: retry.ObserverFunc(func(_ context.Context, e retry.Event) {
			if e.Kind == retry.Retrying { // before the wait
				for slots.TryAcquire(1) {
					free++
				}
				slots.Release(int64(free))
			}
		}),
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
