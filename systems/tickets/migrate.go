package main

import (
	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared"
)

// schema is what an engine needs of the database, and writes to it.
func (e *engine) schema() *shared.Schema {
	db, table, id, identity, json := e.db, e.table, "bigint", "bigint GENERATED ALWAYS AS IDENTITY", "jsonb"
	if db.Dialect == retrytable.SQLite {
		id, identity, json = "INTEGER", "INTEGER", "TEXT"
	}
	primary, instant := "id "+identity+" PRIMARY KEY", table.Instants.SQLType(db.Dialect)
	return &shared.Schema{Program: "tickets", Jobs: table, Probe: retrytable.Probe[string]{Worker: e.worker(1)}, Tables: []shared.Table{
		{
			Name: "designs", New: primary, ID: id, Columns: shared.Columns("name", "text", "definition", "text"),
			Checks: []shared.Check{shared.Never("definition", "text", "definition = 'no JSON' AND 1 = 0", "", "")}, // sh runs it
		},
		{
			Name: "tickets", New: primary, ID: id, Columns: shared.Columns(
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
	}}
}
