package retrytemporal_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrytemporal"
)

func ExampleRetries_Configure() { //nolint:testableexamples // it needs a server
	c, err := client.Dial(client.Options{})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	policy := &retry.Policy{Name: "charge", MaxAttempts: 8, Backoff: retry.Exponential{Initial: time.Second}}

	retries := &retrytemporal.Retries{Policy: policy}
	options := worker.Options{}
	if err := retries.Configure(&options); err != nil {
		panic(err)
	}
	w := worker.New(c, "jobs", options)
	if err := w.Run(worker.InterruptCh()); err != nil {
		panic(err)
	}
}

// The SDK's test suite stands for the server here, and skips the waits. In a worker of
// your own, the options are those of worker.New.
func Example() {
	policy := &retry.Policy{
		MaxAttempts: 4, Backoff: retry.Exponential{Initial: time.Minute}, MaxDelay: time.Hour, Jitter: retry.NoJitter,
		Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) {
			fmt.Println("attempt", e.Attempt, e.Kind, e.Delay)
		}},
	}
	options := worker.Options{
		DeadlockDetectionTimeout: time.Minute, // of the test suite, on a busy machine
	}
	if err := (&retrytemporal.Retries{Policy: policy}).Configure(&options); err != nil {
		panic(err)
	}

	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(options)
	calls := 0
	charge := func(context.Context) error {
		calls++
		if calls < 3 {
			return errors.New("503 Service Unavailable")
		}
		return nil
	}
	env.RegisterActivity(charge)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		return workflow.ExecuteActivity(ctx, charge).Get(ctx, nil)
	})
	fmt.Println(env.GetWorkflowError())
	// Output:
	// attempt 1 retrying 1m0s
	// attempt 2 retrying 2m0s
	// attempt 3 succeeded 0s
	// <nil>
}
