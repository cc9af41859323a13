//nolint:thelper // what Each calls is the test itself
package main

import (
	"context"
	"database/sql"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/systems/shared"
	"github.com/seed-5ff3c98e/retry/systems/shared/dbtest"
)

// quick is a daemon that sweeps all the time.
func quick(db *shared.DB) *daemon {
	return &daemon{
		db: db, interval: time.Millisecond, log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		policy: newPolicy(50*time.Millisecond, 150*time.Millisecond, 10*time.Millisecond),
	}
}

// TestMain runs a daemon if TestCrash starts this binary.
func TestMain(m *testing.M) {
	dbtest.Main(m, func(ctx context.Context, db *shared.DB) error { return quick(db).serve(ctx) })
}

// Crash Safety: instances die at any point, and nothing is scheduled twice, early,
// or never.
func TestCrash(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		const partitions, instances, kills = 100, 3, 50
		create(t, db)
		watch(t, db)
		d := quick(db)
		for i := range partitions {
			insert(t, db, nth(i), 0, nil)
		}
		dbtest.Kill(t, db, instances, kills, func() bool {
			return validate(t, db) == 0
		})

		type failure struct {
			key      string
			attempts int
		}
		waited := map[failure]time.Duration{}
		_, err := shared.Query(t.Context(), db, func(rows *sql.Rows) (f failure, err error) {
			var microseconds int64
			err = rows.Scan(&f.key, &f.attempts, &microseconds)
			assert.NotContains(t, waited, f, "twice")
			waited[f] = time.Duration(microseconds) * time.Microsecond
			return f, err
		}, "SELECT key, attempt_count, microseconds FROM transitions")
		require.NoError(t, err)
		assert.Len(t, waited, 3*partitions, "each after its first, second and third failure")
		for i := range partitions {
			p := nth(i)
			for p.attempts = 1; p.attempts <= 3; p.attempts++ {
				assert.GreaterOrEqual(t, waited[failure{p.name(), p.attempts}], d.delay(p), "early")
			}
		}
	})
}

// A context that ends in the middle of a sweep leaves nothing half done: the next
// sweep retries the remaining partitions.
func TestCanceledSweep(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		create(t, db)
		watch(t, db)
		const partitions = 60
		for i := range partitions {
			insert(t, db, nth(i), time.Hour, nil)
		}
		d, _ := newDaemon(db)
		for patience := 100 * time.Microsecond; len(pending(t, db)) < partitions; patience += patience / 4 {
			require.Less(t, patience, 5*time.Second, "no sweep gets to the end")
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			_, _ = d.sweep(ctx, selection{}) // fails in most cases
			cancel()
		}
		assert.Equal(t, partitions, transitions(t, db))
	})
}
