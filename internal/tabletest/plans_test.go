//nolint:thelper // what forEach calls is the test itself
package tabletest_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytable"
)

// spy explains the statements that are run, before it runs them.
type spy struct {
	retrytable.DB

	dialect retrytable.Dialect
	plans   []string
}

func (s *spy) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := s.explain(ctx, query, args); err != nil {
		return nil, err
	}
	return s.DB.ExecContext(ctx, query, args...)
}

func (s *spy) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := s.explain(ctx, query, args); err != nil {
		return nil, err
	}
	return s.DB.QueryContext(ctx, query, args...)
}

func (s *spy) explain(ctx context.Context, query string, args []any) error {
	how, columns := "EXPLAIN (COSTS OFF) ", 1
	if s.dialect == retrytable.SQLite {
		how, columns = "EXPLAIN QUERY PLAN ", 4
	}
	rows, err := s.DB.QueryContext(ctx, how+query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	var plan strings.Builder
	into := make([]any, columns)
	for i := range into {
		into[i] = new(any)
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		fmt.Fprintln(&plan, *into[columns-1].(*any))
	}
	s.plans = append(s.plans, plan.String())
	return rows.Err()
}

// plan returns that of the last statement.
func (s *spy) plan() string { return s.plans[len(s.plans)-1] }

// fill makes a large table: total rows, of which waiting percent wait for a later
// time and are older than all others, and the rest is due.
func (s *store) fill(t testing.TB, table *retrytable.Table[int64], total, waiting int) {
	t.Helper()
	table.Dialect, table.Instants = s.dialect, s.instants
	run(t, s.db, "CREATE TABLE jobs (id integer PRIMARY KEY, priority integer, payload text)")
	run(t, s.db, table.Schema())
	serie, integer, step := "generate_series(1, $1) AS i", "::bigint", "i"
	switch {
	case s.dialect == retrytable.SQLite:
		serie, integer = "(WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < $1) SELECT i FROM r)", ""
	case s.instants == retrytable.Timestamptz:
		integer, step = "::timestamptz", "i * interval '1 microsecond'"
	}
	later, due := "$3"+integer+" + "+step, "$4"+integer+" - "+step
	if table.OrderBy != "" {
		due = "CASE WHEN i < 0 THEN " + due + " END" // NULL
	}
	run(t, s.db, "INSERT INTO jobs (id, priority, payload, status, due_at) SELECT i, i % 10, '"+strings.Repeat("x", 200)+"', "+
		"CASE WHEN i <= $2 THEN 'waiting' ELSE 'ready' END, CASE WHEN i <= $2 THEN "+later+" ELSE "+due+" END FROM "+serie,
		total, total*waiting/100, s.instant(time.Now().Add(time.Hour)), s.instant(time.Now().Add(-time.Hour)))
}

// Every statement finds its rows in an index, in the order of the index, whatever
// the table is full of. SQLite need not know what that is.
func TestPlans(t *testing.T) {
	t.Parallel()
	forEach(t, kinds, func(t *testing.T, s *store) {
		for _, orderBy := range []string{"", "priority DESC, id"} {
			for _, waiting := range []int{0, 90} {
				testPlans(t, s, orderBy, waiting, true)
				if s.dialect == retrytable.SQLite {
					testPlans(t, s, orderBy, waiting, false)
				}
			}
		}
	})
}

// concurrencyLimit is a condition that only Claim has. It counts in jobs_sweep, whose
// condition SQLite wants word for word.
const concurrencyLimit = "(SELECT count(*) FROM jobs AS other WHERE other.status IN ('running')) < 100"

func testPlans(t *testing.T, s *store, orderBy string, waiting int, analyze bool) {
	t.Helper()
	ctx, table := t.Context(), &retrytable.Table[int64]{Name: "jobs", OrderBy: orderBy, ClaimWhere: concurrencyLimit}
	s.fill(t, table, 5000, waiting)
	if analyze {
		run(t, s.db, "ANALYZE jobs")
	}
	spied := &spy{DB: s.db, dialect: s.dialect}
	for _, n := range []int{1, 10} { // SQLite sorts more readily for one row
		rows, err := table.Claim(ctx, spied, n)
		require.NoError(t, err)
		require.Len(t, rows, n)
		assertPlan(t, spied, "jobs_claim")

		_, err = table.Sweep(ctx, spied, n)
		require.NoError(t, err)
		assertPlan(t, spied, "jobs_sweep")
		if orderBy != "" {
			_, err = table.Promote(ctx, spied, n)
			require.NoError(t, err)
			assertPlan(t, spied, "jobs_promote")
		}

		require.NoError(t, table.Succeed(ctx, spied, rows[0].ID, rows[0].Fence))
		assertPlan(t, spied, "")
	}
	run(t, s.db, "DROP TABLE jobs")
}

func assertPlan(t *testing.T, s *spy, index string) {
	t.Helper()
	plan := s.plan()
	assert.Contains(t, plan, index)
	assert.NotContains(t, plan, "Seq Scan")
	assert.NotContains(t, plan, "Sort")
	assert.NotContains(t, plan, "SCAN jobs\n")
	assert.NotContains(t, plan, "SCAN other\n")
	assert.NotContains(t, plan, "TEMP B-TREE")
}
