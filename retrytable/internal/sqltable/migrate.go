package sqltable

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// turn is the SQL by which migrations take turns: a query that has 1 if the lock was free, and the
// statement that gives it back. They are "" where a transaction does that.
type turn struct{ take, leave string }

var turns = []turn{
	PostgreSQL: {
		"SELECT CASE WHEN pg_try_advisory_lock(" + postgresTurn + ") THEN 1 ELSE 0 END",
		"SELECT pg_advisory_unlock(" + postgresTurn + ")",
	},
	SQLite: {},
	MySQL:  {"SELECT coalesce(GET_LOCK(" + mysqlTurn + ", 0), 0)", "DO RELEASE_LOCK(" + mysqlTurn + ")"},
}

const (
	postgresTurn = "hashtext('retrytable.Migrate'), hashtext(coalesce(current_schema(), ''))"
	mysqlTurn    = "concat('retrytable.Migrate ', left(coalesce(database(), ''), 40))"
)

// betweenTries is how long a migration waits before it looks again whether it is its turn. To
// wait in a statement would hold up an index that another one makes CONCURRENTLY.
const betweenTries = 50 * time.Millisecond

// Turn waits until no other migration runs, and takes the turn on this connection until leave is
// called, or the server ends the connection and what it still runs.
func (t *Table) Turn(ctx context.Context, conn DB) (leave func(context.Context) error, err error) {
	sql := turns[t.Dialect]
	if sql.take == "" {
		return func(context.Context) error { return nil }, nil
	}
	timer := time.NewTicker(betweenTries)
	defer timer.Stop()
	for {
		mine, err := one[int](ctx, conn, sql.take)
		if err != nil {
			return nil, err
		}
		if mine == 1 {
			return func(ctx context.Context) error {
				_, err := conn.ExecContext(context.WithoutCancel(ctx), sql.leave)
				return err
			}, nil
		}
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// one returns the one value of a query.
func one[T any](ctx context.Context, db DB, query string, args ...any) (value T, err error) {
	err = each(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&value) }, query, args...)
	return value, err
}

// Hurry are the statements before those that alter a table, so that they do not wait for its lock for
// long: all others would wait behind them. In SQLite, they make the transaction a writer.
func (t *Table) Hurry() []string {
	switch t.Dialect {
	case PostgreSQL:
		return []string{"SET LOCAL lock_timeout = '1s'"}
	case MySQL:
		return []string{"SET SESSION lock_wait_timeout = 1"}
	default:
		return []string{"CREATE TABLE retrytable_turn (turn)", "DROP TABLE retrytable_turn"}
	}
}

// Copy returns the statements that put a temporary copy of the table of MySQL in its place, for one
// connection, and those that are run when it was altered: the first gives it one of the rows, the
// others remove it.
func (c *Comparison) Copy(ctx context.Context, db DB) (before, after []string, err error) {
	schema, name := c.schemaAndName()
	var columns []string
	err = each(ctx, db, func(rows *sql.Rows) error {
		var column string
		err := rows.Scan(&column)
		columns = append(columns, c.dialect.quote(column))
		return err
	}, `SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = coalesce(?, DATABASE()) AND TABLE_NAME = ?
		AND EXTRA NOT LIKE '%GENERATED%' AND EXTRA NOT LIKE '%INVISIBLE%'`, sql.NullString{String: schema, Valid: schema != ""}, name)
	due := ""
	if _, ok := c.found[c.dialect.fold(c.Columns.Status)]; ok {
		due = " WHERE " + oneOf(c.status, c.Statuses.Ready)
	}
	list := strings.Join(columns, ", ")
	const row, like = "retrytable_row", "retrytable_like"
	before = []string{
		fmt.Sprintf("CREATE TEMPORARY TABLE %s AS SELECT %s FROM %s%s LIMIT 1", row, list, c.table, due),
		fmt.Sprintf("CREATE TEMPORARY TABLE %s LIKE %s", like, c.table),
		fmt.Sprintf("CREATE TEMPORARY TABLE %s LIKE %s", c.table, like),
	}
	after = []string{
		fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s", c.table, list, list, row),
		fmt.Sprintf("DROP TEMPORARY TABLE %s, %s, %s", row, like, c.table),
	}
	return before, after, err
}
