package retrypool_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypool"
)

// The pool is one more driver of the decider. internal/test/contract checks that it
// does the same as Execute.

// A budget is shared by all tasks: successes earn what failures spend.
func TestBudgetOfAllTasks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := every(time.Second)
		p.Budget = &retry.Budget{Ratio: 1, Reserve: retry.NoReserve, TTL: time.Hour}
		pool := &retrypool.Pool{Workers: 1, Policy: p}
		var tasks []*retrypool.Task
		for range 2 {
			submit(t.Context(), t, pool, succeeds)
		}
		for range 3 {
			tasks = append(tasks, submit(t.Context(), t, pool, fails))
		}
		attempts := 0
		for _, task := range tasks {
			err := task.Wait(t.Context())
			require.ErrorIs(t, err, retry.StopBudget)
			var e *retry.Error
			require.ErrorAs(t, err, &e)
			attempts += e.Attempts
		}
		assert.Equal(t, 3+2, attempts)
	})
}
