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
	"io"

	_ "github.com/go-sql-driver/mysql" // it runs on MariaDB too

	"github.com/seed-5ff3c98e/retry/systems/shared"
)

func main() { shared.Main(program.Run) }

var program = shared.Program{
	Name: "runs", About: "replays recorded requests, and those that fail for a passing reason again.",
	Commands: []shared.Command{
		{Name: "serve", About: "processes runs until interrupted", Flags: serve},
		{Name: "migrate", About: "prints and runs what the table runs lacks", Flags: migrate},
	},
}

func serve(flags *flag.FlagSet) shared.Action {
	c := newConfig(flags)
	return shared.On(flags, shared.OpenExisting, func(ctx context.Context, db *shared.DB, out io.Writer) error {
		if err := shared.Usage(errors.Join(shared.Positive(flags), c.Retry.policy().Validate())); err != nil {
			return err
		}
		p := newProcessor(db, c, out)
		if err := p.check(ctx); err != nil {
			return err
		}
		return p.worker(c.Workers).Run(ctx)
	})
}

func migrate(flags *flag.FlagSet) shared.Action {
	adopt := flags.Bool("adopt", false,
		"also take over what is processing without a lease; only when no processor without leases runs any more")
	return shared.Migration(flags, func(ctx context.Context, db *shared.DB) ([]string, error) {
		return newStore(db, 0, "").missing(ctx, *adopt)
	})
}
