package compose_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// hedge calls op, and once more if there is no result after delay. The first success wins,
// and the other call is canceled. op must be idempotent.
func hedge[T any](ctx context.Context, delay time.Duration, op func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		value T
		err   error
	}
	results := make(chan result, 2)
	call := func() {
		value, err := op(ctx)
		results <- result{value, err}
	}
	go call()
	select {
	case r := <-results:
		return r.value, r.err // before the delay: the policy deals with a failure
	case <-time.After(delay):
	}
	go call()
	first := <-results
	if first.err == nil {
		return first.value, nil
	}
	second := <-results
	return second.value, second.err
}

// The hedge is inside the policy: an attempt that is slow gets help, an attempt that fails
// is retried.
func Example_hedgeInside() {
	policy := &retry.Policy{Clock: &retrytest.Clock{}} // tests only: waits take no time
	calls := make(chan int, 3)
	calls <- 1
	calls <- 2
	calls <- 3
	request := func(ctx context.Context) (string, error) {
		switch <-calls {
		case 1:
			return "", errors.New("connection reset")
		case 2:
			select { // hangs
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			return "", errors.New("timed out")
		default:
			return "42", nil
		}
	}

	value, err := retry.Do(context.Background(), policy, func(ctx context.Context) (string, error) {
		return hedge(ctx, 10*time.Millisecond, request)
	})
	fmt.Println(value, err)
	// Output: 42 <nil>
}
