package main

import (
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared/dbtest"
)

// BenchmarkStart starts a task as a starter does: it claims the task, reads it, and
// has it run. A tenth of the tasks is pending, the others wait or are done. Older
// ones may be held back, by the five of their kind that run. It prints the plan of
// the claim.
//
//	go test -run '^$' -bench . -benchtime 900x -v
func BenchmarkStart(b *testing.B) {
	for name, dialect := range map[string]retrytable.Dialect{
		"sqlite": retrytable.SQLite, "postgres": retrytable.PostgreSQL,
	} {
		for _, size := range []struct{ tasks, held int }{
			{10_000, 0},
			{100_000, 0},
			{1_000_000, 0},
			{1_000_000, 1_000},
			{1_000_000, 30_000},
		} {
			b.Run(fmt.Sprintf("%s/tasks=%d/held=%d", name, size.tasks, size.held), func(b *testing.B) {
				s := crowded(b, dialect, size.tasks, size.held)
				plan := dbtest.Explain(b, s.db)
				_, err := s.starts.Claim(b.Context(), plan, 1)
				require.NoError(b, err)
				b.Log("\n" + plan.String())
				for b.Loop() {
					more, err := startNext(b.Context(), s)
					require.NoError(b, err)
					require.True(b, more, "fewer tasks are pending than -benchtime asks for")
					b.StopTimer()
					dbtest.Exec(b, s.db, "UPDATE task SET status = 'success' WHERE status IN ('claimed', 'running') AND kind = 'free'")
					b.StartTimer()
				}
			})
		}
	}
}

// crowded returns a service with so many tasks, and so many that are held back.
func crowded(b *testing.B, dialect retrytable.Dialect, tasks, held int) *service {
	b.Helper()
	db := dbtest.Quick(b, dbtest.New(b, dialect))
	c, err := readConfig(func(string) string { return "" })
	require.NoError(b, err)
	s := newService(db, c, slog.New(slog.DiscardHandler))
	require.NoError(b, s.db.Migrate(b.Context(), io.Discard, s.schema(), false))
	const limit = 5
	dbtest.Exec(b, db, `
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1),
		t AS (SELECT i, CASE WHEN i <= $2 THEN 'limited' ELSE 'free' END AS kind,
			CASE WHEN i <= $3 THEN 'running' WHEN i <= $2 OR i % 10 = 0 THEN 'pending' WHEN i % 10 = 1 THEN 'waiting'
				WHEN i % 10 = 2 THEN 'retry_pending' ELSE 'success' END AS status FROM n)
		INSERT INTO task (id, batch_id, position, local_id, name, kind, max_concurrency, timeout, status,
			next_retry_at, lease_until, created_at, last_updated)
		SELECT 'task-' || i, 'batch-' || i / 100, i, 'local', 'Name', kind, CASE kind WHEN 'limited' THEN $3 ELSE 100 END, 60, status,
			CASE status WHEN 'retry_pending' THEN {now} + 3600000000 * {microsecond} END,
			NULL, {now} + i * {microsecond}, {now}
		FROM t`, held+limit+tasks, held+limit, limit)
	if dialect == retrytable.PostgreSQL {
		dbtest.Exec(b, db, "VACUUM task")
	}
	dbtest.Exec(b, db, "ANALYZE task")
	return s
}
