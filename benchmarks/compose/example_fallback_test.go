package compose_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

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
