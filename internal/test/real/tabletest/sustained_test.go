package tabletest_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/retrytest"
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

// callers are how the work of a job calls a server, by a policy inside that gives up.
func callers() map[string]func(req *http.Request) error {
	get := func(client *http.Client, req *http.Request) error {
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if why := retryhttp.Why(resp); why != nil {
			return fmt.Errorf("the hook: %w", why)
		}
		if resp.StatusCode == http.StatusOK {
			return nil
		}
		return &retryhttp.StatusError{StatusCode: resp.StatusCode}
	}
	policy := func(attempts int) *retry.Policy {
		return &retry.Policy{MaxAttempts: attempts, Backoff: retry.Constant(0)}
	}
	by := func(attempts int) func(*http.Request) error {
		return func(req *http.Request) error {
			return policy(attempts).Execute(req.Context(), func(context.Context) error { return get(http.DefaultClient, req) })
		}
	}
	transport := &http.Client{Transport: &retryhttp.Transport{Policy: policy(3)}}
	return map[string]func(*http.Request) error{
		"one attempt": by(1), "three attempts": by(3),
		"Do": func(req *http.Request) error {
			return retryhttp.Do(nil, policy(1), req, func(*http.Response) error { return nil })
		},
		"Transport": func(req *http.Request) error { return get(transport, req) },
	}
}

// TestGivenUpInside runs jobs that call a server which refuses one call in three, by policies that
// give up: none is dead.
func TestGivenUpInside(t *testing.T) {
	t.Parallel()
	for name, call := range callers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEach(t, threeDatabases, func(t *testing.T, s *store) {
				t.Helper()
				givenUpInside(t, s, call)
			})
		})
	}
}

func givenUpInside(t *testing.T, s *store, call func(*http.Request) error) {
	t.Helper()
	const n = 30
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/1" && calls.Add(1) <= 3 || rand.IntN(3) == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	var events retrytest.Recorder
	var ended atomic.Int32
	w := retrytable.Worker[int64]{
		Table: jobs(), DB: s.db, Concurrency: 4, Poll: 10 * time.Millisecond,
		Policy: &retry.Policy{MaxAttempts: 30, Backoff: retry.Constant(time.Millisecond), Observer: events.Observer()},
		Work: func(ctx context.Context, job *retrytable.Job[int64]) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprint(server.URL, "/", job.ID), http.NoBody)
			assert.NoError(t, err)
			return call(req)
		},
		After: func(_ context.Context, o *retrytable.Outcome[int64]) {
			if !o.Released && !o.Decision.Retry && ended.Add(1) == n {
				stop()
			}
		},
	}
	s.create(t, w.Table, n)
	require.ErrorIs(t, w.Run(ctx), context.Canceled)
	assert.Equal(t, [][]any{{"done", int64(n)}}, query(t, s.db, "SELECT status, count(*) FROM jobs GROUP BY status"))
	again := 0
	for _, e := range events.Events() {
		if e.Kind == retry.Retrying {
			again++
			assert.Equal(t, "http_503", e.Verdict.Category)
			assert.True(t, strings.Contains(e.Err.Error(), "failed after") && strings.Contains(e.Err.Error(), "503"), "%v", e.Err)
		}
	}
	assert.Positive(t, again)
}
