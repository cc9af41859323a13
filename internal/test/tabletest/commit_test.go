//nolint:thelper // what forEach calls is the test itself
package tabletest_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrysql"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// What is to be done after the commit is done once the outcome is stored: not for a try that
// was rolled back, and before After. FinishArgs is asked for a failure only, because no other
// statement has parameters.
func TestAfterCommit(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		table := jobs()
		table.Set.Fail = "note = $1"
		s.create(t, table, 2)
		var told []string
		say := func(ctx context.Context, what string) {
			retrysql.AfterCommit(ctx, func(context.Context) { told = append(told, what) })
		}
		first := true
		w := &retrytable.Worker[int64]{
			Table: table, DB: s.db,
			Work: func(_ context.Context, job *retrytable.Job[int64]) error {
				if job.ID == 2 {
					return retry.MarkFinal(errors.New("no"))
				}
				job.InTx(func(ctx context.Context, _ *sql.Tx) error {
					say(ctx, "Job.InTx")
					if first {
						first = false
						return retry.MarkRetryable(errors.New("a conflict"))
					}
					return nil
				})
				return nil
			},
			FinishArgs: func(o *retrytable.Outcome[int64]) []any {
				told = append(told, "FinishArgs")
				return []any{o.Err.Error()}
			},
			InTx: func(ctx context.Context, _ *sql.Tx, _ *retrytable.Outcome[int64]) error {
				say(ctx, "InTx")
				return nil
			},
			After: func(context.Context, *retrytable.Outcome[int64]) { told = append(told, "After") },
		}
		for range 2 {
			_, err := w.Once(t.Context())
			require.NoError(t, err)
		}
		assert.Equal(t, []string{"Job.InTx", "InTx", "After", "FinishArgs", "InTx", "After"}, told)
		assert.Equal(t, "no", query(t, s.db, "SELECT note FROM jobs WHERE id = 2")[0][0])
	})
}
