package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/examples/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// BenchmarkNext claims a run and ends it. One in ten of the runs is new; the others
// are done or wait, and with categories, some of those are due retries of one that
// is not allowed. It prints the plans.
//
//	go test -run '^$' -bench . -benchtime 400x -v
func BenchmarkNext(b *testing.B) {
	for name, dialect := range map[string]retrytable.Dialect{
		"sqlite": retrytable.SQLite, "postgres": retrytable.PostgreSQL,
	} {
		for which, categories := range map[string][]string{"all": nil, "some": {"0", "1", "2", "3", "4"}} {
			for _, rows := range []int{10_000, 100_000, 1_000_000} {
				b.Run(fmt.Sprintf("%s/%s/%d", name, which, rows), func(b *testing.B) {
					s := newStore(dbtest.Quick(b, dbtest.New(b, dialect)), time.Minute, categories)
					require.NoError(b, s.create(b.Context()))
					fill(b, s, rows)
					plan := dbtest.Explain(b, s.db)
					require.NoError(b, s.promoteIn(b.Context(), plan))
					_, err := s.Claim(b.Context(), plan, 1, s.categories...)
					require.NoError(b, err)
					b.Log("\n" + plan.String())
					b.ResetTimer()
					for range b.N {
						found, err := s.next(b.Context())
						require.NoError(b, err)
						require.Len(b, found, 1, "fewer runs are new than -benchtime asks for")
						require.NoError(b, s.Succeed(b.Context(), s.db, found[0].Lease, string(passed)))
					}
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
				})
			}
		}
	}
}

// fill submits so many runs, of the categories 0 to 9.
func fill(tb testing.TB, s *store, rows int) {
	tb.Helper()
	dbtest.Exec(tb, s.db, `
		WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < $1 - 1)
		INSERT INTO runs (id, category, url, submitted_date, status, state, next_retry_at, due_at)
		SELECT 'run ' || i, i / 10 % 10, '', {now} - (1000000 + i) * {microsecond},
			CASE WHEN i % 10 = 0 THEN 'discovered' WHEN i % 2 = 0 THEN 'error' ELSE 'passed' END,
			CASE WHEN i % 10 = 0 THEN 'ready' WHEN i % 2 = 0 THEN 'waiting' ELSE 'done' END,
			CASE WHEN i % 10 <> 0 AND i % 2 = 0 THEN {now} + 86400000000 * {microsecond} END,
			CASE WHEN i % 10 <> 0 AND i % 2 = 0 THEN {now} + 86400000000 * {microsecond} END
		FROM n`, rows)
	if len(s.categories) > 0 {
		dbtest.Exec(tb, s.db, "UPDATE runs SET next_retry_at = {now}, due_at = {now} WHERE category = '9' AND due_at IS NOT NULL")
	}
	dbtest.Exec(tb, s.db, "ANALYZE runs")
	if s.db.Dialect == retrytable.PostgreSQL {
		dbtest.Exec(tb, s.db, "VACUUM runs")
	}
}
