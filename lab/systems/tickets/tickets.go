package main

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/retrysql"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

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

// list prints the tickets in a state, or all.
func list(ctx context.Context, db *shared.DB, state string, out io.Writer) error {
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
		"WHERE $1 = '' OR CAST(t.state AS text) = $1 ORDER BY t.priority DESC, t.created_at, t.id", state)
	if err != nil {
		return err
	}
	return table.Flush()
}

//go:embed schema.yaml
var schemaYAML string

// schema is what an engine needs of the database, and writes to it.
func (e *engine) schema() *shared.Schema {
	s := shared.MustSchema(schemaYAML)
	s.Jobs, s.Probe.Worker = e.table, e.worker(1)
	return s
}
