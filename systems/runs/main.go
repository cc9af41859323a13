// Runs is a processor that replays recorded requests, and those that fail for a
// passing reason again; see README.md.
//
//	runs serve -dsn postgres://…      # works on the table runs until interrupted
//	runs migrate -dsn postgres://…    # adds what that table lacks
//	runs demo                         # a demonstration
package main

import (
	"context"
	"flag"
	"io"

	_ "github.com/go-sql-driver/mysql" // it runs on MariaDB too

	"github.com/seed-5ff3c98e/retry/systems/shared"
)

func main() { shared.Main(run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	program := &shared.Program{
		Name: "runs", About: "replays recorded requests, and those that fail for a passing reason again.",
		Commands: []shared.Command{
			{Name: "serve", About: "processes runs until interrupted", Flags: serve},
			{Name: "migrate", About: "prints and runs what the table runs lacks", Flags: migrate},
			{Name: "demo", About: "processes some runs that have trouble, 1000 times as fast", Flags: demo},
		},
	}
	return program.Run(ctx, args, out)
}

func serve(flags *flag.FlagSet) shared.Action {
	c := newConfig(flags, 1)
	return shared.On(flags, shared.OpenExisting, func(ctx context.Context, db *shared.DB, out io.Writer) error {
		p, err := newProcessor(flags, db, c, out)
		if err == nil {
			err = p.check(ctx)
		}
		if err != nil {
			return err
		}
		return p.worker(c.Workers).Run(ctx)
	})
}

func demo(flags *flag.FlagSet) shared.Action {
	c := newConfig(flags, 1000)
	return shared.With(shared.Sandbox(flags), func(ctx context.Context, db *shared.DB, out io.Writer) error {
		p, err := newProcessor(flags, db, c, out)
		if err != nil {
			return err
		}
		return demonstrate(ctx, p, c.Workers)
	})
}

func migrate(flags *flag.FlagSet) shared.Action {
	adopt := flags.Bool("adopt", false,
		"also take over what is processing without a lease; only when no processor without leases runs any more")
	return shared.Migration(flags, func(ctx context.Context, db *shared.DB) ([]string, error) {
		return newStore(db, 0, "").missing(ctx, *adopt)
	})
}
