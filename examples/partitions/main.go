// Partitions is a daemon that retries failed partitions of a data pipeline and
// keeps no state of its own; see README.md.
//
//	go run .                                    # a demonstration, with three instances
//	go run . -serve -dsn postgres://…           # the daemon
//	go run . state retry -dsn postgres://…      # the command, once
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
	"github.com/seed-5ff3c98e/retry/examples/shared"
)

func main() { shared.Main(run) }

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	command := len(args) >= 2 && args[0] == "state" && args[1] == "retry"
	flags := flag.NewFlagSet("partitions", flag.ContinueOnError)
	dsn := shared.DSN(flags)
	d := &daemon{repeat: newRepeat(), log: slog.New(slog.NewTextHandler(out, nil))}
	flags.BoolVar(&d.dryRun, "dry-run", false, "say what would be retried, and change nothing")
	base := flags.Duration("base", 5*time.Minute, "the delay after the first failure, which then doubles")
	limit := flags.Duration("cap", 6*time.Hour, "the longest delay")
	jitter := flags.Duration("jitter", 30*time.Second, "how much a delay may be off, either way")
	var s selection
	var serve *bool
	if command {
		args = args[2:]
		flags.StringVar(&s.customer, "customer", "", "only partitions of this customer")
		flags.StringVar(&s.query, "query", "", "only partitions of this query")
		flags.BoolVar(&s.force, "force", false, "whatever their backoff, and terminal ones too")
	} else {
		serve = shared.Serve(flags)
		flags.DurationVar(&d.interval, "interval", time.Minute, "the pause between sweeps")
	}
	if err := shared.Parse(flags, args); err != nil {
		return err
	}
	if err := shared.Positive(flags, "jitter"); err != nil {
		return err
	}
	open, prepare := shared.Open, true
	switch {
	case d.dryRun && (command || *serve):
		open, prepare = shared.OpenReadOnly, false
	case command:
		open, prepare = shared.OpenExisting, false
	case !*serve:
		open = shared.Temporary
		*base, *limit, d.interval = shared.Faster(*base, speed), shared.Faster(*limit, speed), shared.Faster(d.interval, speed)
		*jitter = (*jitter / speed).Truncate(time.Microsecond) // 0 is no jitter
	}
	d.policy = newPolicy(*base, *limit, *jitter)
	if err := d.policy.Validate(); err != nil {
		return err
	}
	db, err := open(ctx, *dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	d.db = db
	if prepare {
		if err := d.prepare(ctx); err != nil {
			return err
		}
	}
	d.log.Info("partitions", "policy", d.policy, "dry_run", d.dryRun)
	switch {
	case command:
		return d.command(ctx, s, out)
	case *serve:
		return d.serve(ctx)
	default:
		return d.demonstrate(ctx)
	}
}

// command is state retry: a single sweep.
func (d *daemon) command(ctx context.Context, s selection, out io.Writer) error {
	n, err := d.sweep(ctx, s)
	fmt.Fprintln(out, n, map[bool]string{false: "retried", true: "would be retried"}[d.dryRun])
	return err
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
