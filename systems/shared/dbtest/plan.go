package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared"
)

// Plan is a [retrytable.DB] that notes how the database goes about each query.
type Plan struct {
	*shared.DB

	t    testing.TB
	text strings.Builder
}

// Explain returns a database that notes its plans.
func Explain(t testing.TB, db *shared.DB) *Plan {
	t.Helper()
	return &Plan{DB: db, t: t}
}

// String returns the plans so far.
func (p *Plan) String() string { return p.text.String() }

// QueryContext implements [retrytable.DB].
func (p *Plan) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	p.t.Helper()
	explain := "EXPLAIN "
	if p.Dialect == retrytable.SQLite {
		explain = "EXPLAIN QUERY PLAN "
	}
	lines, err := shared.Query(ctx, p.DB, lastColumn, explain+query, args...)
	require.NoError(p.t, err)
	p.text.WriteString(strings.Join(lines, "\n") + "\n")
	return p.DB.QueryContext(ctx, query, args...)
}

// lastColumn is where the text is, in both databases.
func lastColumn(rows *sql.Rows) (string, error) {
	columns, err := rows.Columns()
	into := make([]any, len(columns))
	for i := range into {
		into[i] = new(sql.NullString)
	}
	err = errors.Join(err, rows.Scan(into...))
	return into[len(into)-1].(*sql.NullString).String, err
}
