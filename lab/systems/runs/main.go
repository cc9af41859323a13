// Runs is a processor that replays recorded requests, and those that fail for a
// passing reason again; see README.md.
//
//	runs serve -dsn postgres://…      # works on the table runs until interrupted
//	runs migrate -dsn postgres://…    # adds what that table lacks
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	_ "github.com/go-sql-driver/mysql" // it runs on MariaDB too

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

func main() { shared.Main(program.Run) }

var program = shared.Program{
	Name: "runs", About: "replays recorded requests, and those that fail for a passing reason again.",
	Commands: []shared.Command{
		{Name: "serve", About: "processes runs until interrupted", Flags: serve},
		shared.Migration(schemaOf),
		shared.Adoption(schemaOf),
		{Name: "again", About: "has runs processed again that have failed permanently", Flags: again},
	},
}

func serve(flags *flag.FlagSet) shared.Action {
	c := newConfig(flags)
	return shared.On(flags, shared.OpenExisting, func(ctx context.Context, db *shared.DB, out io.Writer) error {
		if err := shared.Usage(errors.Join(shared.Positive(flags), c.Retry.policy().Validate())); err != nil {
			return err
		}
		p := newProcessor(db, c, out)
		if err := db.Check(ctx, p.schema()); err != nil {
			return err
		}
		return p.worker(c.Workers).Run(ctx)
	})
}

// schemaOf is what a processor with the default settings needs.
func schemaOf(db *shared.DB) *shared.Schema {
	return newProcessor(db, newConfig(flag.NewFlagSet("", flag.ContinueOnError)), io.Discard).schema()
}

func again(flags *flag.FlagSet) shared.Action {
	run := flags.String("run", "", "the ID of a run; all if empty")
	within := flags.Duration("within", 0, "a time over which they are spread")
	return shared.On(flags, shared.OpenExisting, func(ctx context.Context, db *shared.DB, out io.Writer) error {
		jobs := retrytable.Jobs[string]{All: *run == ""}
		if !jobs.All {
			jobs.IDs = []string{*run}
		}
		n, err := newStore(db, 0, "").TryAgain(ctx, db, jobs, retrytable.Again{Spread: *within})
		if err == nil {
			fmt.Fprintln(out, n, "will be processed again")
		}
		return err
	})
}

// RetryConfig says when a run that failed is processed again.
type RetryConfig struct {
	MaxAttempts       int           // the first one included
	InitialBackoff    time.Duration // after the first failure
	MaxBackoff        time.Duration
	BackoffMultiplier float64
}

// DaemonConfig is what a processor is told.
type DaemonConfig struct {
	Retry      RetryConfig
	Lease      time.Duration
	Poll       time.Duration
	Workers    int
	Categories string
}

// newConfig returns the settings with their defaults, which the flags change.
func newConfig(flags *flag.FlagSet) *DaemonConfig {
	c := &DaemonConfig{}
	flags.IntVar(&c.Retry.MaxAttempts, "max-attempts", 8, "how often a run is attempted, the first time included")
	flags.DurationVar(&c.Retry.InitialBackoff, "initial-backoff", time.Minute, "the delay after the first failure")
	flags.DurationVar(&c.Retry.MaxBackoff, "max-backoff", time.Hour, "the longest delay, unless a service asks for more")
	flags.Float64Var(&c.Retry.BackoffMultiplier, "backoff-multiplier", 2, "how much longer every delay is than the one before")
	flags.DurationVar(&c.Lease, "lease", time.Minute,
		"after how long a run is taken from a processor that is dead; an attempt gets half of it")
	flags.DurationVar(&c.Poll, "poll", time.Second, "the pause when there is nothing to do")
	flags.IntVar(&c.Workers, "workers", 2, "how many runs are processed at a time")
	flags.StringVar(&c.Categories, "categories", "", "the categories that may be processed, as in web,api; all if empty")
	return c
}

// policy is the policy whose Next is calculate_next_retry. The waits are to be exact, so
// that an operator can tell when a run comes back.
func (c *RetryConfig) policy() *retry.Policy {
	return &retry.Policy{
		Name:           "run",
		MaxAttempts:    c.MaxAttempts,
		Backoff:        retry.Exponential{Initial: c.InitialBackoff, Multiplier: c.BackoffMultiplier},
		MaxDelay:       c.MaxBackoff,
		Jitter:         retry.NoJitter,
		FreeRateLimits: 1,                  // with a retry_after, retry_count stays; nothing counts these waits
		MaxRetryAfter:  7 * 24 * time.Hour, // whoever wants more has to be asked
		Classifier:     retryhttp.Classify,
	}
}

// errorClass is the error_class of a verdict: error_class_to_string. What nobody
// knows is retried, so it is retryable.
func errorClass(v retry.Verdict) string {
	if v.Class == retry.Unknown {
		return retry.Retryable.String()
	}
	return v.Class.String()
}
