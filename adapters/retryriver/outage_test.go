package retryriver_test

import (
	"context"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// TestOutage has workers lose the database again and again.
func TestOutage(t *testing.T) {
	t.Parallel()
	outage := &enginetest.Outage{
		Open: func(t testing.TB, cable *enginetest.Cable) enginetest.Queue {
			t.Helper()
			q := open(t)
			q.cable = cable
			q.worker = river.Config{TestOnly: true} // which starts maintenance at once
			return q
		},
		Again: true,                                                         // River stores an outcome again that it could not store at once
		Lost:  func(q enginetest.Queue) error { return rescue(q.(*queue)) }, //nolint:forcetypeassert // see Open
	}
	outage.Run(t)
}

// rescue has jobs be stuck that have run for longer than River tries to store an outcome,
// and the next client be the leader, which rescues them.
func rescue(q *queue) error {
	ctx := context.Background()
	_, err := q.pool.Exec(ctx, "UPDATE river_job SET attempted_at = attempted_at - INTERVAL '2 hours' "+
		"WHERE state = 'running' AND attempted_at < now() - $1::interval", 20*time.Second)
	if err != nil {
		return err
	}
	_, err = q.pool.Exec(ctx, "DELETE FROM river_leader")
	return err
}
