//nolint:thelper // what Each calls is the test itself
package main

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// Implementation Notes: retries are batched per customer and query, whatever the order
// in which they failed.
func TestBatches(t *testing.T) {
	t.Parallel()
	assert.Empty(t, batches(nil))
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		create(t, db)
		for i := range 12 {
			insert(t, db, nth(i), time.Hour+time.Duration(i)*time.Minute, nil)
		}
		d, _ := newDaemon(db)
		all, err := d.eligible(t.Context(), selection{})
		require.NoError(t, err)
		var keys []string
		for _, batch := range batches(all) {
			for _, p := range batch {
				keys = append(keys, p.name())
			}
			keys = append(keys, "")
		}
		assert.Equal(t, []string{
			"c0/q0/d0", "c0/q0/d6", "", "c0/q1/d3", "c0/q1/d9", "", "c1/q0/d10", "c1/q0/d4", "",
			"c1/q1/d1", "c1/q1/d7", "", "c2/q0/d2", "c2/q0/d8", "", "c2/q1/d11", "c2/q1/d5", "",
		}, keys)
	})
}

// A repeated transaction reports only the changes of the last one.
func TestRepeatedBatch(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, retrytable.PostgreSQL)
	create(t, db)
	insert(t, db, partition{customer: "c", query: "q", key: "1", attempts: 1}, time.Hour, nil)
	insert(t, db, partition{customer: "c", query: "q", key: "2", attempts: 1}, time.Hour, nil)
	dbtest.Exec(t, db, "CREATE SEQUENCE updates") // which no rollback takes back
	dbtest.Exec(t, db, `CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('updates') = 2 THEN RAISE EXCEPTION 'conflict' USING ERRCODE = 'serialization_failure'; END IF;
		RETURN NEW; END $$`)
	dbtest.Exec(t, db, "CREATE TRIGGER conflict BEFORE UPDATE ON partition_state FOR EACH ROW EXECUTE FUNCTION conflict()")
	d, logged := newDaemon(db)
	assert.Equal(t, 2, sweep(t, d))
	assert.Equal(t, 2, strings.Count(logged.String(), "msg=retry"), logged)
	assert.Len(t, pending(t, db), 2)
}

// A database that refuses everything is not asked much more often than once for each
// batch.
func TestBudget(t *testing.T) {
	t.Parallel()
	const failing, reserve = 6, 3 // of a Budget
	db := dbtest.New(t, retrytable.PostgreSQL)
	create(t, db)
	for i := range failing {
		insert(t, db, nth(i), time.Hour, nil)
	}
	dbtest.Exec(t, db, "CREATE SEQUENCE updates")
	dbtest.Exec(t, db, `CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM nextval('updates'); RAISE EXCEPTION 'conflict' USING ERRCODE = 'serialization_failure'; END $$`)
	dbtest.Exec(t, db, "CREATE TRIGGER conflict BEFORE UPDATE ON partition_state FOR EACH ROW EXECUTE FUNCTION conflict()")
	d, _ := newDaemon(db)
	d.repeat.Clock = &retrytest.Clock{} // nobody waits
	_, err := d.sweep(t.Context(), selection{})
	assert.ErrorIs(t, err, retry.StopBudget)
	updates := dbtest.Get[int](t, db, "SELECT last_value FROM updates")
	assert.Equal(t, failing+reserve, updates)
}

// A batch that fails does not stop the others, and is repeated by the next sweep.
func TestFailedBatch(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, retrytable.SQLite)
	create(t, db)
	for i := range 3 {
		insert(t, db, nth(i), time.Hour, nil)
	}
	dbtest.Exec(t, db, `CREATE TRIGGER broken BEFORE UPDATE ON partition_state WHEN NEW.customer = 'c1'
		BEGIN SELECT RAISE(ABORT, 'out of order'); END`)
	d, _ := newDaemon(db)
	n, err := d.sweep(t.Context(), selection{})
	assert.ErrorContains(t, err, "out of order")
	assert.Equal(t, 2, n)
	dbtest.Exec(t, db, "DROP TRIGGER broken")
	assert.Equal(t, 1, sweep(t, d))
}

// A partition that becomes terminal, or fails again, or is touched, or is pending, between the
// query and the command stays as it is: updated_at is moved by others too, and then the timer starts
// again, and the command is idempotent.
func TestStaleSelection(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"terminal":     "UPDATE partition_state SET error_message = '[terminal]'",
		"failed again": "UPDATE partition_state SET attempt_count = 2",
		"touched":      "UPDATE partition_state SET updated_at = {now}",
		"pending":      "UPDATE partition_state SET status = 'pending'",
	}
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		create(t, db)
		d, _ := newDaemon(db)
		for name, meanwhile := range tests {
			dbtest.Exec(t, db, "DELETE FROM partition_state")
			insert(t, db, nth(0), time.Hour, nil)
			stale, err := d.eligible(t.Context(), selection{})
			require.NoError(t, err)
			require.Len(t, stale, 1)
			dbtest.Exec(t, db, meanwhile)
			before := records(t, db)
			retried, err := d.stateRetry(t.Context(), stale, false)
			require.NoError(t, err)
			assert.Empty(t, retried, name)
			assert.Equal(t, before, records(t, db), name)
			assert.Equal(t, name == "failed again", sweep(t, d) > 0, name)
		}
	})
}

// Concurrency: three instances run at once, each with its own connection, and
// every partition transitions once.
func TestInstances(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		create(t, db)
		watch(t, db)
		const partitions, instances, sweeps = 100, 3, 30
		for i := range partitions {
			insert(t, db, nth(i), time.Hour, nil)
		}
		var wg sync.WaitGroup
		var retried [instances]int
		for i := range instances {
			d, _ := newDaemon(dbtest.Reopen(t, db))
			wg.Go(func() {
				for range sweeps {
					n, err := d.sweep(t.Context(), selection{})
					assert.NoError(t, err)
					retried[i] += n
				}
			})
		}
		wg.Wait()
		assert.Equal(t, partitions, retried[0]+retried[1]+retried[2], retried)
		assert.Equal(t, partitions, transitions(t, db))
		assert.Len(t, pending(t, db), partitions)
	})
}

// row is a row of any table, as text, and how old it is.
type row struct {
	customer, query, key, status, run, message string
	attempts, count                            int
	age                                        time.Duration
}

func rowsOf(t *testing.T, db *shared.DB) []row {
	t.Helper()
	all, err := shared.Query(t.Context(), db, func(rows *sql.Rows) (r row, err error) {
		var updated, now shared.Instant
		err = rows.Scan(&r.customer, &r.query, &r.key, &r.status, &r.run, &r.message, &r.attempts, &r.count, &updated, &now)
		r.age = now.Sub(updated.Time)
		return r, err
	}, db.SQL(`SELECT customer, query, CAST(partition_key AS text), status, CAST(run_id AS text),
		coalesce(error_message, 'NULL'), attempt_count, row_count, CAST(updated_at AS {instant}), {now}
		FROM partition_state ORDER BY 1, 2, 3`))
	require.NoError(t, err)
	return all
}

// retriable is what the document says, with no help from the library.
func retriable(r row) bool {
	delay := 5 * time.Minute
	for range r.attempts - 1 {
		delay = min(2*delay, 6*time.Hour)
	}
	return r.status == "failed" && !strings.Contains(r.message, "[terminal]") && r.age >= delay
}

// A pipeline's own table, with 1,000 partitions in every state: two daemons make pending
// what the document says, and change nothing else. No partition is within two minutes of
// its delay.
func TestTableOfTheAuthor(t *testing.T) {
	t.Parallel()
	for _, instant := range []string{"timestamptz", "timestamp"} {
		dbtest.Each(t, func(t *testing.T, db *shared.DB) {
			if db.Dialect == retrytable.PostgreSQL {
				db = dbtest.Reopen(t, &shared.DB{DSN: db.DSN + "&timezone=Asia/Tokyo"})
			}
			dbtest.Author(t, db, "timestamptz", instant)
			want := rowsOf(t, db)
			due := 0
			for i, r := range want {
				if retriable(r) {
					want[i].status, want[i].age = "pending", 0
					due++
				}
			}
			require.Len(t, want, 1000)
			require.Greater(t, due, 100)
			require.Less(t, due, 300)
			first, stopFirst := dbtest.Start(t, program.Run, "serve", "-dsn", db.DSN, "-interval", "10ms")
			second, stopSecond := dbtest.Start(t, program.Run, "serve", "-dsn", db.DSN, "-interval", "10ms")
			retries := func() int { return strings.Count(first.String()+second.String(), "msg=retry ") }
			require.Eventually(t, func() bool { return retries() >= due }, 20*time.Second, 10*time.Millisecond)
			time.Sleep(100 * time.Millisecond) // for retries that should not be
			assert.ErrorIs(t, stopFirst(), context.Canceled)
			assert.ErrorIs(t, stopSecond(), context.Canceled)
			assert.Equal(t, due, retries())
			noTime := func(rows []row) []row {
				for i := range rows {
					assert.InDelta(t, want[i].age, rows[i].age, float64(time.Minute), "%v", rows[i])
					rows[i].age = 0
				}
				return rows
			}
			got := noTime(rowsOf(t, db))
			assert.Equal(t, noTime(want), got)
		})
	}
}

// old is a daemon as the document has it, in plain SQL.
func old(ctx context.Context, db *shared.DB, base, limit time.Duration) error {
	failed, err := shared.Query(ctx, db, func(rows *sql.Rows) (p partition, err error) {
		var updated, now shared.Instant
		err = rows.Scan(&p.customer, &p.query, &p.key, &p.attempts, &updated, &now)
		p.age = now.Sub(updated.Time)
		return p, err
	}, db.SQL(`SELECT customer, query, partition_key, attempt_count, updated_at, {now} FROM partition_state
		WHERE status = 'failed' AND error_message NOT LIKE '%[terminal]%'`))
	for _, p := range failed {
		if p.age < min(base<<(p.attempts-1), limit) {
			continue
		}
		if _, err := db.ExecContext(ctx, db.SQL(`UPDATE partition_state SET status = 'pending', updated_at = {now}
			WHERE customer = $1 AND query = $2 AND partition_key = $3 AND status = 'failed'`), p.customer, p.query, p.key); err != nil {
			return err
		}
	}
	return err
}

// Old and new daemons at once, for as long as dbtest.Together says: every failure is retried,
// and once.
func TestOldAndNewDaemons(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		create(t, db)
		watch(t, db)
		insert(t, db, partition{customer: "c", query: "q", key: "terminal", attempts: 1}, time.Hour, "[terminal]")
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var daemons sync.WaitGroup
		for range 2 {
			before, now := dbtest.Reopen(t, db), quick(dbtest.Reopen(t, db))
			daemons.Go(func() {
				for ctx.Err() == nil {
					if err := old(ctx, before, 50*time.Millisecond, 150*time.Millisecond); ctx.Err() == nil {
						assert.NoError(t, err)
					}
					_ = new(retry.Policy).Sleep(ctx, time.Millisecond)
				}
			})
			daemons.Go(func() { _ = now.serve(ctx) })
		}
		partitions := 0
		for end := time.Now().Add(dbtest.Together(t)); time.Now().Before(end); {
			for range 100 {
				insert(t, db, nth(partitions), 0, "quota exceeded")
				partitions++
			}
			for stuck := time.Now().Add(20 * time.Second); validate(t, db) > 0; {
				require.True(t, time.Now().Before(stuck), "stuck")
				require.NoError(t, new(retry.Policy).Sleep(ctx, 5*time.Millisecond))
			}
		}
		stop()
		daemons.Wait()
		all := transitions(t, db)
		distinct := dbtest.Get[int](t, db, "SELECT count(*) FROM (SELECT DISTINCT key, attempt_count FROM transitions) t")
		assert.Equal(t, 3*partitions, all, "each after its first, second and third failure")
		assert.Equal(t, all, distinct, "none twice")
	})
}
