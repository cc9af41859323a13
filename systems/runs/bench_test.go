package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared/dbtest"
)

// BenchmarkNext claims a run and ends it. One in ten of the runs is new, half are done, and
// the others are retries that wait, or that are due. It prints the plans.
//
//	go test -run '^$' -bench . -benchtime 400x -v
func BenchmarkNext(b *testing.B) {
	for name, dialect := range map[string]retrytable.Dialect{
		"sqlite": retrytable.SQLite, "postgres": retrytable.PostgreSQL,
	} {
		for retries, in := range map[string]time.Duration{"waiting": 24 * time.Hour, "due": -time.Hour} {
			for _, rows := range []int{10_000, 100_000, 1_000_000} {
				b.Run(fmt.Sprintf("%s/%s/%d", name, retries, rows), func(b *testing.B) {
					s := newTestStore(b, dbtest.Quick(b, dbtest.New(b, dialect)))
					fill(b, s, rows, in)
					plan := dbtest.Explain(b, s.db)
					_, err := s.Claim(b.Context(), plan, 1)
					require.NoError(b, err)
					b.Log("\n" + plan.String())
					b.ResetTimer()
					for range b.N {
						found, err := s.Claim(b.Context(), s.db, 1)
						require.NoError(b, err)
						require.Len(b, found, 1, "fewer runs are new than -benchtime asks for")
						require.NoError(b, s.Succeed(b.Context(), s.db, found[0].Lease))
					}
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
				})
			}
		}
	}
}

// fill submits so many runs. Retries are due in so long.
func fill(tb testing.TB, s *store, rows int, in time.Duration) {
	tb.Helper()
	before := "$%d::timestamptz - i * interval '1 millisecond'"
	if s.Dialect == retrytable.SQLite {
		before = "strftime('%%FT%%R:%%f+00:00', julianday($%d) - i / 86400000.0)"
	}
	dbtest.Exec(tb, s.db, fmt.Sprintf(`
		WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < $1 - 1)
		INSERT INTO runs (id, category, url, submitted_date, status, next_retry_at)
		SELECT 'run ' || i, 'web', '', `+before+`,
			CASE WHEN i %% 10 = 0 THEN 'discovered' WHEN i %% 2 = 0 THEN 'error' ELSE 'passed' END,
			CASE WHEN i %% 10 <> 0 AND i %% 2 = 0 THEN `+before+` END
		FROM n`, 2, 3), rows, at(s.db, 0), at(s.db, in))
	dbtest.Exec(tb, s.db, "ANALYZE runs")
	if s.db.Dialect == retrytable.PostgreSQL {
		dbtest.Exec(tb, s.db, "VACUUM runs")
	}
}
