package retrygax_test

import (
	"context"
	"fmt"

	"github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygax"
)

func ExampleNew() {
	policy := &retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(0)}
	calls := 0
	// The method of a client does this with the options that it is given.
	err := gax.Invoke(context.Background(), func(context.Context, gax.CallSettings) error {
		if calls++; calls < 3 {
			return status.Error(codes.Unavailable, "starting")
		}
		return nil
	}, gax.WithRetry(retrygax.New(policy)))
	fmt.Println(calls, err)
	// Output: 3 <nil>
}
