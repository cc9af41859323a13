//nolint:thelper // what Each calls is the test itself
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// definitions are the columns of the table.
var definitions = strings.ReplaceAll(shared.MustSchema(schemaYAML).Tables[0].ByHand, "\n", ", ")

// The required numbers.
const (
	base   = 5 * time.Minute
	limit  = 6 * time.Hour
	spread = 30 * time.Second
)

// newDaemon returns an instance and its log.
func newDaemon(db *shared.DB) (*daemon, *bytes.Buffer) {
	var logged bytes.Buffer
	return &daemon{
		db: db, policy: newPolicy(base, limit, spread), repeat: newRepeat(), interval: time.Millisecond,
		log: slog.New(slog.NewTextHandler(&logged, nil)),
	}, &logged
}

// create makes a table, which a user has already.
func create(t testing.TB, db *shared.DB) {
	t.Helper()
	dbtest.Exec(t, db, "CREATE TABLE partition_state ("+definitions+", run_id text, PRIMARY KEY (customer, query, partition_key))")
}

// validate plays the validator: it runs the pending partitions, each of which succeeds after its
// third failure, and returns how many are left.
func validate(t testing.TB, db *shared.DB) int {
	t.Helper()
	dbtest.Exec(t, db, `UPDATE partition_state SET updated_at = {now},
		status = CASE WHEN attempt_count < 3 THEN 'failed' ELSE 'success' END,
		attempt_count = CASE WHEN attempt_count < 3 THEN attempt_count + 1 ELSE attempt_count END
		WHERE status = 'pending'`)
	return dbtest.Get[int](t, db, `SELECT count(*) FROM partition_state
		WHERE status = 'pending' OR status = 'failed' AND `+notTerminal)
}

// insert stores a partition that failed some time ago.
func insert(t testing.TB, db *shared.DB, p partition, ago time.Duration, message any) {
	t.Helper()
	dbtest.Exec(t, db, `INSERT INTO partition_state
			(customer, query, partition_key, status, attempt_count, run_id, error_message, updated_at)
		VALUES ($1, $2, $3, 'failed', $4, 'run-1', $5, {now} - $6 * {microsecond})`,
		p.customer, p.query, p.key, p.attempts, message, ago.Microseconds())
}

func nth(i int) partition {
	return partition{customer: fmt.Sprint("c", i%3), query: fmt.Sprint("q", i%2), key: fmt.Sprint("d", i), attempts: 1}
}

// record is a row without updated_at.
type record struct {
	key, status, run, message string
	attempts                  int
}

func records(t *testing.T, db *shared.DB) []record {
	t.Helper()
	all, err := shared.Query(t.Context(), db, func(rows *sql.Rows) (r record, err error) {
		err = rows.Scan(&r.key, &r.status, &r.run, &r.message, &r.attempts)
		return r, err
	}, `SELECT customer || '/' || query || '/' || partition_key, status, run_id, coalesce(error_message, 'NULL'), attempt_count
		FROM partition_state ORDER BY customer, query, partition_key`)
	require.NoError(t, err)
	return all
}

// pending returns the keys of the partitions that were retried.
func pending(t *testing.T, db *shared.DB) (keys []string) {
	t.Helper()
	for _, r := range records(t, db) {
		if r.status == "pending" {
			keys = append(keys, r.key)
		}
	}
	return keys
}

func sweep(t *testing.T, d *daemon) int {
	t.Helper()
	n, err := d.sweep(t.Context(), selection{})
	require.NoError(t, err)
	return n
}

// Backoff Policy: base 5 minutes, delay = base * 2^(attempt_count-1), cap 6 hours,
// jitter ±30 seconds, whatever the attempt_count.
func TestBackoffPolicy(t *testing.T) {
	t.Parallel()
	d, _ := newDaemon(nil)
	require.NoError(t, d.policy.Validate())
	assert.Contains(t, d.policy.String(), "unlimited attempts, 5m0s ×2 ≤6h0m0s, ±30s jitter")
	for _, attempts := range []int{-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 60, 64, 1000, math.MaxInt} {
		exact := math.Min(float64(base)*math.Pow(2, float64(max(attempts, 1)-1)), float64(limit))
		low := time.Duration(exact) - spread
		high := min(time.Duration(exact)+spread, limit)
		for i := range 100 {
			p := nth(i)
			p.attempts = attempts
			assert.GreaterOrEqual(t, d.delay(p), low, attempts)
			assert.LessOrEqual(t, d.delay(p), high, attempts)
		}
	}
}

// Backoff Policy: the jitter is optional.
func TestNoJitter(t *testing.T) {
	t.Parallel()
	d := &daemon{policy: newPolicy(base, limit, 0)}
	for attempts, want := range []time.Duration{
		base, base, 2 * base, 4 * base, 8 * base, 16 * base, 32 * base, 64 * base, limit, limit,
	} {
		assert.Equal(t, want, d.delay(partition{attempts: attempts}), attempts)
	}
}

// Backoff Policy: the jitter avoids a thundering herd, so it has to differ from
// partition to partition and from attempt to attempt over the whole range.
func TestJitterSpreads(t *testing.T) {
	t.Parallel()
	d, _ := newDaemon(nil)
	for _, attempts := range []int{1, 2, 7} {
		var off []time.Duration
		for i := range 1000 {
			p := nth(i)
			p.attempts = attempts
			off = append(off, d.delay(p)-base<<(attempts-1))
		}
		slices.Sort(off)
		// Uniform: the 5th and 95th of a hundred are 27 s from the middle, with a
		// standard error of 0.4 s; the middle's is 0.9 s.
		assert.InDelta(t, -27, off[50].Seconds(), 2)
		assert.InDelta(t, 0, off[500].Seconds(), 4)
		assert.InDelta(t, 27, off[950].Seconds(), 2)
	}
	first, second := nth(1), nth(1)
	second.attempts = 2
	assert.NotEqual(t, d.delay(first)+base, d.delay(second))
}

// Eligibility condition: now - updated_at >= delay_for(attempt_count), to the
// millisecond, in every evaluation and every instance. With a new jitter at
// each evaluation, the earliest of the 50 draws would win.
func TestEligibilityCondition(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		db, _ = dbtest.StopClock(t, db, time.Now()) // so that the limit is exact
		create(t, db)
		d, _ := newDaemon(db)
		var due []string
		for i := range 60 {
			p := nth(i)
			p.attempts = i%10 + 1
			insert(t, db, p, d.delay(p)-time.Duration(i%2)*time.Millisecond, nil)
			if i%2 == 0 {
				due = append(due, p.name())
			}
		}
		slices.Sort(due)
		for range 50 {
			instance, _ := newDaemon(db)
			instance.dryRun = true
			assert.Equal(t, len(due), sweep(t, instance))
		}
		assert.Equal(t, len(due), sweep(t, d))
		assert.Equal(t, due, pending(t, db))
	})
}

// Selection Logic 1: only failed partitions are looked at.
func TestOnlyFailed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		create(t, db)
		for i, status := range []string{"pending", "success", "running"} {
			insert(t, db, nth(i), 24*time.Hour, nil)
			dbtest.Exec(t, db, "UPDATE partition_state SET status = $1 WHERE partition_key = $2", status, nth(i).key)
		}
		before := records(t, db)
		d, _ := newDaemon(db)
		for _, force := range []bool{false, true} {
			found, err := d.eligible(t.Context(), selection{force: force})
			require.NoError(t, err)
			assert.Empty(t, found)
			retried, err := d.stateRetry(t.Context(), []partition{nth(0), nth(1), nth(2)}, force)
			require.NoError(t, err)
			assert.Empty(t, retried)
		}
		assert.Equal(t, before, records(t, db))
	})
}

// Selection Logic 2: a partition whose message contains [terminal] is skipped, and
// its flag is not cleared.
func TestTerminalIsSkipped(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		create(t, db)
		for i, message := range []any{
			"[terminal]", "policy: [terminal] no such column", "x [terminal]", // skipped
			nil, "", "terminal", "[Terminal]", "[terminal", "no such column", // not
		} {
			insert(t, db, partition{customer: "c", query: "q", key: fmt.Sprint("d", i), attempts: 1}, 24*time.Hour, message)
		}
		d, _ := newDaemon(db)
		assert.Equal(t, 6, sweep(t, d))
		for i, r := range records(t, db) {
			assert.Equal(t, i < 3, r.status == "failed", r)
		}
		assert.Equal(t, "policy: [terminal] no such column", records(t, db)[1].message)

		// Cleared by hand.
		dbtest.Exec(t, db, "UPDATE partition_state SET error_message = 'no such column' WHERE partition_key = 'd1'")
		assert.Equal(t, 1, sweep(t, d))
	})
}

// Responsibilities: the transition is exactly that of the command. It touches
// neither run_id nor attempt_count nor error_message.
func TestSameTransitionAsCommand(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		create(t, db)
		insert(t, db, partition{customer: "acme", query: "q", key: "d", attempts: 3}, time.Hour, "quota exceeded")
		insert(t, db, partition{customer: "zeta", query: "q", key: "d", attempts: 3}, time.Hour, "quota exceeded")
		assert.Contains(t, dbtest.Run(t, program.Run, "state", "retry", "-dsn", db.DSN, "-customer", "acme"), "\n1 retried\n")
		d, _ := newDaemon(db)
		assert.Equal(t, 1, sweep(t, d))
		assert.Equal(t, []record{
			{"acme/q/d", "pending", "run-1", "quota exceeded", 3},
			{"zeta/q/d", "pending", "run-1", "quota exceeded", 3},
		}, records(t, db))
		old := dbtest.Get[int](t, db, "SELECT count(*) FROM partition_state WHERE updated_at < {now} - 10000000 * {microsecond}")
		assert.Zero(t, old, "updated_at is that of the transition")
	})
}

// The command: it selects by customer and query, follows the backoff unless it is
// forced, and with a dry run prints what it would do.
func TestCommand(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
		want []string
	}{
		{"all", nil, []string{"a/x/1", "a/y/1", "b/x/1"}},
		{"customer", []string{"-customer", "a"}, []string{"a/x/1", "a/y/1"}},
		{"query", []string{"-query", "x"}, []string{"a/x/1", "b/x/1"}},
		{"both", []string{"-customer", "b", "-query", "x"}, []string{"b/x/1"}},
		{"forced", []string{"-customer", "a", "-force"}, []string{"a/x/1", "a/x/2", "a/x/3", "a/y/1"}},
		{"policy", []string{"-base", "1s", "-cap", "2s", "-jitter", "0"}, []string{"a/x/1", "a/x/2", "a/y/1", "b/x/1"}},
		{"dry run", []string{"-dry-run"}, nil},
	}
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		create(t, db)
		for _, tt := range tests {
			dbtest.Exec(t, db, "DELETE FROM partition_state")
			insert(t, db, partition{customer: "a", query: "x", key: "1", attempts: 1}, time.Hour, nil)
			insert(t, db, partition{customer: "a", query: "x", key: "2", attempts: 1}, time.Minute, nil)
			insert(t, db, partition{customer: "a", query: "x", key: "3", attempts: 1}, time.Hour, "[terminal]")
			insert(t, db, partition{customer: "a", query: "y", key: "1", attempts: 1}, time.Hour, nil)
			insert(t, db, partition{customer: "b", query: "x", key: "1", attempts: 1}, time.Hour, nil)
			said := fmt.Sprintf("\n%d retried\n", len(tt.want))
			if tt.want == nil {
				said = "\n3 would be retried\n"
			}
			assert.Contains(t, dbtest.Run(t, program.Run, append([]string{"state", "retry", "-dsn", db.DSN}, tt.args...)...), said, tt.name)
			assert.Equal(t, tt.want, pending(t, db), tt.name)
		}
	})
}

// Automation Flow 4: each action is logged with timestamp, partition key,
// attempt_count, and delay.
func TestLog(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		create(t, db)
		p := partition{customer: "acme", query: "clicks", key: "2026-11-19", attempts: 2}
		insert(t, db, p, time.Hour, nil)
		d, logged := newDaemon(db)
		sweep(t, d)
		assert.Regexp(t, fmt.Sprintf(`^time=\S+ level=INFO msg=retry partition=acme/clicks/2026-11-19 `+
			`attempt_count=2 delay=%v dry_run=false\n$`, d.delay(p)), logged.String())
	})
}

// Implementation Notes: dry runs change nothing, and log the actions that they
// would take.
func TestDryRun(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		create(t, db)
		insert(t, db, nth(0), time.Hour, nil)
		before := records(t, db)
		d, logged := newDaemon(db)
		d.dryRun = true
		assert.Equal(t, 1, sweep(t, d))
		assert.Equal(t, 1, sweep(t, d))
		assert.Equal(t, before, records(t, db))
		assert.Equal(t, 2, strings.Count(logged.String(), "dry_run=true"))
	})
}

// A dry run needs SELECT, and a retry UPDATE besides: no more.
func TestPrivileges(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, retrytable.PostgreSQL)
	create(t, db)
	role := "retry_" + strings.ToLower(rand.Text()[:16])
	dbtest.Exec(t, db, "CREATE ROLE "+role)
	u, err := url.Parse(db.DSN)
	require.NoError(t, err)
	dbtest.Exec(t, db, "GRANT USAGE ON SCHEMA "+u.Query().Get("search_path")+" TO "+role)
	dbtest.Exec(t, db, "GRANT SELECT ON partition_state TO "+role)
	t.Cleanup(func() {
		_, err := db.ExecContext(context.WithoutCancel(t.Context()), "DROP OWNED BY "+role+"; DROP ROLE "+role)
		assert.NoError(t, err)
	})
	settings := u.Query()
	settings.Set("role", role)
	u.RawQuery = settings.Encode()

	insert(t, db, nth(0), time.Hour, nil)
	assert.Contains(t, dbtest.Run(t, program.Run, "state", "retry", "-dsn", u.String(), "-dry-run"), "\n1 would be retried\n")
	served, stop := dbtest.Start(t, program.Run, "serve", "-dry-run", "-dsn", u.String(), "-interval", "1ms")
	served.Await(t, "msg=retry .* dry_run=true")
	assert.ErrorIs(t, stop(), context.Canceled)
	assert.ErrorContains(t, program.Run(t.Context(), []string{"state", "retry", "-dsn", u.String()}, io.Discard), "permission denied")

	dbtest.Exec(t, db, "GRANT UPDATE ON partition_state TO "+role)
	assert.Contains(t, dbtest.Run(t, program.Run, "state", "retry", "-dsn", u.String()), "\n1 retried\n")
	insert(t, db, nth(1), time.Hour, nil)
	served, stop = dbtest.Start(t, program.Run, "serve", "-dsn", u.String(), "-interval", "1ms")
	served.Await(t, `level=WARN msg="sweeps without an index" statement="CREATE INDEX CONCURRENTLY`)
	served.Await(t, "msg=retry partition="+nth(1).name())
	assert.ErrorIs(t, stop(), context.Canceled)
}

// A row without a valid attempt_count is retried as after its first failure, and
// does not stop the others.
func TestNoAttemptCount(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		odd := "NULL"
		if db.Dialect == retrytable.SQLite {
			odd = "'many'"
		}
		create(t, db)
		for i := range 3 {
			insert(t, db, nth(i), time.Hour, nil)
		}
		dbtest.Exec(t, db, "UPDATE partition_state SET attempt_count = NULL WHERE partition_key = 'd0'")
		dbtest.Exec(t, db, "UPDATE partition_state SET attempt_count = "+odd+" WHERE partition_key = 'd1'")
		d, _ := newDaemon(db)
		assert.Equal(t, 3, sweep(t, d))
		unchanged := dbtest.Get[int](t, db, "SELECT count(*) FROM partition_state "+
			"WHERE status = 'pending' AND (attempt_count IS NULL OR CAST(attempt_count AS text) = "+odd+")")
		assert.Equal(t, 2, unchanged)
	})
}

// A row without a key cannot be named: it stays, and does not stop the others.
func TestNoKey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		dbtest.Exec(t, db, "CREATE TABLE partition_state ("+definitions+", run_id text)")
		insert(t, db, nth(0), time.Hour, nil)
		dbtest.Exec(t, db, "UPDATE partition_state SET customer = NULL, query = NULL, partition_key = NULL")
		insert(t, db, nth(1), time.Hour, nil)
		d, _ := newDaemon(db)
		assert.Equal(t, 1, sweep(t, d))
	})
}

// The clock of the database decides: workers with clocks an hour off, either way,
// do the same as all others.
func TestWorkerClockOff(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		dbtest.Each(t, func(t *testing.T, db *shared.DB) {
			create(t, db)
			db, _ = dbtest.StopClock(t, db, time.Now().Add(-off))
			d, _ := newDaemon(db)
			for i := range 20 {
				p := nth(i)
				insert(t, db, p, d.delay(p)+time.Minute*time.Duration(i%2*2-1), nil)
			}
			assert.Equal(t, 10, sweep(t, d))
			for _, key := range pending(t, db) {
				assert.Regexp(t, `[13579]$`, key)
			}
			future := dbtest.Get[int](t, db, "SELECT count(*) FROM partition_state WHERE updated_at > {now}")
			assert.Zero(t, future)
		})
	}
}

// watch makes the database itself record each change to pending, with the time
// since the failure.
func watch(t *testing.T, db *shared.DB) {
	t.Helper()
	dbtest.Exec(t, db, "CREATE TABLE transitions (key text, attempt_count bigint, microseconds bigint)")
	const key = "NEW.customer || '/' || NEW.query || '/' || NEW.partition_key, NEW.attempt_count, "
	if db.Dialect == retrytable.SQLite {
		dbtest.Exec(t, db, `CREATE TRIGGER watch AFTER UPDATE ON partition_state WHEN NEW.status = 'pending'
			BEGIN INSERT INTO transitions VALUES (`+key+`NEW.updated_at - OLD.updated_at); END`)
		return
	}
	dbtest.Exec(t, db, `CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO transitions VALUES (`+key+`extract(epoch FROM NEW.updated_at - OLD.updated_at) * 1000000);
		RETURN NULL; END $$`)
	dbtest.Exec(t, db, `CREATE TRIGGER watch AFTER UPDATE ON partition_state FOR EACH ROW
		WHEN (NEW.status = 'pending') EXECUTE FUNCTION watch()`)
}

func transitions(t *testing.T, db *shared.DB) int {
	t.Helper()
	return dbtest.Get[int](t, db, "SELECT count(*) FROM transitions")
}

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
