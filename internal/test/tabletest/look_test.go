//nolint:thelper // what forEach calls is the test itself
package tabletest_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// People see what is in the table, whatever type its instants have.
func TestLooks(t *testing.T) {
	t.Parallel()
	forEach(t, kinds, func(t *testing.T, s *store) {
		ctx, table := t.Context(), mended()
		s.create(t, table, 4)
		refused := func(n int) error {
			return retry.Mark(fmt.Errorf("dial tcp 10.0.0.%d:543%d: refused: SQLSTATE 57014", n, n), retry.Verdict{Class: retry.Final, Category: "net"})
		}
		die(t, s, table, refused(1), retry.MarkFinal(fmt.Errorf("no such user")), refused(2), refused(3))
		run(t, s.db, "INSERT INTO jobs (id, sort) VALUES (5, 'mail'), (6, 'mail'), (7, 'mail'), (8, NULL)")
		s.ago(t, s.db, "due_at", 5, time.Hour)
		s.ago(t, s.db, "due_at", 6, -time.Hour)
		run(t, s.db, "UPDATE jobs SET status = 'waiting' WHERE id = 6")
		run(t, s.db, "UPDATE jobs SET status = 'done', due_at = NULL WHERE id = 7")
		run(t, s.db, "UPDATE jobs SET status = 'paused', due_at = NULL WHERE id = 8")

		counts, err := table.Counts(ctx, s.db, 0)
		require.NoError(t, err)
		assert.Equal(t, []retrytable.Count{
			{Status: retrytable.Ready, Word: "ready", Kind: "mail", N: 1},
			{Status: retrytable.Waiting, Word: "waiting", Kind: "mail", N: 1},
			{Status: retrytable.Done, Word: "done", Kind: "mail", N: 1},
			{Status: retrytable.Dead, Word: "dead", N: 4},
			{Status: retrytable.Other, Word: "paused", N: 1},
		}, counts.Jobs)
		near(t, counts.Now, 0)
		near(t, counts.Oldest, -time.Hour)
		near(t, counts.Next, time.Hour)
		assert.InDelta(t, time.Hour, counts.Lag(), float64(10*time.Second))
		counts, err = table.Counts(ctx, s.db, 3)
		require.NoError(t, err)
		n, more := counts.Of(retrytable.Dead)
		assert.Equal(t, 4, n, "one more than 3 is seen")
		assert.True(t, more)
		n, more = counts.Of(retrytable.Ready | retrytable.Waiting)
		assert.Equal(t, 2, n)
		assert.False(t, more)

		groups, more, err := table.Failures(ctx, s.db, retrytable.Jobs[int64]{})
		require.NoError(t, err)
		assert.False(t, more)
		require.Len(t, groups, 2)
		assert.Equal(t, "net", groups[0].Category)
		assert.Equal(t, "dial tcp *: refused: SQLSTATE 57014", groups[0].Error)
		assert.Equal(t, 3, groups[0].N)
		assert.EqualValues(t, 4, groups[0].Example.ID)
		near(t, groups[0].Example.Ended, 0)
		near(t, groups[0].Example.First, 0)
		page, err := table.List(ctx, s.db, retrytable.Jobs[int64]{Error: groups[0].Error, Category: "net", Status: retrytable.Dead})
		require.NoError(t, err)
		assert.Len(t, page.Jobs, 3, "a group is a filter")

		var ids []int64
		for _, status := range []retrytable.Status{0, retrytable.Dead, retrytable.Ready | retrytable.Waiting, retrytable.Running} {
			jobs := retrytable.Jobs[int64]{Status: status, Limit: 3}
			for {
				page, err := table.List(ctx, s.db, jobs)
				require.NoError(t, err)
				assert.False(t, page.Partial)
				for _, r := range page.Jobs {
					ids = append(ids, r.ID)
				}
				if jobs.After = page.Next; page.Next == nil {
					break
				}
			}
			ids = append(ids, 0)
		}
		assert.Equal(t, []int64{8, 7, 6, 5, 4, 3, 2, 1, 0, 4, 3, 2, 1, 0, 6, 5, 0, 0}, ids)

		r, fields, err := table.Find(ctx, s.db, 2)
		require.NoError(t, err)
		assert.Equal(t, "no such user", r.Error)
		assert.Equal(t, retrytable.Dead, r.Status)
		assert.Equal(t, 1, r.Attempts)
		assert.Contains(t, fields, retrytable.Field{Name: "error", Value: "no such user"})
		_, _, err = table.Find(ctx, s.db, 99)
		require.ErrorIs(t, err, sql.ErrNoRows)
	})
}

// A look and an operation that cannot be say why.
func TestLooksRefused(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		ctx := t.Context()
		table := &retrytable.Table[int64]{Name: "jobs", Dialect: s.dialect, Instants: s.instants}
		_, err := table.Counts(ctx, s.db, 0)
		require.ErrorIs(t, err, retrytable.ErrTable)
		assert.ErrorContains(t, err, "there is no such table")
		_, err = table.TryAgain(ctx, s.db, retrytable.Jobs[int64]{All: true}, retrytable.Again{})
		require.ErrorIs(t, err, retrytable.ErrTable)
		s.create(t, table, 1)
		_, err = table.TryAgain(ctx, s.db, retrytable.Jobs[int64]{Limit: 7}, retrytable.Again{})
		require.EqualError(t, err, "retrytable: try again: Jobs: no field but Status and Limit is set: to mean all dead jobs, set All")
		_, err = table.TryAgain(ctx, s.db, retrytable.Jobs[int64]{Category: "a"}, retrytable.Again{})
		require.EqualError(t, err, `retrytable: try again: Jobs.Category: "a": the table has no column for it: name one in Columns.Category`)
		_, err = table.GiveBack(ctx, s.db, retrytable.Jobs[int64]{All: true, Status: retrytable.Dead})
		require.EqualError(t, err, "retrytable: give back: Jobs.Status: dead: must be running")
		_, err = table.End(ctx, s.db, retrytable.Jobs[int64]{All: true}, retrytable.Ending{Status: "gone"})
		require.EqualError(t, err, `retrytable: end: Status: "gone": must be Statuses.Dead, which is "dead", or one of Statuses.Done: ["done"]`)
		_, err = table.PutOff(ctx, s.db, retrytable.Jobs[int64]{All: true}, time.Time{})
		require.ErrorContains(t, err, "must be a time")
		_, err = table.List(ctx, s.db, retrytable.Jobs[int64]{Where: "id > $1"})
		require.EqualError(t, err, "retrytable: list: args: 0 given, 1 wanted by the SQL of the Table")
		if s.dialect == retrytable.MySQL {
			index := query(t, s.db, "SHOW INDEX FROM jobs WHERE Key_name LIKE 'dead%'")[0][2].(string)
			run(t, s.db, "ALTER TABLE jobs DROP INDEX "+index)
			_, _, err = table.Failures(ctx, s.db, retrytable.Jobs[int64]{})
			require.ErrorContains(t, err, "Table.Missing adds what the table lacks: ALTER TABLE `jobs` ADD INDEX dead_")
			assert.NoError(t, table.Check(ctx, s.db), "a Worker does without it")
		}
	})
}

// Every look finds its rows in an index, or looks at no more rows than it says.
func TestPlansOfLooks(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		for _, orderBy := range []string{"", "priority DESC, id"} {
			ctx, table := t.Context(), &retrytable.Table[int64]{Name: "jobs", OrderBy: orderBy, Columns: retrytable.Columns{Error: "error"}}
			s.fill(t, table, 3000, 45)
			run(t, s.db, "UPDATE jobs SET status = 'done', due_at = NULL WHERE id % 10 < 4")
			run(t, s.db, "UPDATE jobs SET status = 'dead', due_at = NULL WHERE id % 1000 = 7")
			s.analyze(t)
			spied := &spy{DB: s.db, dialect: s.dialect}
			assertPlan := func(look string, indexes ...string) {
				t.Helper()
				plan := spied.plan()
				for _, index := range indexes {
					if s.dialect == retrytable.MySQL {
						index = strings.Replace(index, "jobs_", "", 1)
					}
					assert.Contains(t, plan, index, look)
				}
				for _, bad := range []string{"Seq Scan on jobs", "SCAN jobs\n"} {
					assert.NotContains(t, plan, bad, look)
				}
				if t.Failed() {
					t.Log(plan)
				}
			}
			_, err := table.Counts(ctx, spied, 100)
			require.NoError(t, err)
			assertPlan("Counts", "jobs_claim", "jobs_sweep", "jobs_dead")
			_, _, err = table.Failures(ctx, spied, retrytable.Jobs[int64]{Error: "*x*"})
			require.NoError(t, err)
			assertPlan("Failures", "jobs_dead")
			one := int64(500)
			_, err = table.List(ctx, spied, retrytable.Jobs[int64]{Status: retrytable.Dead, After: &one})
			require.NoError(t, err)
			assertPlan("List dead", "jobs_dead")
			_, err = table.List(ctx, spied, retrytable.Jobs[int64]{Status: retrytable.Running, After: &one})
			require.NoError(t, err)
			assertPlan("List running", "jobs_sweep")
			_, err = table.List(ctx, spied, retrytable.Jobs[int64]{After: &one})
			require.NoError(t, err)
			assertPlan("List")
			_, _, err = table.Find(ctx, spied, 7)
			require.NoError(t, err)
			assertPlan("Find")
			_, err = table.TryAgain(ctx, spied, retrytable.Jobs[int64]{Error: "*x*"}, retrytable.Again{})
			require.NoError(t, err)
			assertPlan("TryAgain", "jobs_dead")
			run(t, s.db, "DROP TABLE jobs")
		}
	})
}

// The pages of a list have every job once, also of given IDs, and each says if some are in none.
func TestPagesOfLists(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		ctx, table := t.Context(), mended()
		s.create(t, table, 0)
		ids := func(jobs retrytable.Jobs[int64]) (all []int64) {
			for range 10 {
				page, err := table.List(ctx, s.db, jobs)
				require.NoError(t, err)
				for _, r := range page.Jobs {
					all = append(all, r.ID)
				}
				if jobs.After = page.Next; page.Next == nil {
					return all
				}
			}
			return append(all, -1)
		}
		for id := 1; id <= 9; id++ {
			run(t, s.db, "INSERT INTO jobs (id, sort, status) VALUES ($1, 'mail', 'dead')", id)
		}
		some := []int64{1, 3, 4, 6, 7, 8}
		assert.Equal(t, []int64{8, 7, 6, 4, 3, 1}, ids(retrytable.Jobs[int64]{IDs: some, Limit: 2}))
		assert.Equal(t, []int64{8, 7, 6, 4, 3, 1}, ids(retrytable.Jobs[int64]{IDs: some, Limit: 2, Status: retrytable.Dead}))

		run(t, s.db, "UPDATE jobs SET status = 'paused' WHERE id = 2")
		assert.Equal(t, []int64{2}, ids(retrytable.Jobs[int64]{Status: retrytable.Other}))
		assert.Equal(t, []int64{9, 8, 7, 6, 5, 4, 3, 1}, ids(retrytable.Jobs[int64]{Status: retrytable.Dead}))

		run(t, s.db, "UPDATE jobs SET status = 'running', due_at = NULL WHERE id = 3")
		run(t, s.db, "UPDATE jobs SET status = 'waiting', due_at = NULL WHERE id = 4")
		assert.Equal(t, []int64{3}, ids(retrytable.Jobs[int64]{Status: retrytable.Running}), "without a lease")
		assert.Equal(t, []int64{4}, ids(retrytable.Jobs[int64]{Status: retrytable.Ready | retrytable.Waiting}), "that waits for ever")
	})
}

// Each page says that there are jobs which no page has.
func TestPartialPages(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		table := jobsOfTenants()
		s.createAnew(t, table)
		s.insertMany(t, 1, 5100, "mail", "acme")
		page, err := table.List(t.Context(), s.db, retrytable.Jobs[int64]{Status: retrytable.Ready, Limit: 10})
		require.NoError(t, err)
		assert.True(t, page.Partial)
		assert.NotNil(t, page.Next)
		page, err = table.List(t.Context(), s.db, retrytable.Jobs[int64]{Status: retrytable.Ready, Limit: 5000})
		require.NoError(t, err)
		assert.Len(t, page.Jobs, 5000)
		assert.True(t, page.Partial)
		assert.Nil(t, page.Next)
	})
}
