// Engines runs one job under one policy on the engine that you name, and prints the
// same timeline each time:
//
//	go run .                      # JetStream, with the server in this process
//	go run . -engine execute      # no engine: Policy.Execute
//	go run . -engine pool         # retrypool
//	go run . -engine watermill    # a router of Watermill, with its broker in memory
//	go run . -engine pubsub       # Google Pub/Sub, with the fake server in this process, or -server
//	go run . -engine kafka        # Kafka, with kfake in this process, or -server
//	go run . -engine river        # PostgreSQL at 127.0.0.1:5432, or -server
//	go run . -engine asynq        # Redis at 127.0.0.1:6379, or -server
//	go run . -engine streams      # Redis Streams at 127.0.0.1:6379, or -server
//	go run . -engine sqs          # SQS, or what speaks its protocol, at 127.0.0.1:4566, or -server
//	go run . -engine amqp         # RabbitMQ at 127.0.0.1:5672, or -server
//
// The policy is in policy.json. The job meets a refused connection, a rate limit that
// says when to come back, a server that is unavailable, and then succeeds.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypool"
)

//go:embed policy.json
var policyFile []byte

// work is what the job does.
type work func(context.Context) error

// engine runs a job under a policy, and returns when over is closed. The server is
// empty, or where to find it.
type engine func(ctx context.Context, server string, p *retry.Policy, job work, over <-chan struct{}) error

var engines = map[string]engine{
	"execute":   execute,
	"pool":      pool,
	"jetstream": jetStream,
	"kafka":     kafka,
	"river":     riverQueue,
	"asynq":     asynqQueue,
	"amqp":      amqpQueue,
	"streams":   redisStream,
	"sqs":       sqsQueue,
	"watermill": watermillRouter,
	"pubsub":    pubSub,
}

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	names := strings.Join(slices.Sorted(maps.Keys(engines)), ", ")
	flags := flag.NewFlagSet("engines", flag.ContinueOnError)
	flags.SetOutput(out)
	name := flags.String("engine", "jetstream", "one of "+names)
	server := flags.String("server", "", "where the server of the engine is")
	if err := flags.Parse(args); err != nil {
		return err
	}
	start, ok := engines[*name]
	if !ok {
		return fmt.Errorf("-engine %s: must be one of %s", *name, names)
	}
	var policy retry.Policy
	if err := json.Unmarshal(policyFile, &policy); err != nil {
		return fmt.Errorf("policy.json: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	over := make(chan struct{})
	policy.Observer = timeline(out, over)
	fmt.Fprintln(out, policy)
	if err := start(ctx, *server, &policy, script(), over); err != nil {
		return fmt.Errorf("%s: %w", *name, err)
	}
	return ctx.Err()
}

// script returns the job.
func script() work {
	outcomes := []error{
		fmt.Errorf("dial tcp 192.0.2.1:443: connect: %w", syscall.ECONNREFUSED),
		retry.MarkRateLimited(errors.New("429 Too Many Requests"), 2*time.Second),
		retry.MarkRetryable(errors.New("503 Service Unavailable")),
	}
	return func(context.Context) error {
		if len(outcomes) == 0 {
			return nil
		}
		err := outcomes[0]
		outcomes = outcomes[1:]
		return err
	}
}

// timeline returns an Observer that prints what it is told, and closes over at the end.
func timeline(out io.Writer, over chan<- struct{}) *retry.Observer {
	return &retry.Observer{Event: func(_ context.Context, e retry.Event) {
		switch e.Kind {
		case retry.Retrying:
			fmt.Fprintf(out, "attempt %d: %v: %v, again in %v\n",
				e.Attempt, e.Err, e.Verdict.Class, e.Delay.Truncate(time.Second))
			return
		case retry.Succeeded:
			fmt.Fprintf(out, "attempt %d: succeeded\n", e.Attempt)
		case retry.GaveUp:
			fmt.Fprintf(out, "attempt %d: %v\n", e.Attempt, e.Err)
		case retry.Held:
			return
		}
		close(over)
	}}
}

func execute(ctx context.Context, _ string, p *retry.Policy, job work, _ <-chan struct{}) error {
	return p.Execute(ctx, job)
}

func pool(ctx context.Context, _ string, p *retry.Policy, job work, _ <-chan struct{}) error {
	workers := &retrypool.Pool{Policy: p}
	if _, err := workers.Submit(ctx, job); err != nil {
		return err
	}
	if err := workers.Wait(ctx); err != nil {
		return err
	}
	_, err := workers.Close(ctx)
	return err
}

// until waits for the end of the job.
func until(ctx context.Context, over <-chan struct{}) {
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// logFailure is for failures that an engine has no place for.
func logFailure(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
