//nolint:thelper // what forEach calls is the test itself
package tabletest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// claimed claims up to n rows one by one, and returns their IDs in that order.
func claimed(t *testing.T, s *store, table *retrytable.Table[int64], n int, args ...any) (ids []int64) {
	t.Helper()
	for range n {
		rows, err := table.Claim(t.Context(), s.db, 1, args...)
		require.NoError(t, err)
		for _, row := range rows {
			ids = append(ids, row.ID)
		}
	}
	return ids
}

func promoted(t *testing.T, s *store, table *retrytable.Table[int64], args ...any) []int64 {
	t.Helper()
	ids, err := table.Promote(t.Context(), s.db, 100, args...)
	require.NoError(t, err)
	slices.Sort(ids)
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

// A table of runs: retries keep the status of an error, and so do runs that have
// failed for good, which have no next retry. Runs are taken in the order of their
// submission, retries too, of the categories that are allowed. Success clears the
// fields.
func TestRuns(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		ctx := t.Context()
		table := &retrytable.Table[int64]{
			Dialect: s.dialect, Name: "runs", Instants: s.instants,
			Columns: retrytable.Columns{Attempts: "retry_count", Due: "next_retry_at"},
			Statuses: retrytable.Statuses{
				Ready: "discovered", Waiting: "error", Running: []string{"processing"}, Done: []string{"passed", "needs_review"}, Dead: "error",
			},
			Where:   "category IN ($1, $2)",
			OrderBy: "submitted_date",
			Set: retrytable.Set{
				Fail:    "error_class = $1",
				Succeed: "retry_count = 0, error_class = NULL",
			},
		}
		run(t, s.db, "CREATE TABLE runs (id bigint PRIMARY KEY, submitted_date bigint NOT NULL, category text NOT NULL, error_class text)")
		run(t, s.db, table.Schema())
		run(t, s.db, "INSERT INTO runs (id, submitted_date, category) "+
			"VALUES (1, 20240101, 'a'), (2, 20240103, 'b'), (3, 20240104, 'a'), (4, 20240102, 'c')")
		allowed := []any{"a", "b"}

		fail := func(row retrytable.Row[int64], err error) retry.Decision {
			d := hourly.Next(row.State, err, row.Now())
			require.NoError(t, table.Fail(ctx, s.db, row.Lease, d, d.Verdict.Class.String()))
			return d
		}
		rows, err := table.Claim(ctx, s.db, 1, allowed...)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		require.Equal(t, int64(1), rows[0].ID)
		require.True(t, fail(rows[0], retry.MarkRetryable(errWork)).Retry)
		rows, err = table.Claim(ctx, s.db, 1, allowed...)
		require.NoError(t, err)
		require.Equal(t, int64(2), rows[0].ID)
		require.False(t, fail(rows[0], retry.MarkFinal(errWork)).Retry)
		assert.Empty(t, promoted(t, s, table, allowed...), "the one is not due, the other never will be")

		s.agoIn(t, s.db, "runs", "next_retry_at", 1, time.Second)
		assert.Empty(t, promoted(t, s, table, "x", "y"))
		assert.Equal(t, []int64{1}, promoted(t, s, table, allowed...))
		rows, err = table.Claim(ctx, s.db, 1, allowed...)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		assert.Equal(t, int64(1), rows[0].ID, "the oldest, although it is a retry")
		assert.Equal(t, 1, rows[0].State.Failures)
		require.NoError(t, table.SucceedAs(ctx, s.db, rows[0].Lease, "needs_review"))
		assert.Equal(t, retrytable.ErrLeaseLost, table.SucceedAs(ctx, s.db, rows[0].Lease, "passed"))
		assert.Equal(t, []int64{3}, claimed(t, s, table, 5, allowed...), "category c is not allowed")

		var got []any
		for _, row := range query(t, s.db, "SELECT status, retry_count, coalesce(error_class, '-') FROM runs ORDER BY id") {
			got = append(got, fmt.Sprint(row[0], " ", row[1], " ", row[2]))
		}
		assert.Equal(t, []any{"needs_review 0 -", "error 1 final", "processing 1 -", "discovered 0 -"}, got)
	})
}

// A table of tickets: those that wait have the status of those that are ready,
// and a later time. Those with the highest priority go first, and those that
// people work on are none of ours.
func TestTickets(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		ctx := t.Context()
		table := &retrytable.Table[int64]{
			Dialect: s.dialect, Name: "tickets", Instants: s.instants,
			Columns: retrytable.Columns{Status: "state", Attempts: "retry_count", Due: "retry_after"},
			Statuses: retrytable.Statuses{
				Ready: "ready", Waiting: "ready", Running: []string{"in_progress"}, Done: []string{"needs_review"}, Dead: "on_hold",
			},
			Where:   "assignee_type = 'agent'",
			OrderBy: "priority DESC, created_at",
			Set: retrytable.Set{
				Claim: "vm_id = 'vm-7'",
				Fail:  "vm_id = NULL, error = $1",
				Retry: "hold_reason = NULL",
				End:   "hold_reason = 'Max retries exceeded: ' || CAST($1 AS text)",
			},
		}
		if s.dialect == retrytable.MySQL {
			table.Set.End = "hold_reason = concat('Max retries exceeded: ', $1)"
		}
		run(t, s.db, "CREATE TABLE tickets (id bigint PRIMARY KEY, priority integer, created_at integer, assignee_type text, "+
			"vm_id text, error text, hold_reason text)")
		run(t, s.db, table.Schema())
		run(t, s.db, "INSERT INTO tickets (id, priority, created_at, assignee_type) "+
			"VALUES (1, 1, 1, 'agent'), (2, 9, 3, 'agent'), (3, 9, 2, 'agent'), (4, 99, 1, 'human')")
		run(t, s.db, "UPDATE tickets SET state = 'in_progress' WHERE id = 4")

		rows, err := table.Claim(ctx, s.db, 1)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		require.Equal(t, int64(3), rows[0].ID)
		d := hourly.Next(rows[0].State, errWork, rows[0].Now())
		run(t, s.db, "UPDATE tickets SET hold_reason = 'vacation' WHERE id = 3")
		require.NoError(t, table.Fail(ctx, s.db, rows[0].Lease, d, "boom"))
		assert.Equal(t, [][]any{{int64(1)}}, query(t, s.db,
			"SELECT count(*) FROM tickets WHERE id = 3 AND hold_reason IS NULL AND vm_id IS NULL AND error = 'boom'"))
		assert.Empty(t, promoted(t, s, table))
		s.agoIn(t, s.db, "tickets", "retry_after", 3, time.Second)
		assert.Equal(t, []int64{3}, promoted(t, s, table))

		rows, err = table.Claim(ctx, s.db, 1)
		require.NoError(t, err)
		require.Equal(t, int64(3), rows[0].ID, "before 2 and 1")
		d = hourly.Next(rows[0].State, retry.MarkFinal(errWork), rows[0].Now())
		require.NoError(t, table.Fail(ctx, s.db, rows[0].Lease, d, "code_error"))
		var reason string
		require.NoError(t, s.db.QueryRowContext(ctx, "SELECT hold_reason FROM tickets WHERE state = 'on_hold' AND vm_id IS NULL").Scan(&reason))
		assert.Equal(t, "Max retries exceeded: code_error", reason)
		assert.Equal(t, []int64{2, 1}, claimed(t, s, table, 10))

		// A human releases it, with a fresh count.
		run(t, s.db, "UPDATE tickets SET state = 'ready', retry_count = 0 WHERE id = 3 AND state = 'on_hold'")
		rows, err = table.Claim(ctx, s.db, 1)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		assert.Zero(t, rows[0].State.Failures)
		assert.Equal(t, int64(3), rows[0].Fence)
	})
}

// A table of tasks: a retry is pending in a status of its own until a loop makes
// it an ordinary task, which resets some fields. A claimed task runs in a second
// status. It may be canceled or paused at any time. Only so many run at a time.
func TestTasks(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		ctx := t.Context()
		table := &retrytable.Table[int64]{
			Dialect: s.dialect, Name: "task", Instants: s.instants,
			Columns: retrytable.Columns{Due: "next_retry_at"},
			Statuses: retrytable.Statuses{
				Ready: "pending", Waiting: "retry_pending", Running: []string{"claimed", "running"},
				Done: []string{"success", "skipped"}, Dead: "failure",
			},
			ClaimWhere: "(SELECT count(*) FROM task AS other WHERE other.status IN ('claimed', 'running')) < $1",
			OrderBy:    "id",
			Set: retrytable.Set{
				Fail:    "failure_reason = $1",
				Promote: "failure_reason = NULL",
			},
		}
		create := "CREATE TABLE task (id bigint PRIMARY KEY, failure_reason text)"
		schema := table.Schema()
		const enum = "ENUM ('pending', 'retry_pending', 'claimed', 'running', 'success', 'skipped', 'failure', 'canceled', 'paused')"
		const withEnum = "CREATE TABLE task (id bigint PRIMARY KEY, failure_reason text, status %s NOT NULL DEFAULT 'pending')"
		switch s.dialect { // an enum is fine
		case retrytable.PostgreSQL:
			run(t, s.db, "CREATE TYPE status_kind AS "+enum)
			create = fmt.Sprintf(withEnum, "status_kind")
		case retrytable.MySQL:
			create = fmt.Sprintf(withEnum, enum)
			schema = strings.Replace(schema, "ADD COLUMN `status` varchar(255) NOT NULL DEFAULT 'pending',", "", 1)
		}
		run(t, s.db, create)
		run(t, s.db, schema)
		run(t, s.db, "INSERT INTO task (id) VALUES (1), (2), (3)")
		rows, err := table.Claim(ctx, s.db, 10, 1)
		require.NoError(t, err)
		require.Len(t, rows, 3, "those of one claim do not count")
		assert.Empty(t, claimed(t, s, table, 1, 3))
		run(t, s.db, "UPDATE task SET status = 'running' WHERE status = 'claimed'")
		run(t, s.db, "UPDATE task SET status = 'canceled' WHERE id = 1")
		for _, row := range rows {
			err := table.Fail(ctx, s.db, row.Lease, hourly.Next(row.State, errWork, row.Now()), "timeout")
			if row.ID == 1 {
				assert.Equal(t, retrytable.ErrLeaseLost, err, "canceled is final")
			} else {
				assert.NoError(t, err)
			}
		}
		s.agoIn(t, s.db, "task", "next_retry_at", 2, time.Second)
		s.agoIn(t, s.db, "task", "next_retry_at", 3, time.Second)
		run(t, s.db, "UPDATE task SET status = 'paused' WHERE id = 3")
		assert.Equal(t, []int64{2}, promoted(t, s, table))
		run(t, s.db, "UPDATE task SET status = 'retry_pending' WHERE id = 3 AND next_retry_at IS NOT NULL")
		assert.Equal(t, []int64{3}, promoted(t, s, table), "its instant was kept")
		assert.Equal(t, []int64{2}, claimed(t, s, table, 5, 1))
		assert.Equal(t, []int64{3}, claimed(t, s, table, 5, 2))
		var n int
		require.NoError(t, s.db.QueryRowContext(ctx,
			"SELECT count(*) FROM task WHERE failure_reason IS NULL AND next_retry_at IS NULL AND attempts = 2").Scan(&n))
		assert.Equal(t, 2, n)
		require.NoError(t, table.Succeed(ctx, s.db, retrytable.Lease[int64]{ID: 2, Fence: 2}))
		require.NoError(t, table.SucceedAs(ctx, s.db, retrytable.Lease[int64]{ID: 3, Fence: 2}, "skipped"))
		assert.Equal(t, [][]any{{"success"}, {"skipped"}}, query(t, s.db, "SELECT trim(CAST(status AS char(9))) FROM task WHERE id > 1 ORDER BY id"))
	})
}
