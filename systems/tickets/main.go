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
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/systems/shared"
)

func main() { shared.Main(program.Run) }

var program = shared.Program{
	Name: "tickets", About: "has agents work on tickets, and retries what they fail at until a person is needed.",
	Commands: []shared.Command{
		{Name: "work", About: "works on tickets until it is interrupted", Flags: workCommand},
		{Name: "migrate", About: "adds what the tables lack, while others use them", Flags: migrateCommand},
		{Name: "add", About: "adds a ticket with a design of its own", Flags: addCommand},
		{Name: "list", About: "lists tickets", Flags: listCommand},
		{Name: "release", About: "gives a ticket that is on hold back to the agents", Flags: releaseCommand},
		{Name: "demo", About: "plays a day on which the API is rate limited, in a few seconds", Flags: demoCommand},
	},
}

// settings are what the flags say.
type settings struct {
	delay, maxDelay, timeout, lease, interval, grace time.Duration
	workers                                          int
	metrics                                          string
}

// delays adds the flags of the policy, and returns what checks all flags.
func (s *settings) delays(flags *flag.FlagSet) func() error {
	flags.DurationVar(&s.delay, "delay", 30*time.Second, "the first delay of a retry")
	flags.DurationVar(&s.maxDelay, "max-delay", time.Hour, "the longest delay")
	return func() error {
		if s.maxDelay < s.delay {
			return shared.Usage(fmt.Errorf("-max-delay: %v: must not be less than -delay: %v", s.maxDelay, s.delay))
		}
		return shared.Positive(flags, "grace")
	}
}

// engine returns an engine, with its metrics served until the context is done.
func (s *settings) engine(ctx context.Context, db *shared.DB, out io.Writer) (*engine, error) {
	log := slog.New(slog.NewTextHandler(out, nil))
	host, _ := os.Hostname()
	e := &engine{
		db: db, table: newTable(db), policy: newPolicy(s.delay, s.maxDelay), agent: shell(s.timeout),
		vm: fmt.Sprintf("%s-%d", host, os.Getpid()), metrics: newMetrics(), notify: logged(log), log: log,
		interval: s.interval, grace: s.grace, beat: s.lease / 3,
	}
	e.table.Lease, e.policy.Quota = s.lease, &quota{}
	if statements, err := lacks(ctx, db); err != nil || len(statements) > 0 {
		return nil, errors.Join(fmt.Errorf("the tables lack something; run tickets migrate, or:\n%s", strings.Join(statements, ";\n")), err)
	}
	if err := db.Probe(ctx, statement(db, "INSERT INTO activity (ticket_id, action, details, actor, created_at) "+
		"VALUES ((SELECT id FROM tickets LIMIT 1), 'probe', '{}', 'system', {now})")); err != nil {
		return nil, err
	}
	if err := e.metrics.serve(ctx, s.metrics, log); err != nil {
		return nil, err
	}
	log.Info("engine", "vm", e.vm, "workers", s.workers, "metrics", e.metrics.url)
	return e, nil
}

// logged says what happens to tickets.
func logged(log *slog.Logger) func(change) {
	return func(c change) {
		log := log.With("id", c.Ticket, "state", c.State)
		switch c.State {
		case ready:
			log.Info("ticket", "category", c.Category, "error", c.Error,
				"retry_after", c.RetryAfter.Local().Format("15:04:05.000"), "attempts_remaining", c.AttemptsRemaining)
		case onHold:
			log.Warn("ticket", "category", c.Category, "error", c.Error, "reason", c.Reason)
		default:
			log.Info("ticket")
		}
	}
}

func workCommand(flags *flag.FlagSet) shared.Action {
	s := &settings{}
	check := s.delays(flags)
	flags.DurationVar(&s.timeout, "timeout", 30*time.Minute, "how long an agent may work on a ticket")
	flags.DurationVar(&s.lease, "lease", time.Minute, "how long after the last sign of life a VM is taken for dead")
	flags.DurationVar(&s.interval, "interval", time.Second, "the pause between looks for work")
	flags.DurationVar(&s.grace, "grace", 0, "how long agents may go on when the engine is told to stop")
	flags.IntVar(&s.workers, "workers", 10, "how many tickets are worked on at a time")
	flags.StringVar(&s.metrics, "metrics", "127.0.0.1:0", "the loopback `address` for Prometheus")
	return shared.On(flags, shared.OpenExisting, func(ctx context.Context, db *shared.DB, out io.Writer) error {
		if err := check(); err != nil {
			return err
		}
		e, err := s.engine(ctx, db, out)
		if err != nil {
			return err
		}
		return e.worker(s.workers).Run(ctx)
	})
}

func migrateCommand(flags *flag.FlagSet) shared.Action { return shared.Migration(flags, lacks) }

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
