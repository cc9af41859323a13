//nolint:thelper // what inBubble calls is the test itself
package tabletest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// There is more work than the worker can do: 20 urgent jobs that fail and are due again
// soon. What an order costs, and which one lets nobody starve, is as the comment of OrderBy
// says.
func TestOrderUnderOverload(t *testing.T) {
	t.Parallel()
	const old, urgent, ordinary = 20, 101, 102
	for name, test := range map[string]struct {
		orderBy, promote string
		begun            []int64 // of the new ones
	}{
		"by due time":  {"", "", []int64{urgent, ordinary}},
		"by priority":  {"priority DESC, created_at", "", nil},
		"by age":       {"created_at", "", nil},
		"by turn":      {"turn", "turn = due_at - priority * 60000000", []int64{urgent, ordinary}},
		"turn for now": {"turn", "", nil}, // the promotion has to give a new one
	} {
		eachInBubble(t, name, 0, func(t *testing.T, s *shop) {
			run(t, s.db, "DROP TABLE jobs")
			run(t, s.db, "CREATE TABLE jobs (id bigint PRIMARY KEY, priority integer NOT NULL, created_at bigint NOT NULL, turn bigint)")
			s.Table = &retrytable.Table[int64]{
				Dialect: s.dialect, Instants: s.instants, Name: "jobs",
				OrderBy: test.orderBy, Set: retrytable.Set{Promote: test.promote},
			}
			run(t, s.db, s.Table.Schema())
			insert := func(id int64, priority int) {
				now := time.Now().UnixMicro()
				run(t, s.db, "INSERT INTO jobs (id, priority, created_at, turn) VALUES ($1, $2, $3, $4)",
					id, priority, now, now-int64(priority)*60_000_000)
				if test.orderBy == "" {
					run(t, s.db, "UPDATE jobs SET due_at = $1 WHERE id = $2", now, id)
				}
			}
			for id := range int64(old) {
				insert(id, 5)
			}
			s.Policy = &retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(time.Second), Jitter: retry.NoJitter}
			var begun []int64
			s.Work = func(_ context.Context, job *retrytable.Job[int64]) error {
				time.Sleep(10 * time.Second)
				if job.ID < old {
					return errWork
				}
				begun = append(begun, job.ID)
				return nil
			}
			stop := s.start(t)
			time.Sleep(10*time.Minute + 5*time.Second) // in the middle of a job, not while the next one is claimed
			insert(urgent, 5)
			insert(ordinary, 0)
			time.Sleep(20 * time.Minute)
			require.Equal(t, errStop, stop())
			assert.Equal(t, test.begun, begun)
		})
	}
}
