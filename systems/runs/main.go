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

	_ "github.com/go-sql-driver/mysql" // it runs on MariaDB too

	"github.com/seed-5ff3c98e/retry/systems/shared"
)

func main() { shared.Main(program.Run) }

var program = shared.Program{
	Name: "runs", About: "replays recorded requests, and those that fail for a passing reason again.",
	Commands: []shared.Command{
		{Name: "serve", About: "processes runs until interrupted", Flags: serve},
		{Name: "migrate", About: "prints and runs what the table runs lacks", Flags: migrate},
		{Name: "adopt", About: "takes over what is processing without a lease; only when no processor without leases runs any more", Flags: adopt},
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

func migrate(flags *flag.FlagSet) shared.Action {
	return shared.Migration(flags, func(db *shared.DB) *shared.Schema {
		return newProcessor(db, newConfig(flag.NewFlagSet("", flag.ContinueOnError)), io.Discard).schema()
	})
}

func adopt(flags *flag.FlagSet) shared.Action {
	return shared.On(flags, shared.OpenExisting, func(ctx context.Context, db *shared.DB, out io.Writer) error {
		n, err := newStore(db, 0, "").adopt(ctx)
		if err == nil {
			fmt.Fprintln(out, n, "adopted")
		}
		return err
	})
}
