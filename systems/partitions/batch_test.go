//nolint:thelper // what Each calls is the test itself
package main

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/retrytest"
	"github.com/seed-5ff3c98e/retry/systems/shared"
	"github.com/seed-5ff3c98e/retry/systems/shared/dbtest"
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
