// Tickets has agents work on tickets, and retries what they fail at by the kind of
// the error, until a person is needed; see README.md.
//
// An agent is sh here, with the definition of the ticket's design: whoever can
// write to the database can run commands.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/retryquota"
)

func main() { shared.Main(program.Run) }

var program = shared.Program{
	Name: "tickets", About: "has agents work on tickets, and retries what they fail at until a person is needed.",
	Commands: []shared.Command{
		{Name: "work", About: "works on tickets until it is interrupted", Flags: workCommand},
		shared.Migration(schemaOf),
		{Name: "add", About: "adds a ticket with a design of its own", Flags: addCommand},
		{Name: "list", About: "lists tickets", Flags: listCommand},
		shared.Adoption(schemaOf),
		{Name: "release", About: "gives a ticket that is on hold back to the agents", Flags: releaseCommand},
	},
}

// logged says what happens to tickets.
func logged(log *slog.Logger) func(change) {
	return func(c change) {
		log := log.With("id", c.Ticket, "state", c.State)
		switch c.State {
		case ready:
			log.Info("ticket", "retry", true, "category", c.Category, "error", c.Error,
				"retry_after", c.RetryAfter.Local().Format("15:04:05.000"), "attempts_remaining", c.AttemptsRemaining)
		case onHold:
			log.Warn("ticket", "category", c.Category, "error", c.Error, "reason", c.Reason)
		default:
			log.Info("ticket")
		}
	}
}

func workCommand(flags *flag.FlagSet) shared.Action {
	delay := flags.Duration("delay", 30*time.Second, "the first delay of a retry")
	maxDelay := flags.Duration("max-delay", time.Hour, "the longest delay")
	timeout := flags.Duration("timeout", 30*time.Minute, "how long an agent may work on a ticket")
	lease := flags.Duration("lease", time.Minute, "how long after the last sign of life a VM is taken for dead")
	interval := flags.Duration("interval", time.Second, "the pause between looks for work")
	grace := flags.Duration("grace", 0, "how long agents may go on when the engine is told to stop")
	workers := flags.Int("workers", 10, "how many tickets are worked on at a time")
	perDesign := flags.Bool("design-quota", false, "whether a rate limit that one ticket meets holds the others of its design")
	address := flags.String("metrics", "127.0.0.1:0", "the loopback `address` for Prometheus; port 0 is any that is free, which the log tells")
	return shared.On(flags, shared.OpenExisting, func(ctx context.Context, db *shared.DB, out io.Writer) error {
		enough := shared.Must(*maxDelay >= *delay, "-max-delay", *maxDelay, fmt.Sprintf("not be less than -delay: %v", *delay))
		if err := shared.Usage(errors.Join(shared.Positive(flags, "grace"), enough)); err != nil {
			return err
		}
		log := slog.New(slog.NewTextHandler(out, nil))
		e := newEngine(db, newPolicy(*delay, *maxDelay), log)
		e.interval, e.grace, e.table.Lease, e.policy.AttemptTimeout = *interval, *grace, *lease, *timeout
		if *perDesign {
			e.quotaFor, e.table.Columns.Key = new(retryquota.Keys[string]).Of, "design_id"
		}
		if err := db.Check(ctx, e.schema()); err != nil {
			return err
		}
		url, err := e.metrics.serve(ctx, *address, log)
		if err != nil {
			return err
		}
		log.Info("engine", "vm", e.vm, "workers", *workers, "metrics", url)
		return e.worker(*workers).Run(ctx)
	})
}

func newEngine(db *shared.DB, policy *retry.Policy, log *slog.Logger) *engine {
	host, _ := os.Hostname()
	return &engine{
		db: db, table: newTable(db), policy: policy, agent: shell, vm: fmt.Sprintf("%s-%d", host, os.Getpid()),
		metrics: newMetrics(), notify: logged(log), log: log,
	}
}

// schemaOf is what an engine with the default settings needs.
func schemaOf(db *shared.DB) *shared.Schema {
	return newEngine(db, newPolicy(time.Second, time.Second), slog.Default()).schema()
}

func addCommand(flags *flag.FlagSet) shared.Action {
	design := flags.String("name", "", "the name of the design")
	definition := flags.String("definition", "", "its definition: what the agent runs with sh")
	assignee := flags.String("assignee", "agent", "whose ticket it is: agent or human")
	priority := flags.Int("priority", 0, "the highest goes first")
	return shared.On(flags, shared.OpenExisting, func(ctx context.Context, db *shared.DB, out io.Writer) error {
		if *assignee != "agent" && *assignee != "human" {
			return shared.Usage(fmt.Errorf("add: -assignee: %q: must be agent or human", *assignee))
		}
		id, err := add(ctx, db, *design, *definition, *assignee, *priority)
		if err == nil {
			fmt.Fprintln(out, "ticket", id)
		}
		return err
	})
}

func listCommand(flags *flag.FlagSet) shared.Action {
	state := flags.String("state", "", "only tickets in this state")
	return shared.On(flags, shared.OpenReadOnly, func(ctx context.Context, db *shared.DB, out io.Writer) error {
		return list(ctx, db, *state, out)
	})
}

func releaseCommand(flags *flag.FlagSet) shared.Action {
	id := flags.String("ticket", "", "the ID of the ticket")
	by := flags.String("by", os.Getenv("USER"), "who releases it")
	return shared.On(flags, shared.OpenExisting, func(ctx context.Context, db *shared.DB, _ io.Writer) error {
		if *by == "" {
			return shared.Usage(fmt.Errorf("release: -by: %q: must name a person", *by))
		}
		return release(ctx, db, *id, *by)
	})
}
