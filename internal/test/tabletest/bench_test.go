package tabletest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytable"
)

// BenchmarkClaim claims a job and ends it: two transactions, which PostgreSQL does
// not wait for to reach the disk, because that would be most of it. MariaDB does: that is
// a setting of the whole server. It prints the
// plan of the claim. Of the table's rows all are due, or 90 % wait and are the
// oldest, as an outage leaves them behind.
//
//	go test -run '^$' -bench . -benchtime 900x
func BenchmarkClaim(b *testing.B) {
	for _, k := range []kind{databases[0], databases[2], databases[3]} {
		for _, orderBy := range []string{"", "priority DESC, id"} {
			for _, waiting := range []int{0, 90} {
				for _, rows := range []int{10_000, 100_000, 1_000_000} {
					order := "due"
					if orderBy != "" {
						order = "priority"
					}
					b.Run(fmt.Sprintf("%s/order=%s/waiting=%d/rows=%d", k.dialectName(), order, waiting, rows), func(b *testing.B) {
						s := k.open(b)
						if s.dialect == retrytable.PostgreSQL {
							s.db = openDB(b, s.driver, pgDSN(b, s.dsn, "synchronous_commit", "off"))
						}
						table := &retrytable.Table[int64]{Name: "jobs", OrderBy: orderBy}
						s.fill(b, table, rows, waiting)
						s.analyze(b)
						if s.dialect == retrytable.PostgreSQL {
							run(b, s.db, "VACUUM jobs")
						}
						spied := &spy{DB: s.db, dialect: s.dialect}
						_, err := table.Claim(b.Context(), spied, 1)
						require.NoError(b, err)
						b.Log("\n" + spied.plan())
						b.ResetTimer()
						for range b.N {
							cycle(b, s, table)
						}
						b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "claims/s")
					})
				}
			}
		}
	}
}

// BenchmarkMerge claims in tables in which half of the rows are retries that are due, and new
// ones compete with them.
func BenchmarkMerge(b *testing.B) {
	for _, k := range []kind{databases[0], databases[2]} {
		for _, rows := range []int{200, 2000, 20_000, 200_000} {
			b.Run(fmt.Sprintf("%s/due=%d", k.dialectName(), rows/2), func(b *testing.B) {
				s := k.open(b)
				if s.dialect == retrytable.PostgreSQL {
					s.db = openDB(b, s.driver, pgDSN(b, s.dsn, "synchronous_commit", "off"))
				}
				table := &retrytable.Table[int64]{Name: "jobs", OrderBy: "priority DESC, id", Merge: true}
				s.fill(b, table, rows, 50)
				run(b, s.db, "UPDATE jobs SET due_at = $1 WHERE status = 'waiting'", s.instant(time.Now().Add(-time.Hour)))
				s.analyze(b)
				if s.dialect == retrytable.PostgreSQL {
					run(b, s.db, "VACUUM jobs")
				}
				b.ResetTimer()
				for range b.N {
					cycle(b, s, table)
				}
			})
		}
	}
}

// cycle claims a job and ends it.
func cycle(b *testing.B, s *store, table *retrytable.Table[int64]) {
	b.Helper()
	rows, err := table.Claim(b.Context(), s.db, 1)
	require.NoError(b, err)
	require.Len(b, rows, 1, "fewer jobs are due than -benchtime asks for")
	require.NoError(b, table.Succeed(b.Context(), s.db, rows[0].Lease))
}

func (k kind) dialectName() string {
	return map[retrytable.Dialect]string{
		retrytable.PostgreSQL: "postgres", retrytable.SQLite: "sqlite", retrytable.MySQL: "mariadb",
	}[k.dialect]
}
