package main

import (
	"context"

	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared"
)

// lacks returns the statements that add what the database lacks.
func lacks(ctx context.Context, db *shared.DB) ([]string, error) {
	table, id, identity, json := newTable(db), "bigint", "bigint GENERATED ALWAYS AS IDENTITY", "jsonb"
	if db.Dialect == retrytable.SQLite {
		id, identity, json = "INTEGER", "INTEGER", "TEXT"
	}
	primary, instant := "id "+identity+" PRIMARY KEY", table.Instants.SQLType(db.Dialect)
	return db.Lacks(ctx, []shared.Table{
		{Name: "designs", New: primary, ID: id, Columns: shared.Columns("name", "text", "definition", "text")},
		{
			Name: "tickets", New: primary, ID: id, Jobs: table, Columns: shared.Columns(
				"design_id", "{designs}", "assignee_type", "text", "priority", "integer", "rejection_count", "integer NOT NULL DEFAULT 0",
				"vm_id", "text", "hold_reason", "text", "retry_strategy", json,
				"created_at", instant, "updated_at", instant, "completed_at", instant),
			Checks: []shared.Check{ // values that nobody can have meant
				shared.Never("retry_count", "bigint", "retry_count < 0", "is negative", "0"),
				shared.Never("rejection_count", "bigint", "rejection_count < 0", "is negative", "0"),
				shared.Never("retry_after", instant, "retry_after < '2000-01-01'", "is in a past century", "NULL"),
			},
		},
		{Name: "activity", New: primary, ID: id, Columns: shared.Columns(
			"ticket_id", "{tickets}", "action", "text", "details", json, "actor", "text", "created_at", instant)},
	})
}
