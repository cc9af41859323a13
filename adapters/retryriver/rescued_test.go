package retryriver_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// River finishes a job by its ID and the state "running", and does not look at the attempt.
// So an attempt that goes on after its job was rescued ends the job, although a newer attempt
// runs; and what becomes of the newer one does not matter any more.
func TestRescuedAttemptEndsNewer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		old, newer error
		want       rivertype.JobState
		attempts   int
	}{
		{"success", nil, retry.MarkFinal(assert.AnError), rivertype.JobStateCompleted, 2},
		{"final failure", retry.MarkFinal(assert.AnError), nil, rivertype.JobStateCancelled, 2},
		{"failure", assert.AnError, nil, rivertype.JobStateCompleted, 3}, // the third runs beside the second
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			q.worker = river.Config{ // TestOnly has the leader rescue as soon as it is elected
				TestOnly: true, JobTimeout: 100 * time.Millisecond, RescueStuckJobsAfter: 300 * time.Millisecond,
			}
			p := enginetest.Policies{Policy: &retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(0)}}
			var attempts atomic.Int32
			ended := []chan error{make(chan error), make(chan error)}
			work := func(context.Context, string) error { // which does not heed its context
				n := attempts.Add(1)
				if int(n) > len(ended) {
					return nil
				}
				return <-ended[n-1]
			}
			first, err := q.Start(p, work)
			require.NoError(t, err)
			require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
			id := q.ids["a"]
			until(t, q, id, func(*rivertype.JobRow) bool { return attempts.Load() == 1 })
			time.Sleep(q.worker.RescueStuckJobsAfter)
			_, err = q.pool.Exec(t.Context(), "DELETE FROM river_leader")
			require.NoError(t, err)
			second, err := q.Start(p, work)
			require.NoError(t, err)
			until(t, q, id, func(row *rivertype.JobRow) bool {
				return attempts.Load() == 2 && row.State == rivertype.JobStateRunning
			})

			ended[0] <- test.old
			row := until(t, q, id, func(row *rivertype.JobRow) bool { return row.State == test.want })
			assert.Equal(t, test.attempts, row.Attempt, "while the second attempt runs")
			ended[1] <- test.newer
			require.NoError(t, first.Stop(t.Context()))
			require.NoError(t, second.Stop(t.Context()))
			row = until(t, q, id, func(*rivertype.JobRow) bool { return true })
			assert.Equal(t, test.want, row.State, "in spite of the newer attempt")
		})
	}
}
