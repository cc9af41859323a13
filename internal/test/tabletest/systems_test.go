//nolint:thelper // what forEach calls is the test itself
package tabletest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytable"
)

// claimed claims up to n rows one by one, and returns their IDs in that order.
func claimed(t *testing.T, s *store, table *retrytable.Table[int64], n int) (ids []int64) {
	t.Helper()
	for range n {
		rows, err := table.Claim(t.Context(), s.db, 1)
		require.NoError(t, err)
		for _, row := range rows {
			ids = append(ids, row.ID)
		}
	}
	return ids
}

// Without an order, what has been due for longest goes first, new or not.
func TestOrderOfDueTimes(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		table := jobs()
		s.create(t, table, 6)
		for id, since := range map[int64]time.Duration{
			1: 10 * time.Minute, 2: 30 * time.Minute, 3: 20 * time.Minute, 4: 40 * time.Minute, 5: -time.Minute,
		} {
			s.ago(t, s.db, "due_at", id, since)
		}
		run(t, s.db, "UPDATE jobs SET status = 'waiting' WHERE id IN (2, 3)")
		run(t, s.db, "UPDATE jobs SET due_at = NULL WHERE id = 6")
		assert.Equal(t, []int64{6, 4, 2, 3, 1}, claimed(t, s, table, 10))
	})
}
