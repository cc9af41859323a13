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
	// A method of a client, such as client.GetJob, does this with the options that it is given.
	getJob := func(ctx context.Context, opts ...gax.CallOption) error {
		return gax.Invoke(ctx, func(context.Context, gax.CallSettings) error {
			if calls++; calls < 3 {
				return status.Error(codes.Unavailable, "starting")
			}
			return nil
		}, opts...)
	}
	ctx := context.Background()

	err := getJob(ctx, gax.WithRetry(retrygax.New(policy)))
	fmt.Println(calls, err)
	// Output: 3 <nil>
}
