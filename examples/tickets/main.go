// Tickets has agents work on tickets, and retries what they fail at by the kind of
// the error, until a person is needed; see README.md.
//
//	go run .                                         # a demonstration
//	go run . -serve -dsn tickets.db                  # the engine
//	go run . add -dsn tickets.db -name build -definition 'make build' -priority 5
//	go run . list -dsn tickets.db -state on_hold
//	go run . release -dsn tickets.db -ticket 1 -by alice
//
// An agent is sh here, with the definition of the ticket's design: whoever can
// write to the database can run commands.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/examples/shared"
)

func main() { shared.Main(run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "add", "list", "release":
			return command(ctx, args[0], args[1:], out)
		}
	}
	flags := flag.NewFlagSet("tickets", flag.ContinueOnError)
	dsn := shared.DSN(flags)
	serve := shared.Serve(flags)
	s := settings{}
	flags.DurationVar(&s.delay, "delay", 30*time.Second, "the first delay of a retry")
	flags.DurationVar(&s.maxDelay, "max-delay", time.Hour, "the longest delay")
	flags.DurationVar(&s.timeout, "timeout", 30*time.Minute, "how long an agent may work on a ticket")
	flags.DurationVar(&s.lease, "lease", time.Minute, "how long after the last sign of life a VM is taken for dead")
	flags.DurationVar(&s.interval, "interval", time.Second, "the pause between looks for work")
	flags.IntVar(&s.workers, "workers", 10, "how many tickets are worked on at a time")
	flags.StringVar(&s.policy, "policy", "", "a JSON `file` with the policy, in the place of -delay and -max-delay")
	flags.StringVar(&s.metrics, "metrics", "127.0.0.1:0", "the loopback `address` for Prometheus")
	if err := shared.Parse(flags, args); err != nil {
		return err
	}
	if err := shared.Positive(flags); err != nil {
		return err
	}
	if s.maxDelay < s.delay {
		return fmt.Errorf("-max-delay: %v: must not be less than -delay: %v", s.maxDelay, s.delay)
	}
	if *serve {
		return withDB(ctx, shared.Open, *dsn, func(db *shared.DB) error { return s.serve(ctx, db, out) })
	}
	return withDB(ctx, shared.Temporary, *dsn, func(db *shared.DB) error { return s.demonstrate(ctx, db, out) })
}

func withDB(
	ctx context.Context, open func(context.Context, string) (*shared.DB, error), dsn string, fn func(*shared.DB) error,
) (err error) {
	db, err := open(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return fn(db)
}

// settings are those of the flags.
type settings struct {
	delay, maxDelay, timeout, lease, interval time.Duration
	workers                                   int
	metrics, policy                           string
}

// limits are those of a policy from a file. Whoever wrote it may not keep tickets from
// people for longer.
var limits = retry.Limits{MaxAttempts: 20, MaxDelay: 24 * time.Hour, MaxRetryAfter: 7 * 24 * time.Hour}

// readPolicy returns the policy of the flags, or that of a file, with the classifier of
// both.
func (s settings) readPolicy() (*retry.Policy, error) {
	p := newPolicy(s.delay, s.maxDelay)
	if s.policy == "" {
		return p, p.Validate()
	}
	text, err := os.ReadFile(s.policy)
	if err != nil {
		return nil, fmt.Errorf("-policy: %w", err)
	}
	if err := errors.Join(json.Unmarshal(text, p), limits.Check(p)); err != nil {
		return nil, fmt.Errorf("-policy: %s: %w", s.policy, err)
	}
	return p, nil
}

// engine returns an engine, with its metrics served until the context is done.
func (s settings) engine(ctx context.Context, db *shared.DB, out io.Writer) (*engine, error) {
	log := slog.New(slog.NewTextHandler(out, nil))
	host, _ := os.Hostname()
	policy, err := s.readPolicy()
	if err != nil {
		return nil, err
	}
	e := &engine{
		db: db, table: newTable(db), policy: policy, agent: shell(s.timeout),
		vm: fmt.Sprintf("%s-%d", host, os.Getpid()), metrics: newMetrics(), notify: logged(log), log: log,
		interval: s.interval, beat: s.lease / 3,
	}
	e.table.Lease = s.lease
	if err := e.table.Validate(); err != nil {
		return nil, err
	}
	if err := e.metrics.serve(ctx, s.metrics, log); err != nil {
		return nil, err
	}
	log.Info("engine", "vm", e.vm, "workers", s.workers, "metrics", e.metrics.url)
	return e, nil
}

func (s settings) serve(ctx context.Context, db *shared.DB, out io.Writer) error {
	if err := createTables(ctx, db); err != nil {
		return err
	}
	e, err := s.engine(ctx, db, out)
	if err != nil {
		return err
	}
	return e.worker(s.workers).Run(ctx)
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

// command is what a person does.
func command(ctx context.Context, name string, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("tickets "+name, flag.ContinueOnError)
	dsn := shared.DSN(flags)
	open := shared.OpenExisting
	var act func(*shared.DB) error
	switch name {
	case "add":
		design := flags.String("name", "", "the name of the design")
		definition := flags.String("definition", "", "its definition: what the agent runs with sh")
		assignee := flags.String("assignee", "agent", "whose ticket it is: agent or human")
		priority := flags.Int("priority", 0, "the highest goes first")
		open = shared.Open // before any engine, too
		act = func(db *shared.DB) error {
			if *assignee != "agent" && *assignee != "human" {
				return fmt.Errorf("add: -assignee: %q: must be agent or human", *assignee)
			}
			if err := createTables(ctx, db); err != nil {
				return err
			}
			id, err := add(ctx, db, *design, *definition, *assignee, *priority)
			if err == nil {
				fmt.Fprintln(out, "ticket", id)
			}
			return err
		}
	case "list":
		state := flags.String("state", "", "only tickets in this state")
		open = shared.OpenReadOnly
		act = func(db *shared.DB) error { return list(ctx, db, *state, out) }
	case "release":
		id := flags.Int64("ticket", 0, "the ticket that is on hold")
		by := flags.String("by", os.Getenv("USER"), "who releases it")
		act = func(db *shared.DB) error {
			if *by == "" {
				return fmt.Errorf("release: -by: %q: must name a person", *by)
			}
			return release(ctx, db, *id, *by)
		}
	}
	if err := shared.Parse(flags, args); err != nil {
		return err
	}
	return withDB(ctx, open, *dsn, act)
}
