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
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 0, func(t *testing.T, s *shop) {
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
		})
	}
}

// A promotion may give a row its turn by when it was due.
func TestOrderByTurn(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		table := jobs()
		table.OrderBy, table.Set.Promote = "turn, id", map[retrytable.Dialect]string{
			retrytable.PostgreSQL: "turn = due_at - priority * interval '1 minute'",
			retrytable.SQLite:     "turn = due_at - priority * 60000000",
			retrytable.MySQL:      "turn = due_at - INTERVAL priority MINUTE",
		}[s.dialect]
		table.Dialect, table.Instants = s.dialect, s.instants
		run(t, s.db, "CREATE TABLE jobs (id bigint PRIMARY KEY, priority integer NOT NULL DEFAULT 0, turn "+
			s.instants.SQLType(s.dialect)+")")
		run(t, s.db, table.Schema())
		for id := range int64(3) {
			run(t, s.db, "INSERT INTO jobs (id, priority) VALUES ($1, $2)", id, id*2)
			s.ago(t, s.db, "due_at", id, time.Hour-time.Duration(id)*time.Minute) // the later the more urgent
		}
		for id := range int64(3) {
			rows, err := table.Claim(t.Context(), s.db, 1)
			require.NoError(t, err)
			require.Len(t, rows, 1)
			assert.Equal(t, 2-id, rows[0].ID)
		}
	})
}
