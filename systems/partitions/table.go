package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared"
)

// columns are what a daemon needs of the table, which is the user's: a daemon makes
// neither the table nor an index.
var columns = shared.Columns("customer", "text", "query", "text", "partition_key", "text", "status", "text",
	"attempt_count", "bigint", "error_message", "text", "updated_at", "{instant}")

// checks are conditions that no failed partition may meet. To PostgreSQL they are errors if the
// column has another type.
var checks = []shared.Check{
	shared.Never("status", "text", "status = 'failed' AND status = 'pending'", "", ""),
	shared.Never("attempt_count", "bigint", "status = 'failed' AND attempt_count < 0", "is negative", "1"),
	shared.Never("error_message", "text", "status = 'failed' AND "+notTerminal+" IS NULL", "", ""),
	// In 20 years, and as long ago, is the wrong unit, or no instant.
	shared.Never("updated_at", "timestamptz", "status = 'failed' AND coalesce({updated} NOT BETWEEN {now} - 630720000000000 * "+
		"{microsecond} AND {now} + 630720000000000 * {microsecond}, true)", "is no instant of these years", "{stamp}"),
}

// check refuses a table that does not fit. Each fault names the column, and a statement
// that repairs it.
func (d *daemon) check(ctx context.Context) error {
	types, err := d.db.ColumnTypes(ctx, d.db, "partition_state")
	if err != nil {
		return err
	}
	if d.db.Dialect == retrytable.SQLite && types["updated_at"] != "" && !strings.Contains(types["updated_at"], "INT") {
		found, err := shared.One[string](ctx, d.db, "SELECT CAST(updated_at AS text) FROM partition_state WHERE updated_at IS NOT NULL LIMIT 1")
		if err != nil {
			return err
		}
		d.stamp = stamp(found)
	}
	table := shared.Table{Name: "partition_state", ByHand: columns}
	for _, c := range checks {
		c.Wrong, c.Instead = d.sql(c.Wrong), d.sql(c.Instead)
		table.Checks = append(table.Checks, c)
	}
	if _, err := d.db.Lacks(ctx, d.db, []shared.Table{table}); err != nil {
		return fmt.Errorf("%w\nit has to have %s", err, d.db.SQL(definitions()))
	}
	if types["updated_at"] == "timestamp without time zone" {
		d.log.Warn("updated_at has no time zone: it is read in that of the connection, which timezone=UTC in -dsn sets")
	}
	return d.checkIndex(ctx)
}

// stamp is the SQL for this instant as text in the form of another one, which other programs read: with
// its separator, fractions of a second if it has some, and Z, an offset or nothing for UTC.
func stamp(found string) string {
	form := regexp.MustCompile(`^[\d-]{10}([ T])[\d:]{8}(\.\d+)?(Z?)$`).FindStringSubmatch(found)
	if form == nil {
		return retrytable.RFC3339.Now(retrytable.SQLite)
	}
	seconds := "%S"
	if form[2] != "" {
		seconds = "%f" // which has the whole ones too
	}
	return "strftime('%Y-%m-%d" + form[1] + "%H:%M:" + seconds + form[3] + "', 'now')"
}

// sql has the words of [shared.DB.SQL], and {updated} for updated_at as an instant that can be
// computed with, and {stamp} for what is written to it: SQLite's may be text.
func (d *daemon) sql(statement string) string {
	updated, stamp := "updated_at", "{now}"
	if d.stamp != "" {
		updated, stamp = "CAST(round(unixepoch(updated_at, 'subsec') * 1000000) AS integer)", d.stamp
	}
	return d.db.SQL(strings.NewReplacer("{updated}", updated, "{stamp}", stamp).Replace(statement))
}

// definitions are the columns of a new table.
func definitions() string {
	var all []string
	for _, c := range columns {
		all = append(all, c.Name+" "+c.Type)
	}
	return strings.Join(all, ", ")
}

// indexOf is the statement for the index of sweeps. PostgreSQL builds it while others write.
func indexOf(dialect retrytable.Dialect) string {
	kind := "INDEX"
	if dialect == retrytable.PostgreSQL {
		kind = "INDEX CONCURRENTLY"
	}
	return "CREATE " + kind + " IF NOT EXISTS partition_state_failed ON partition_state (updated_at) WHERE status = 'failed'"
}

// checkIndex says if the index is missing. Without it, a sweep reads more rows.
func (d *daemon) checkIndex(ctx context.Context) error {
	exists, err := d.db.Exists(ctx, d.db, "partition_state_failed")
	if err == nil && !exists {
		d.log.Warn("sweeps without an index", "statement", indexOf(d.db.Dialect))
	}
	return err
}
