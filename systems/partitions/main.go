// Partitions is a daemon that retries failed partitions of a data pipeline and
// keeps no state of its own; see README.md.
//
//	go run . demo
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
	"github.com/seed-5ff3c98e/retry/systems/shared"
)

var program = shared.Program{
	Name:  "partitions",
	About: "makes failed partitions pending again when their backoff has passed.",
	Commands: []shared.Command{
		{Name: "serve", About: "sweeps until it is interrupted", Flags: serve},
		{Name: "state retry", About: "sweeps once", Flags: stateRetry},
		{Name: "index", About: "prints the statement for the index of sweeps", Flags: index},
		{Name: "demo", About: "plays three instances and a validator, 1000 times faster", Flags: demo},
	},
}

func main() { shared.Main(program.Run) }

func serve(flags *flag.FlagSet) shared.Action {
	onTable := tableFlags(flags)
	interval := flags.Duration("interval", time.Minute, "the pause between sweeps")
	return func(ctx context.Context, out io.Writer) error {
		return onTable(ctx, out, func(d *daemon) error {
			d.interval = *interval
			return d.serve(ctx)
		})
	}
}

func stateRetry(flags *flag.FlagSet) shared.Action {
	onTable := tableFlags(flags)
	var s selection
	flags.StringVar(&s.customer, "customer", "", "only partitions of this customer")
	flags.StringVar(&s.query, "query", "", "only partitions of this query")
	flags.BoolVar(&s.force, "force", false, "whatever their backoff, and terminal ones too")
	return func(ctx context.Context, out io.Writer) (err error) {
		flags.Visit(func(f *flag.Flag) {
			if s.force && (f.Name == "base" || f.Name == "cap" || f.Name == "jitter") {
				err = shared.Usage(fmt.Errorf("-%s: with -force, nothing waits for it", f.Name))
			}
		})
		if err != nil {
			return err
		}
		return onTable(ctx, out, func(d *daemon) error {
			n, err := d.sweep(ctx, s)
			fmt.Fprintln(out, n, map[bool]string{false: "retried", true: "would be retried"}[d.dryRun])
			return err
		})
	}
}

func index(flags *flag.FlagSet) shared.Action {
	return shared.On(flags, shared.OpenReadOnly, func(_ context.Context, db *shared.DB, out io.Writer) error {
		_, err := fmt.Fprintln(out, indexOf(db.Dialect)+";")
		return err
	})
}

// tableFlags adds the flags of a daemon, and returns what runs one on the table of a user.
func tableFlags(flags *flag.FlagSet) func(context.Context, io.Writer, func(*daemon) error) error {
	dsn := shared.DSN(flags)
	dryRun := flags.Bool("dry-run", false, "say what would be retried, and change nothing")
	settings := policyFlags(flags, 1)
	return func(ctx context.Context, out io.Writer, run func(*daemon) error) error {
		d, err := settings(out)
		if err != nil {
			return err
		}
		open := shared.OpenExisting
		if d.dryRun = *dryRun; d.dryRun {
			open = shared.OpenReadOnly
		}
		if d.db, err = open(ctx, *dsn); err != nil {
			return err
		}
		if err = d.check(ctx); err == nil {
			d.log.Info("partitions", "policy", d.policy, "dry_run", d.dryRun)
			err = run(d)
		}
		return errors.Join(err, d.db.Close())
	}
}

// policyFlags adds the flags of the policy, and returns what makes a daemon of it that is
// so many times faster.
func policyFlags(flags *flag.FlagSet, speed int) func(out io.Writer) (*daemon, error) {
	base := flags.Duration("base", 5*time.Minute, "the delay after the first failure, which then doubles")
	limit := flags.Duration("cap", 6*time.Hour, "the longest delay")
	jitter := flags.Duration("jitter", 30*time.Second, "how much a delay may be off, either way")
	return func(out io.Writer) (*daemon, error) {
		if err := shared.Positive(flags, "jitter"); err != nil {
			return nil, err
		}
		spread := (*jitter / time.Duration(speed)).Truncate(time.Microsecond) // 0 is no jitter
		d := &daemon{
			policy: newPolicy(shared.Faster(*base, speed), shared.Faster(*limit, speed), spread),
			repeat: newRepeat(), log: slog.New(slog.NewTextHandler(out, nil)),
		}
		return d, shared.Usage(d.policy.Validate())
	}
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
