package tabletest_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// sustained are the variants of a table in PostgreSQL that are compared. Each is the
// Schema, and what is changed after it.
var sustained = []struct{ name, change string }{
	{"as Schema has it", ""},
	{"fillfactor 70", "ALTER TABLE jobs SET (fillfactor = 70)"},
	{"sweep index without the lease", "DROP INDEX jobs_sweep; CREATE INDEX jobs_sweep ON jobs (id) WHERE status IN ('running')"},
	{
		"both", "ALTER TABLE jobs SET (fillfactor = 70); DROP INDEX jobs_sweep; " +
			"CREATE INDEX jobs_sweep ON jobs (id) WHERE status IN ('running')",
	},
}

// TestSustained has 16 workers claim, extend and fail the same jobs for as long as
// RETRY_TEST_SUSTAINED says, and prints how quick that was in the first fifth and in the
// last one, what the table and its indexes take at the end, and how many updates were HOT,
// which touch no index; see SUSTAINED.md. RETRY_TEST_SUSTAINED_ROWS is how many jobs there are.
//
//	RETRY_TEST_SUSTAINED=5m go test -run TestSustained -v -timeout 1h
func TestSustained(t *testing.T) { //nolint:paralleltest // the variants must not disturb each other
	long, err := time.ParseDuration(cmp.Or(os.Getenv("RETRY_TEST_SUSTAINED"), "0s"))
	require.NoError(t, err)
	if long <= 0 {
		t.Skip("takes minutes: RETRY_TEST_SUSTAINED says how many")
	}
	rows, err := strconv.Atoi(cmp.Or(os.Getenv("RETRY_TEST_SUSTAINED_ROWS"), "100000"))
	require.NoError(t, err)
	t.Log("| table | jobs/s first → last | p99 of a claim first → last | table MB start → end | indexes MB start → end | HOT |")
	for _, variant := range sustained { //nolint:paralleltest // the variants must not disturb each other
		t.Run(variant.name, func(t *testing.T) {
			s := kinds[0].open(t)
			s.db = openDB(t, s.driver, pgDSN(t, s.dsn, "synchronous_commit", "off")) // the disk is not what is measured
			s.db.SetMaxOpenConns(sustainedWorkers)
			s.db.SetMaxIdleConns(sustainedWorkers)
			s.create(t, &retrytable.Table[int64]{Name: "jobs"}, 0)
			if variant.change != "" {
				run(t, s.db, variant.change)
			}
			run(t, s.db, "INSERT INTO jobs (id) SELECT generate_series(1, $1::bigint)", rows)
			run(t, s.db, "VACUUM ANALYZE jobs")
			before := s.size(t)
			first, last := work(t, s, long)
			after := s.size(t)
			t.Logf("| %s | %.0f → %.0f | %v → %v | %.0f → %.0f | %.0f → %.0f | %.0f %% |", variant.name,
				first.rate, last.rate, first.p99.Round(100*time.Microsecond), last.p99.Round(100*time.Microsecond),
				before.table, after.table, before.indexes, after.indexes, after.hot)
		})
	}
}

const sustainedWorkers = 16

// pace is how quick the workers were for a while.
type pace struct {
	rate float64
	p99  time.Duration
}

// work returns the pace in the first fifth and in the last one.
func work(t *testing.T, s *store, long time.Duration) (first, last pace) {
	t.Helper()
	table := &retrytable.Table[int64]{Name: "jobs"}
	policy := &retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(5 * time.Second)}
	ctx, stop := context.WithTimeout(t.Context(), long)
	defer stop()
	var mu sync.Mutex
	var begin, end []time.Duration
	start := time.Now()
	var workers sync.WaitGroup
	for range sustainedWorkers {
		workers.Go(func() {
			for ctx.Err() == nil {
				asked := time.Now()
				rows, err := table.Claim(t.Context(), s.db, 1)
				took := time.Since(asked)
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				switch at := time.Since(start); {
				case len(rows) == 0:
				case at < long/5:
					begin = append(begin, took)
				case at > long-long/5:
					end = append(end, took)
				}
				mu.Unlock()
				for _, row := range rows {
					d := policy.Next(row.State, errWork, row.Now())
					assert.NoError(t, table.Extend(t.Context(), s.db, row.Lease, 0))
					assert.NoError(t, table.Fail(t.Context(), s.db, row.Lease, d))
				}
			}
		})
	}
	workers.Wait()
	return paceOf(begin, long/5), paceOf(end, long/5)
}

func paceOf(claims []time.Duration, long time.Duration) pace {
	slices.Sort(claims)
	p := pace{rate: float64(len(claims)) / long.Seconds()}
	if n := len(claims); n > 0 {
		p.p99 = claims[n*99/100]
	}
	return p
}

// size is what a table takes, in megabytes, and how many of its updates were HOT, in
// percent.
type size struct{ table, indexes, hot float64 }

func (s *store) size(t *testing.T) (z size) {
	t.Helper()
	run(t, s.db, "SELECT pg_stat_force_next_flush()")
	require.NoError(t, s.db.QueryRowContext(t.Context(), fmt.Sprintf(`SELECT pg_table_size(relid) / %[1]v, pg_indexes_size(relid) / %[1]v,
		100.0 * n_tup_hot_upd / greatest(n_tup_upd, 1) FROM pg_stat_user_tables WHERE relname = 'jobs' AND schemaname = current_schema()`,
		"1048576.0")).Scan(&z.table, &z.indexes, &z.hot))
	return z
}
