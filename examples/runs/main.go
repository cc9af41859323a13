// Runs is a processor that replays recorded requests, and those that fail for a
// passing reason again; see README.md.
//
//	go run .                             # a demonstration
//	go run . -serve -dsn postgres://…    # work on the table runs until interrupted
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/examples/shared"
)

func main() { shared.Main(run) }

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("runs", flag.ContinueOnError)
	dsn, serve := shared.DSN(flags), shared.Serve(flags)
	maxAttempts := flags.Int("max-attempts", 8, "how often a run is attempted, the first time included")
	initial := flags.Duration("initial-backoff", time.Minute, "the delay after the first failure")
	longest := flags.Duration("max-backoff", time.Hour, "the longest delay, unless a service asks for more")
	multiplier := flags.Float64("backoff-multiplier", 2, "how much longer every delay is than the one before")
	maxElapsed := flags.Duration("max-elapsed", 0, "how long after its first attempt a run may still be retried; 0 is no limit")
	lease := flags.Duration("lease", time.Minute, "after how long a run is taken from a processor that is dead; an attempt gets half of it")
	poll := flags.Duration("poll", time.Second, "the pause when there is nothing to do")
	workers := flags.Int("workers", 2, "how many runs are processed at a time")
	categories := flags.String("categories", "", "the categories that may be processed, as in web,api; all if empty")
	if err := shared.Parse(flags, args); err != nil {
		return err
	}
	if err := shared.Positive(flags, "max-elapsed"); err != nil {
		return err
	}
	open := shared.Open
	if !*serve {
		open = shared.Temporary
		*initial, *longest, *poll = shared.Faster(*initial, speed), shared.Faster(*longest, speed), shared.Faster(*poll, speed)
		*lease = shared.Faster(*lease, leaseSpeed)
	}
	policy := newPolicy(*maxAttempts, *initial, *longest, *multiplier)
	policy.MaxElapsed = *maxElapsed
	if err := policy.Validate(); err != nil {
		return err
	}
	db, err := open(ctx, *dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	p := &processor{
		store: newStore(db, *lease, split(*categories)), policy: policy, replay: replay,
		poll: *poll, log: slog.New(slog.NewTextHandler(out, nil)),
	}
	if err := p.create(ctx); err != nil {
		return err
	}
	p.log.Info("processor", "policy", policy, "categories", *categories)
	if !*serve {
		return demonstrate(ctx, p, *workers)
	}
	return p.worker(*workers).Run(ctx)
}

// split takes a list with commas apart.
func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}
