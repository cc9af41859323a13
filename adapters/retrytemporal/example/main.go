// Example runs an activity of Temporal under a policy, and prints what happens. Without
// -server, the test suite of the SDK stands for the server, and skips the waits:
//
//	go run . -server 127.0.0.1:7233
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrytemporal"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func main() {
	server := flag.String("server", "", "a Temporal server; a workflow is run in the namespace default")
	flag.Parse()
	if err := run(context.Background(), *server, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func policy(out io.Writer) *retry.Policy {
	return &retry.Policy{
		Name: "import", MaxAttempts: 4, Backoff: retry.Exponential{Initial: time.Second}, FreeRateLimits: 5,
		Observer: timeline(out),
	}
}

const name = "retry-example"

func importing(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	return workflow.ExecuteActivity(ctx, name).Get(ctx, nil)
}

func run(ctx context.Context, address string, out io.Writer) error {
	options := worker.Options{DeadlockDetectionTimeout: time.Minute}
	if err := (&retrytemporal.Retries{Policy: policy(out)}).Configure(&options); err != nil {
		return err
	}
	if address == "" {
		return inSuite(options)
	}
	c, err := client.DialContext(ctx, client.Options{HostPort: address, Logger: quiet{}})
	if err != nil {
		return err
	}
	defer c.Close()
	w := worker.New(c, name, options)
	w.RegisterWorkflow(importing)
	w.RegisterActivityWithOptions(job(), activity.RegisterOptions{Name: name})
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	running, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: name}, importing)
	if err != nil {
		return err
	}
	return running.Get(ctx, nil)
}

// inSuite runs the workflow in the test suite.
func inSuite(options worker.Options) error {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(options)
	env.RegisterActivityWithOptions(job(), activity.RegisterOptions{Name: name})
	env.ExecuteWorkflow(importing)
	return env.GetWorkflowError()
}

// quiet is a logger for nobody: the policy's Observer tells what happens.
type quiet struct{}

var _ log.Logger = quiet{}

// Debug implements [log.Logger].
func (quiet) Debug(string, ...any) {}

// Info implements [log.Logger].
func (quiet) Info(string, ...any) {}

// Warn implements [log.Logger].
func (quiet) Warn(string, ...any) {}

// Error implements [log.Logger].
func (quiet) Error(string, ...any) {}

// job fails three times, each time in another way, and then succeeds.
func job() func(context.Context) error {
	return retrytest.Script(
		errors.New("connection refused"),
		retry.MarkRateLimited(errors.New("429 Too Many Requests"), 2*time.Second),
		retry.MarkRetryable(errors.New("503 Service Unavailable")),
		nil,
	).Run
}

// timeline prints what happens.
func timeline(out io.Writer) retry.Observer {
	return retry.ObserverFunc(func(_ context.Context, e retry.Event) {
		if e.Kind == retry.Retrying {
			fmt.Fprintf(out, "attempt %d: %v: again in %v\n", e.Attempt, e.Err, e.Delay.Truncate(time.Second))
			return
		}
		fmt.Fprintf(out, "attempt %d: %v\n", e.Attempt, e.Kind)
	})
}
