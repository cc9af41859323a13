package tabletest_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// sustained are the variants of a table in PostgreSQL that are compared. Each is the
// Schema, and what is changed after it.
var sustained = []struct{ name, change string }{
	{"as Schema has it", ""},
	{"autovacuum as the server has it", "ALTER TABLE jobs RESET (autovacuum_vacuum_scale_factor)"},
	{"autovacuum with no pause", "ALTER TABLE jobs SET (autovacuum_vacuum_cost_delay = 0)"},
	{"fillfactor 70", "ALTER TABLE jobs SET (fillfactor = 70)"},
}

// TestSustained has a Worker with 100 places fail the same jobs for as long as
// RETRY_TEST_SUSTAINED says, and prints how many there were in each fifteenth of the time,
// what the table and its indexes take then, how many updates were HOT, which touch no index,
// and how often the table was vacuumed; see SUSTAINED.md. There are jobs that are done
// besides. RETRY_TEST_SUSTAINED_ONLY names a single variant.
//
//	RETRY_TEST_SUSTAINED=15m go test -run TestSustained -v -timeout 2h
func TestSustained(t *testing.T) { //nolint:paralleltest // the variants must not disturb each other
	long, err := time.ParseDuration(cmp.Or(os.Getenv("RETRY_TEST_SUSTAINED"), "0s"))
	require.NoError(t, err)
	if long <= 0 {
		t.Skip("takes minutes: RETRY_TEST_SUSTAINED says how many")
	}
	autovacuum := query(t, kinds[0].open(t).db, "SHOW autovacuum")[0][0]
	require.Equal(t, "on", autovacuum, "of the server: without it, this shows nothing that users see")
	for _, done := range []int{0, 10_000_000} { //nolint:paralleltest // the variants must not disturb each other
		for _, variant := range sustained {
			name := fmt.Sprintf("%s, %d done", variant.name, done)
			if !strings.Contains(name, os.Getenv("RETRY_TEST_SUSTAINED_ONLY")) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				s := kinds[0].open(t)
				s.create(t, &retrytable.Table[int64]{Name: "jobs"}, 0)
				if variant.change != "" {
					run(t, s.db, variant.change)
				}
				run(t, s.db, "INSERT INTO jobs (id, status) SELECT i, 'done' FROM generate_series(100001, 100000 + $1::bigint) i", done)
				run(t, s.db, "INSERT INTO jobs (id) SELECT generate_series(1, 100000)")
				run(t, s.db, "VACUUM ANALYZE jobs")
				s.sustain(t, long)
			})
		}
	}
}

// sustain works on the jobs, each of which is due again a second after it has failed.
func (s *store) sustain(t *testing.T, long time.Duration) {
	t.Helper()
	const parts = 15
	var jobs atomic.Int64
	worker := &retrytable.Worker[int64]{
		Table: &retrytable.Table[int64]{Name: "jobs"}, DB: s.db, Concurrency: 100,
		Policy: &retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(time.Second)},
		Work: func(context.Context, *retrytable.Job[int64]) error {
			jobs.Add(1)
			return errWork
		},
	}
	ctx, stop := context.WithTimeout(t.Context(), long)
	defer stop()
	ended := make(chan error)
	go func() { ended <- worker.Run(ctx) }()
	t.Log("| part | jobs/s | table MB | indexes MB | HOT | vacuums |")
	start, before := time.Now(), int64(0)
	for part := range parts {
		select {
		case <-time.After(time.Until(start.Add(long * time.Duration(part+1) / parts))):
		case err := <-ended:
			t.Fatal("ended early:", err)
		}
		now, z := jobs.Load(), s.size(t)
		t.Logf("| %d | %.0f | %.0f | %.0f | %.0f %% | %d |",
			part+1, float64(now-before)/(long/parts).Seconds(), z.table, z.indexes, z.hot, z.vacuums)
		before = now
	}
	require.ErrorIs(t, <-ended, context.DeadlineExceeded)
}

// size is what a table takes, in megabytes, how many of its updates were HOT, in percent,
// and how often it was vacuumed.
type size struct {
	table, indexes, hot float64
	vacuums             int
}

func (s *store) size(t *testing.T) (z size) {
	t.Helper()
	run(t, s.db, "SELECT pg_stat_force_next_flush()")
	require.NoError(t, s.db.QueryRowContext(t.Context(), fmt.Sprintf(`SELECT pg_table_size(relid) / %[1]v, pg_indexes_size(relid) / %[1]v,
		100.0 * n_tup_hot_upd / greatest(n_tup_upd, 1), autovacuum_count FROM pg_stat_user_tables WHERE relname = 'jobs' AND schemaname = current_schema()`,
		"1048576.0")).Scan(&z.table, &z.indexes, &z.hot, &z.vacuums))
	return z
}
