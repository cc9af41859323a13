// Tickets has agents work on tickets, and retries what they fail at by the kind of
// the error, until a person is needed; see README.md.
//
// An agent is sh here, with the definition of the ticket's design: whoever can
// write to the database can run commands.
package main

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrysql"
	"github.com/seed-5ff3c98e/retry/retrytable"
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
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "ID\tPRIORITY\tSTATE\tRETRIES\tREJECTIONS\tDESIGN\tHOLD REASON\tERROR")
		_, err := shared.Query(ctx, db, func(rows *sql.Rows) (any, error) {
			var priority, retries, rejections int64
			var id, state, design, reason, problem string
			err := rows.Scan(&id, &priority, &state, &retries, &rejections, &design, &reason, &problem)
			fmt.Fprintf(table, "%s\t%d\t%s\t%d\t%d\t%s\t%s\t%s\n", id, priority, state, retries, rejections, design, reason,
				strings.Join(strings.Fields(problem), " ")) // one line, with no tab of its own
			return nil, err
		}, "SELECT t.id, coalesce(t.priority, 0), t.state, coalesce(t.retry_count, 0), coalesce(t.rejection_count, 0), coalesce(d.name, ''), coalesce(t.hold_reason, ''), coalesce(t.error, '') "+
			"FROM tickets t LEFT JOIN designs d ON t.design_id = d.id "+
			"WHERE $1 = '' OR CAST(t.state AS text) = $1 ORDER BY t.priority DESC, t.created_at, t.id", *state)
		if err != nil {
			return err
		}
		return table.Flush()
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

// The states of a ticket.
const (
	ready       = "ready" // with a retry_after while it waits for its retry
	inProgress  = "in_progress"
	needsReview = "needs_review"
	onHold      = "on_hold"
)

// newTable is the ready query, by priority and age, and the updates. Tickets that people
// are assigned to are none of ours.
func newTable(db *shared.DB) *retrytable.Table[string] {
	db.Instants = db.TextLike("tickets", "retry_after", "updated_at", "created_at")
	return &retrytable.Table[string]{
		Dialect: db.Dialect, Name: "tickets", Instants: db.Instants,
		Columns: retrytable.Columns{Status: "state", Retries: "retry_count", Due: "retry_after", Error: "error"},
		Statuses: retrytable.Statuses{
			Ready: ready, Waiting: ready, Running: []string{inProgress}, Done: []string{needsReview}, Dead: onHold,
		},
		Where: "assignee_type = 'agent'",
		// Under overload, retries of old tickets and all urgent ones come before the others
		// for as long as there are any; the comment of OrderBy has an order that ages.
		OrderBy: "priority DESC, created_at, id",
		Set: retrytable.Set{
			Claim:   db.SQL("vm_id = $1, updated_at = {now}"),
			Succeed: db.SQL("vm_id = NULL, completed_at = {now}, updated_at = {now}"),
			Fail:    db.SQL("hold_reason = $1, retry_strategy = $2, vm_id = NULL, updated_at = {now}"),
			Retry:   "completed_at = NULL",
			End:     db.SQL("completed_at = {now}"),
			Release: db.SQL("vm_id = NULL, updated_at = {now}"),
		},
	}
}

// ticket is what there is to do.
type ticket struct {
	ID         string
	Retries    int    // so far
	Rejections int    // of its results, in review
	Design     string // name and definition are empty without one
	Definition string
}

// add makes a ticket with a design of its own.
func add(ctx context.Context, db *shared.DB, design, definition, assignee string, priority int) (id string, err error) {
	err = retrysql.InTx(ctx, db.DB, nil, nil, func(ctx context.Context, tx *sql.Tx) error {
		var designID string
		err := tx.QueryRowContext(ctx, "INSERT INTO designs (name, definition) VALUES ($1, $2) RETURNING id",
			design, definition).Scan(&designID)
		if err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, db.SQL("INSERT INTO tickets (state, design_id, assignee_type, priority, created_at, updated_at) "+
			"VALUES ('ready', $1, $2, $3, {now}, {now}) RETURNING id"), designID, assignee, priority).Scan(&id)
	})
	return id, err
}

// load reads the ticket of a claimed row.
func load(ctx context.Context, db *shared.DB, row retrytable.Row[string]) (ticket, error) {
	t := ticket{ID: row.ID, Retries: row.State.Failures}
	err := db.QueryRowContext(ctx, "SELECT coalesce(t.rejection_count, 0), coalesce(CAST(d.name AS text), ''), coalesce(CAST(d.definition AS text), '') "+
		"FROM tickets t LEFT JOIN designs d ON t.design_id = d.id WHERE t.id = $1", row.ID).Scan(&t.Rejections, &t.Design, &t.Definition)
	return t, err
}

// release is how a person gives a ticket that is on hold back to the agents, with
// all its retries.
func release(ctx context.Context, db *shared.DB, id, by string) error {
	table := newTable(db)
	return retrysql.InTx(ctx, db.DB, nil, nil, func(ctx context.Context, tx *sql.Tx) error {
		n, err := table.TryAgain(ctx, tx, retrytable.Jobs[string]{IDs: []string{id}}, retrytable.Again{
			Set: db.SQL("hold_reason = NULL, completed_at = NULL, updated_at = {now}"),
		})
		if err == nil && n == 0 {
			err = fmt.Errorf("release: -ticket: %q: must be on_hold", id)
		}
		if err != nil {
			return err
		}
		return logActivity(ctx, tx, db, id, "released", struct{}{}, by)
	})
}

// logActivity says in the activity of a ticket what was decided and why.
func logActivity(ctx context.Context, tx *sql.Tx, db *shared.DB, id, action string, details any, actor string) error {
	_, err := tx.ExecContext(ctx, db.SQL("INSERT INTO activity (ticket_id, action, details, actor, created_at) "+
		"VALUES ($1, $2, $3, $4, {now})"), id, action, shared.JSON{In: details}, actor)
	return err
}

//go:embed schema.yaml
var schemaYAML string

// schema is what an engine needs of the database, and writes to it.
func (e *engine) schema() *shared.Schema {
	return shared.MustSchema(schemaYAML).For(e.worker(1))
}
