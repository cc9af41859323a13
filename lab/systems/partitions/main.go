// Partitions is a daemon that retries failed partitions of a data pipeline and
// keeps no state of its own; see README.md.
//
//	go run . serve -dsn postgres://…
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
)

var program = shared.Program{
	Name:  "partitions",
	About: "makes failed partitions pending again when their backoff has passed.",
	Commands: []shared.Command{
		{Name: "serve", About: "sweeps until it is interrupted", Flags: serve},
		{Name: "state retry", About: "sweeps once", Flags: stateRetry},
		{Name: "index", About: "prints the statement for the index of sweeps", Flags: index},
	},
}

func main() { shared.Main(program.Run) }

func serve(flags *flag.FlagSet) shared.Action {
	interval := flags.Duration("interval", time.Minute, "the pause between sweeps")
	return onTable(flags, func(ctx context.Context, d *daemon, _ io.Writer) error {
		d.interval = *interval
		return d.serve(ctx)
	})
}

func stateRetry(flags *flag.FlagSet) shared.Action {
	var s selection
	flags.StringVar(&s.customer, "customer", "", "only partitions of this customer")
	flags.StringVar(&s.query, "query", "", "only partitions of this query")
	flags.BoolVar(&s.force, "force", false, "whatever their backoff, and terminal ones too")
	return onTable(flags, func(ctx context.Context, d *daemon, out io.Writer) (err error) {
		flags.Visit(func(f *flag.Flag) {
			if s.force && (f.Name == "base" || f.Name == "cap" || f.Name == "jitter") {
				err = shared.Usage(fmt.Errorf("-%s: with -force, nothing waits for it", f.Name))
			}
		})
		if err != nil {
			return err
		}
		n, err := d.sweep(ctx, s)
		fmt.Fprintln(out, n, map[bool]string{false: "retried", true: "would be retried"}[d.dryRun])
		return err
	})
}

func index(flags *flag.FlagSet) shared.Action {
	return shared.On(flags, shared.OpenReadOnly, func(_ context.Context, db *shared.DB, out io.Writer) error {
		_, err := fmt.Fprintln(out, db.SQL(indexOfSweeps)+";")
		return err
	})
}

// onTable is an action of a daemon on the table of a user, with the flags of the daemon.
func onTable(flags *flag.FlagSet, action func(ctx context.Context, d *daemon, out io.Writer) error) shared.Action {
	dryRun := flags.Bool("dry-run", false, "say what would be retried, and change nothing")
	base := flags.Duration("base", 5*time.Minute, "the delay after the first failure, which then doubles")
	limit := flags.Duration("cap", 6*time.Hour, "the longest delay")
	jitter := flags.Duration("jitter", 30*time.Second, "how much a delay may be off, either way")
	return shared.On(flags, shared.If(dryRun, shared.OpenReadOnly, shared.OpenExisting), func(ctx context.Context, db *shared.DB, out io.Writer) error {
		d := &daemon{
			db: db, dryRun: *dryRun, policy: newPolicy(*base, *limit, *jitter), repeat: newRepeat(),
			log: slog.New(slog.NewTextHandler(out, nil)),
		}
		if err := shared.Usage(errors.Join(shared.Positive(flags, "jitter"), d.policy.Validate())); err != nil {
			return err
		}
		if err := d.check(ctx); err != nil {
			return err
		}
		d.log.Info("partitions", "policy", d.policy, "dry_run", d.dryRun)
		return action(ctx, d, out)
	})
}

// newPolicy returns the required policy: exponential, with a cap and an
// optional jitter of a fixed size.
func newPolicy(base, limit, jitter time.Duration) *retry.Policy {
	return &retry.Policy{
		MaxAttempts: retry.Unlimited,
		Backoff:     retry.Exponential{Initial: base, Multiplier: 2},
		MaxDelay:    limit,
		Jitter:      retry.PlusMinus(jitter),
	}
}
