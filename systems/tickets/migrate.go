package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared"
)

// wanted are the columns that the program needs, besides id and what retrytable adds.
var wanted = []struct {
	table   string
	columns []string
}{
	{"designs", []string{"name text", "definition text"}},
	{"tickets", []string{
		"design_id {designs}", "assignee_type text", "priority integer", "rejection_count integer NOT NULL DEFAULT 0",
		"vm_id text", "hold_reason text", "retry_strategy {json}",
		"created_at {instant}", "updated_at {instant}", "completed_at {instant}",
	}},
	{"activity", []string{"ticket_id {tickets}", "action text", "details {json}", "actor text", "created_at {instant}"}},
}

// lacks returns the statements that add what the database lacks: tables, columns, and
// indexes. They can be run while others use the tables. What they do not mend is an error,
// with the statement that does.
func lacks(ctx context.Context, db *shared.DB) (statements []string, err error) {
	table, id, primary, json := newTable(db), "bigint", "bigint GENERATED ALWAYS AS IDENTITY", "jsonb"
	if db.Dialect == retrytable.SQLite {
		id, primary, json = "INTEGER", "INTEGER", "TEXT"
	}
	created := false // the table tickets, without the columns of retrytable
	types := []string{"{json}", json, "{instant}", table.Instants.SQLType(db.Dialect)}
	for _, w := range wanted {
		have, err := db.ColumnTypes(ctx, w.table)
		if err != nil {
			return nil, err
		}
		if w.table == "tickets" {
			if err := impossible(ctx, db, have); err != nil {
				return nil, err
			}
		}
		if have["id"] == "" {
			have["id"], created = id, created || w.table == "tickets"
			statements = append(statements, fmt.Sprintf("CREATE TABLE %s (id %s PRIMARY KEY)", w.table, primary))
		}
		for _, column := range w.columns {
			if name, _, _ := strings.Cut(column, " "); have[name] == "" {
				column = strings.NewReplacer(types...).Replace(column)
				statements = append(statements, "ALTER TABLE "+w.table+" ADD COLUMN "+column)
			}
		}
		types = append(types, "{"+w.table+"}", have["id"])
	}
	if created {
		return append(statements, strings.Split(strings.TrimSuffix(table.Schema(), ";\n"), ";\n")...), nil
	}
	missing, err := table.Missing(ctx, db)
	return append(statements, missing...), err
}

// impossible returns an error for values that nobody can have meant.
func impossible(ctx context.Context, db *shared.DB, have map[string]string) (faults error) {
	for _, f := range []struct{ column, least, instead string }{
		{"retry_count", "0", "0"}, {"rejection_count", "0", "0"}, {"retry_after", "'2000-01-01'", "NULL"},
	} {
		if have[f.column] == "" {
			continue
		}
		where := f.column + " < " + f.least
		var id, value string
		err := db.QueryRowContext(ctx, "SELECT id, CAST("+f.column+" AS text) FROM tickets WHERE "+where+" LIMIT 1").Scan(&id, &value)
		if err == nil {
			err = fmt.Errorf("tickets.%s: %s in ticket %s: must not be less than %s; run: UPDATE tickets SET %s = %s WHERE %s",
				f.column, value, id, f.least, f.column, f.instead, where)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			faults = errors.Join(faults, err)
		}
	}
	return faults
}
