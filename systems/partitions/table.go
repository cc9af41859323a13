package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-5ff3c98e/retry/retrytable"
)

// columns are what a daemon needs of the table, which is the user's: a daemon makes
// neither the table nor an index.
const columns = "customer text, query text, partition_key text, status text, attempt_count bigint, " +
	"error_message text, updated_at {instant}"

// checks are conditions that no failed partition may meet, with an assignment that repairs
// the ones that do. To PostgreSQL they are errors if the column has a type other than sqlType.
var checks = []struct{ column, sqlType, wrong, assignment string }{
	{"status", "text", "status = 'pending'", ""},
	{"attempt_count", "bigint", "attempt_count < 0", "attempt_count = 1"},
	{"error_message", "text", notTerminal + " IS NULL", ""},
	{ // In 20 years, and as long ago, is the wrong unit, or text, which in SQLite is more than any number.
		"updated_at", "timestamptz", "coalesce(updated_at NOT BETWEEN {now} - 630720000000000 * {microsecond} " +
			"AND {now} + 630720000000000 * {microsecond}, true)",
		"updated_at = {now}",
	},
}

// check refuses a table that does not fit. Each fault names the column, and a statement
// that repairs it.
func (d *daemon) check(ctx context.Context) error {
	types, err := d.types(ctx)
	if err != nil {
		return fmt.Errorf("partition_state: %w; it has to have %s", err, d.db.SQL(columns))
	}
	var faults []error
	fault := func(column string, problem any, format string, args ...any) {
		statement := d.db.SQL(fmt.Sprintf(format, args...))
		faults = append(faults, fmt.Errorf("partition_state.%s: %v; %s", column, problem, statement))
	}
	for column := range strings.SplitSeq(columns, ", ") {
		name, _, _ := strings.Cut(column, " ")
		if _, ok := types[name]; !ok {
			fault(name, "there is no such column", "ALTER TABLE partition_state ADD COLUMN %s", column)
		}
	}
	if t, ok := types["updated_at"]; ok && d.db.Dialect == retrytable.SQLite && !strings.Contains(t, "INT") {
		fault("updated_at", "is "+t, "ALTER TABLE partition_state RENAME COLUMN updated_at TO updated_at_text; "+
			"ALTER TABLE partition_state ADD COLUMN updated_at {instant}; "+
			"UPDATE partition_state SET updated_at = unixepoch(updated_at_text) * 1000000")
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	for _, c := range checks {
		var n int
		var server interface{ SQLState() string }
		where := "status = 'failed' AND " + c.wrong
		err := d.db.QueryRowContext(ctx, d.db.SQL("SELECT count(*) FROM partition_state WHERE "+where)).Scan(&n)
		switch {
		case errors.As(err, &server) && slices.Contains([]string{"22", "42"}, server.SQLState()[:2]): // a type
			fault(c.column, err, "ALTER TABLE partition_state ALTER COLUMN %[1]s TYPE %[2]s USING CAST(%[1]s AS %[2]s)",
				c.column, c.sqlType)
			return errors.Join(faults...)
		case err != nil:
			return err
		case n > 0:
			fault(c.column, fmt.Sprintf("wrong in %d failed partitions", n),
				"UPDATE partition_state SET %s WHERE %s", c.assignment, where)
		}
	}
	if types["updated_at"] == "TIMESTAMP" {
		d.log.Warn("updated_at has no time zone: it is read in that of the connection, which timezone=UTC in -dsn sets")
	}
	if len(faults) == 0 {
		return d.checkIndex(ctx)
	}
	return errors.Join(faults...)
}

// types returns the type of each column, as the driver calls it.
func (d *daemon) types(ctx context.Context) (map[string]string, error) {
	rows, err := d.db.QueryContext(ctx, "SELECT * FROM partition_state LIMIT 0")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	all, err := rows.ColumnTypes()
	types := map[string]string{}
	for _, c := range all {
		types[c.Name()] = c.DatabaseTypeName()
	}
	return types, errors.Join(err, rows.Err())
}

// indexOf is the statement for the index of sweeps. PostgreSQL builds it while others write.
func indexOf(dialect retrytable.Dialect) string {
	statement := "CREATE INDEX IF NOT EXISTS partition_state_failed ON partition_state (updated_at) WHERE status = 'failed'"
	if dialect == retrytable.PostgreSQL {
		statement = strings.Replace(statement, "INDEX", "INDEX CONCURRENTLY", 1)
	}
	return statement
}

// checkIndex says if the index is missing. Without it, a sweep reads more rows.
func (d *daemon) checkIndex(ctx context.Context) error {
	exists, err := d.db.Exists(ctx, "partition_state_failed")
	if err == nil && !exists {
		d.log.Warn("sweeps without an index", "statement", indexOf(d.db.Dialect))
	}
	return err
}
