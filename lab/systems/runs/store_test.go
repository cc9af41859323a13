//nolint:thelper // what Each calls is the test itself
package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// record is the state of a run in its row.
type record struct {
	status     string
	retryCount int
	errorClass string        // "" is NULL
	due        time.Duration // until next_retry_at; 0 is NULL
	held       bool          // there is a lease
}

// read reads a row, with due cut to seconds: a little has passed meanwhile.
func read(t *testing.T, db *shared.DB, id string) (r record) {
	t.Helper()
	var next, lease, now shared.Instant
	require.NoError(t, db.QueryRowContext(t.Context(), db.SQL(`SELECT status, retry_count, coalesce(error_class, ''),
		next_retry_at, lease_until, {now} FROM runs WHERE id = $1`), id).
		Scan(&r.status, &r.retryCount, &r.errorClass, &next, &lease, &now))
	if !next.IsZero() {
		r.due = next.Sub(now.Time) + time.Second - time.Nanosecond
		r.due -= r.due % time.Second
	}
	r.held = !lease.IsZero()
	return r
}

// at is an instant so far from now, as the table has it, which would round it up.
func at(db *shared.DB, d time.Duration) retrytable.Instant {
	return retrytable.Instant{Time: time.Now().Add(d).Truncate(time.Millisecond), As: newStore(db, 0, "").Instants}
}

// submit submits runs, each a day after the one before.
func submit(t *testing.T, db *shared.DB, category string, ids ...string) {
	t.Helper()
	for i, id := range ids {
		dbtest.Exec(t, db, "INSERT INTO runs (id, category, url, submitted_date) VALUES ($1, $2, '', $3)",
			id, category, at(db, -time.Duration(len(ids)-i)*24*time.Hour))
	}
}

// forward lets time pass.
func forward(t *testing.T, db *shared.DB, d time.Duration) {
	t.Helper()
	back := "%s = %[1]s - $1 * interval '1 second'"
	if db.Dialect == retrytable.SQLite {
		back = "%s = strftime('%%Y-%%m-%%dT%%H:%%M:%%f+00:00', julianday(%[1]s) - $1 / 86400.0)"
	}
	dbtest.Exec(t, db, "UPDATE runs SET "+fmt.Sprintf(back, "next_retry_at")+", "+fmt.Sprintf(back, "lease_until"), d.Seconds())
}

// retryIn has runs wait for their first retry.
func retryIn(t *testing.T, db *shared.DB, d time.Duration, which string) {
	t.Helper()
	dbtest.Exec(t, db, "UPDATE runs SET status = 'error', retry_count = 1, error_class = 'retryable', next_retry_at = $1 WHERE "+which, at(db, d))
}

// newTestStore makes the table runs.
func newTestStore(t testing.TB, db *shared.DB) *store {
	t.Helper()
	dbtest.Run(t, program.Run, "migrate", "-dsn", db.DSN)
	return newStore(db, time.Minute, "")
}

// claimed claims up to n runs, and returns their IDs in that order.
func claimed(t *testing.T, s *store, n int) (ids []string) {
	t.Helper()
	for range n {
		rows, err := s.Claim(t.Context(), s.db, 1, s.categories...)
		require.NoError(t, err)
		for _, row := range rows {
			ids = append(ids, row.ID)
		}
	}
	return ids
}

// One run of each kind, as in the "Example ordering" of the requirements: new runs and those whose
// retry is due compete by submitted_date.
func TestGetNextRunToProcessOrdering(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newTestStore(t, db)
		submit(t, db, "web", "retry ready", "new 1", "new 2", "not ready yet", "failed for good")
		retryIn(t, db, -time.Millisecond, "id = 'retry ready'")
		retryIn(t, db, 24*time.Hour, "id = 'not ready yet'")
		dbtest.Exec(t, db, `UPDATE runs SET submitted_date = (SELECT submitted_date FROM runs WHERE id = 'new 2')
			WHERE id = 'not ready yet'`)
		dbtest.Exec(t, db, "UPDATE runs SET status = 'error', error_class = 'final', submitted_date = $1 WHERE id = 'failed for good'",
			at(db, -240*time.Hour))
		assert.Equal(t, []string{"retry ready", "new 1", "new 2"}, claimed(t, s, 5))
		assert.Equal(t, record{"error", 1, "retryable", 24 * time.Hour, false}, read(t, db, "not ready yet"))
		forward(t, db, 25*time.Hour)
		assert.Equal(t, []string{"not ready yet"}, claimed(t, s, 5))
	})
}

// However many new runs there are, an older one gets its retry. However many
// older ones wait for theirs, a new one is processed at once.
func TestNoStarvation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newTestStore(t, db)
		var old []string
		for i := range 100 {
			old = append(old, fmt.Sprintf("old %02d", i))
		}
		submit(t, db, "web", old...)
		retryIn(t, db, time.Minute, "true")
		submit(t, db, "web", "new 1", "new 2", "new 3", "new 4", "new 5")
		dbtest.Exec(t, db, "UPDATE runs SET submitted_date = $1 WHERE id LIKE 'new%'", at(db, 0))
		assert.Equal(t, []string{"new 1", "new 2"}, claimed(t, s, 2))
		forward(t, db, time.Minute)
		assert.Equal(t, append(old[:100:100], "new 3"), claimed(t, s, 101))
	})
}

func TestFilteringByAllowedCategories(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		all := newTestStore(t, db)
		some := newStore(db, time.Minute, "web, api")
		submit(t, db, "batch", "batch new", "batch due", "batch lost")
		submit(t, db, "web", "web new", "web due", "web lost")
		submit(t, db, "api", "api")
		retryIn(t, db, 0, "id LIKE '%due'")
		dbtest.Exec(t, db, "UPDATE runs SET status = 'processing', lease_until = $1 WHERE id LIKE '%lost'", at(db, 0))
		lost, err := some.Sweep(t.Context(), db, 10, some.categories...)
		require.NoError(t, err)
		require.Len(t, lost, 1)
		assert.Equal(t, "web lost", lost[0].ID)
		assert.ElementsMatch(t, []string{"web new", "web due", "api"}, claimed(t, some, 10))
		assert.Equal(t, "error", read(t, db, "batch due").status)
		assert.ElementsMatch(t, []string{"batch new", "batch due"}, claimed(t, all, 10))
	})
}

// A retry that is due stays what it is to everybody, until it is processed: an error
// whose next_retry_at has come.
func TestStatusUnchangedUntilProcessed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newTestStore(t, db)
		submit(t, db, "web", "older", "a")
		retryIn(t, db, -time.Second, "id = 'a'")
		before := read(t, db, "a")
		assert.Equal(t, []string{"older"}, claimed(t, s, 1))
		assert.Equal(t, before, read(t, db, "a"))
		// By the query of whoever looks from outside.
		found := dbtest.Get[string](t, db, `SELECT id FROM runs
			WHERE status = 'discovered' OR status = 'error' AND next_retry_at <= $1 ORDER BY submitted_date`, at(db, 0))
		assert.Equal(t, "a", found)
		assert.Equal(t, []string{"a"}, claimed(t, s, 1))
		assert.Equal(t, record{"processing", 1, "retryable", 0, true}, read(t, db, "a"))
	})
}

// The columns of the document decide, whoever writes them, and nothing else.
func TestOneTruth(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newTestStore(t, db)
		submit(t, db, "web", "by hand", "now", "ahead", "final")
		dbtest.Exec(t, db, "UPDATE runs SET status = 'error', error_class = 'final'")
		dbtest.Exec(t, db, "UPDATE runs SET status = 'discovered', retry_count = 9 WHERE id = 'by hand'")
		dbtest.Exec(t, db, "UPDATE runs SET next_retry_at = $1 WHERE id = 'now'", at(db, 0))
		dbtest.Exec(t, db, "UPDATE runs SET next_retry_at = $1 WHERE id = 'ahead'", at(db, time.Hour))
		assert.Equal(t, []string{"by hand", "now"}, claimed(t, s, 4))
		dbtest.Exec(t, db, "UPDATE runs SET status = 'discovered', next_retry_at = $1 WHERE id = 'final'", at(db, time.Hour))
		assert.Equal(t, []string{"final"}, claimed(t, s, 4))
	})
}

// What was stored is there for the next process.
func TestRetryStatePersistence(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newTestStore(t, db)
		submit(t, db, "web", "a")
		assert.Equal(t, record{status: "discovered"}, read(t, db, "a"))
		for retryCount := range 3 {
			rows, err := s.Claim(t.Context(), s.db, 1)
			require.NoError(t, err)
			require.Len(t, rows, 1)
			d := defaultPolicy.Next(rows[0].State, errPassing, rows[0].Now())
			require.NoError(t, s.Fail(t.Context(), db, rows[0].Lease, d, errorClass(d.Verdict)))
			again := dbtest.Reopen(t, db)
			want := record{"error", retryCount + 1, "retryable", time.Minute << retryCount, false}
			assert.Equal(t, want, read(t, again, "a"))
			forward(t, db, d.Delay)
			s = newStore(again, time.Minute, "")
		}
	})
}

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
					s := newTestStore(b, dbtest.New(b, dialect))
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

// A worker whose clock is an hour off, in either direction, breaks nothing. It is
// the clock of the database that is set here: the two differ all the same.
func TestWorkerClockOff(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		dbtest.Each(t, func(t *testing.T, db *shared.DB) {
			now := time.Now().Add(off)
			db, clock := dbtest.StopClock(t, db, now)
			pass := func(d time.Duration) {
				now = now.Add(d)
				clock.Set(now)
			}
			p := newTest(t, db)
			submit(t, db, "web", "a")
			p.errs = []error{errPassing, limited(2 * time.Minute)}
			p.one(true)
			assert.Equal(t, record{"error", 1, "retryable", time.Minute, false}, read(t, db, "a"))
			pass(time.Minute - time.Millisecond)
			p.one(false)
			pass(time.Millisecond)
			p.one(true)
			assert.Equal(t, record{"error", 1, "rate_limited", 2 * time.Minute, false}, read(t, db, "a"), "the wait is the hint")
			p.one(false)
			pass(2 * time.Minute)

			// Dead, and not taken over as long as the lease holds.
			assert.Equal(t, []string{"a"}, claimed(t, p.store, 1))
			pass(time.Minute - time.Millisecond)
			p.one(false)
			assert.Equal(t, record{"processing", 1, "rate_limited", 0, true}, read(t, db, "a"))
			pass(time.Millisecond)
			p.one(false)
			assert.Equal(t, record{"error", 2, "retryable", 2 * time.Minute, false}, read(t, db, "a"))
			pass(2 * time.Minute)
			p.one(true)
			assert.Equal(t, record{status: "passed"}, read(t, db, "a"))
		})
	}
}
