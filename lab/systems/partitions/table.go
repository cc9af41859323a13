package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// definitions are the columns that a daemon needs of the table, which is the user's: a daemon makes
// neither the table nor an index.
const definitions = "customer text, query text, partition_key text, status text, " +
	"attempt_count bigint, error_message text, updated_at {instant}"

// indexOfSweeps is the statement that makes the index of sweeps.
const indexOfSweeps = "CREATE INDEX{concurrently} IF NOT EXISTS partition_state_failed " +
	"ON partition_state (updated_at) WHERE status = 'failed'"

// check refuses a table that does not fit. Each fault names the column, and a statement
// that repairs it.
func (d *daemon) check(ctx context.Context) error {
	have, err := d.db.ColumnsOf(ctx, d.db, "partition_state")
	if err != nil {
		return err
	}
	if d.db.Dialect == retrytable.SQLite && !strings.Contains(have["updated_at"].Type, "INT") {
		d.stamp = d.db.TextLike("partition_state", "updated_at")
	}
	columns := strings.Fields(strings.ReplaceAll(definitions, ",", ""))
	table := shared.Table{Name: "partition_state", ByHand: shared.Columns(columns...)}
	// Conditions that no failed partition may meet. To PostgreSQL they are errors if the column has another type.
	table.Checks = []shared.Check{
		shared.Never("status", "text", "status = 'failed' AND status = 'pending'", "", ""),
		shared.Never("attempt_count", "bigint", "status = 'failed' AND attempt_count < 0", "is negative", "1"),
		shared.Never("error_message", "text", "status = 'failed' AND "+notTerminal+" IS NULL", "", ""),
		// In 20 years, and as long ago, is the wrong unit, or no instant.
		shared.Never("updated_at", "timestamptz", d.sql("status = 'failed' AND coalesce({updated} NOT BETWEEN "+
			"{now} - 630720000000000 * {microsecond} AND {now} + 630720000000000 * {microsecond}, true)"),
			"is no instant of these years", d.sql("{stamp}")),
	}
	if _, err := d.db.Lacks(ctx, d.db, []shared.Table{table}); err != nil {
		return fmt.Errorf("%w\nit has to have %s", err, d.db.SQL(definitions))
	}
	if have["updated_at"].Type == "timestamp without time zone" {
		d.log.Warn("updated_at has no time zone: it is read in that of the connection, which timezone=UTC in -dsn sets")
	}
	// Without the index, a sweep reads more rows.
	exists, err := d.db.Exists(ctx, d.db, "partition_state_failed")
	if err == nil && !exists {
		d.log.Warn("sweeps without an index", "statement", d.db.SQL(indexOfSweeps))
	}
	return err
}

// sql has the words of [shared.DB.SQL], and {updated} for updated_at as an instant that can be
// computed with, and {stamp} for what is written to it: SQLite's may be text.
func (d *daemon) sql(statement string) string {
	updated := "updated_at"
	if d.stamp != retrytable.DefaultInstants {
		updated = "CAST(round(unixepoch(updated_at, 'subsec') * 1000000) AS integer)"
	}
	return d.db.SQL(strings.NewReplacer("{updated}", updated, "{stamp}", d.stamp.Now(d.db.Dialect)).Replace(statement))
}
