package main

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared"
	"github.com/seed-5ff3c98e/retry/systems/shared/dbtest"
)

// BenchmarkSweep retries 10 partitions of a table of 10,000 or 1,000,000, of which
// 1,000 have failed too and wait. It prints the plan of the query.
func BenchmarkSweep(b *testing.B) {
	for name, dialect := range map[string]retrytable.Dialect{
		"sqlite": retrytable.SQLite, "postgres": retrytable.PostgreSQL,
	} {
		for _, rows := range []int{10_000, 1_000_000} {
			b.Run(fmt.Sprintf("%s/%d", name, rows), func(b *testing.B) {
				db := dbtest.New(b, dialect)
				create(b, db)
				dbtest.Exec(b, db, `
					WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
					INSERT INTO partition_state
					SELECT 'c' || (i % 100), 'q' || (i % 7), 'd' || i, CASE WHEN i <= 1010 THEN 'failed' ELSE 'success' END, 1, 'run', '',
						CASE WHEN i <= 10 THEN {now} - 3600000000 * {microsecond} ELSE {now} END
					FROM n`, rows)
				dbtest.Exec(b, db, "ANALYZE")
				d, _ := newDaemon(db)
				plan := dbtest.Explain(b, db)
				_, err := shared.Query(b.Context(), plan, func(*sql.Rows) (any, error) { return nil, nil },
					(&daemon{db: db}).sql(selectFailed), base.Microseconds(), false, "", "")
				require.NoError(b, err)
				b.Log("\n" + plan.String())
				for b.Loop() {
					n, err := d.sweep(b.Context(), selection{})
					require.NoError(b, err)
					assert.Equal(b, 10, n)
					b.StopTimer()
					dbtest.Exec(b, db, `UPDATE partition_state SET status = 'failed',
						updated_at = {now} - 3600000000 * {microsecond} WHERE status = 'pending'`)
					b.StartTimer()
				}
				b.ReportMetric(float64(10*b.N)/b.Elapsed().Seconds(), "retries/s")
			})
		}
	}
}
