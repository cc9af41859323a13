package retryriver_test

import (
	"context"
	"testing"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// Metadata that no attempt has written, because it is of another job or made up, neither ends a
// job nor keeps it.
func TestForgedMetadata(t *testing.T) {
	t.Parallel()
	q := open(t)
	client, err := q.client(q.pool, enginetest.Policies{}, &river.Config{})
	require.NoError(t, err)
	var all []int64
	for _, metadata := range []string{
		`{"retry_0": {"state": {}, "attempt": 30000, "rescues": 1000000}}`,
		`{"retry_0": {"state": {}, "attempt": -8}}`,
		`{"retry_5": {"state": {"failures": 2}, "attempt": 5, "ended": "discarded"}}`,
		`{"retry_7": {"state": {}, "attempt": 2}}`,
	} {
		inserted, err := client.Insert(t.Context(), args{"a", "kind-1"}, &river.InsertOpts{Metadata: []byte(metadata)})
		require.NoError(t, err)
		all = append(all, inserted.Job.ID)
	}
	w, err := q.Start(enginetest.Policies{Policy: &retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(0)}},
		func(context.Context, string) error { return assert.AnError })
	require.NoError(t, err)
	for _, id := range all {
		row := until(t, q, id, func(row *rivertype.JobRow) bool { return row.FinalizedAt != nil })
		assert.Equal(t, 3, row.Attempt)
	}
	require.NoError(t, w.Stop(t.Context()))
}
