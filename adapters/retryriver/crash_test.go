package retryriver_test

import (
	"context"
	"os"
	"strconv"
	"testing"

	"github.com/riverqueue/river"

	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// TestCrash kills worker processes at random moments.
func TestCrash(t *testing.T) {
	t.Parallel()
	crash := &enginetest.Crash{
		Open: func(t testing.TB) (enginetest.Queue, string) {
			t.Helper()
			q := open(t)
			return q, q.schema
		},
		Attach: func(t testing.TB, schema string) enginetest.Queue {
			t.Helper()
			q := attach(t, schema)
			q.worker = river.Config{
				ID: strconv.Itoa(os.Getpid()), TestOnly: true, // which starts maintenance at once
				Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}},
			}
			return q
		},
		Died: died,
	}
	crash.Run(t)
}

// died has the time of the jobs of dead processes run out, for which others would wait an
// hour, the next process be the leader, which rescues them, and what is due run.
func died(q enginetest.Queue, pids []int, _ []string) error {
	var clients []string
	for _, pid := range pids {
		clients = append(clients, strconv.Itoa(pid))
	}
	pool := q.(*queue).pool
	ctx := context.Background()
	_, err := pool.Exec(ctx, "UPDATE river_job SET attempted_at = attempted_at - INTERVAL '2 hours' "+
		"WHERE state = 'running' AND attempted_by[array_upper(attempted_by, 1)] = ANY($1)", clients)
	if err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, "DELETE FROM river_leader"); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, "UPDATE river_job SET state = 'available' WHERE state = 'retryable' AND scheduled_at <= now()")
	return err
}
