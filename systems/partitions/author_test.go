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

	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared"
	"github.com/seed-5ff3c98e/retry/systems/shared/dbtest"
)

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
					_ = shared.Wait(ctx, time.Millisecond)
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
				require.NoError(t, shared.Wait(ctx, 5*time.Millisecond))
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
