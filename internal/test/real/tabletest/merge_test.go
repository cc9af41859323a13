//nolint:thelper // what forEach calls is the test itself
package tabletest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// merging are the kinds of databases whose claims can merge.
var merging = append(of(databases, retrytable.PostgreSQL, retrytable.SQLite), kinds[len(kinds)-1])

// mergeTable is a table that another program has made, whose queries are
// "status = 'new' OR status = 'error' AND next_at <= now() ORDER BY submitted".
func (s *store) mergeTable(t *testing.T) *retrytable.Table[int64] {
	t.Helper()
	table := &retrytable.Table[int64]{
		Dialect: s.dialect, Instants: s.instants, Name: "jobs",
		Columns:  retrytable.Columns{Retries: "retry_count", Due: "next_at"},
		Statuses: retrytable.Statuses{Ready: "new", Waiting: "error", Dead: "error"},
		OrderBy:  "submitted DESC, id", Merge: true,
	}
	require.NoError(t, table.Validate())
	run(t, s.db, "CREATE TABLE jobs (id bigint PRIMARY KEY, submitted bigint NOT NULL, status text NOT NULL DEFAULT 'new', "+
		"retry_count integer NOT NULL DEFAULT 0, next_at "+s.instants.SQLType(s.dialect)+")")
	missing(t, s, table)
	return table
}

// New rows and due retries are claimed in one order. Each word has its own rule: one that is
// new is due, whatever its due time, and one that waits is due by its due time alone.
func TestMerge(t *testing.T) {
	t.Parallel()
	forEach(t, merging, func(t *testing.T, s *store) {
		table := s.mergeTable(t)
		for id, row := range [][]any{
			{"new", nil},
			{"error", -time.Second},
			{"new", time.Hour},
			{"error", time.Hour},
			{"error", nil},
			{"error", -time.Hour},
			{"done", -time.Hour},
			{"new", -time.Hour},
			{"error", -150 * 365 * 24 * time.Hour},
		} {
			var due any
			if in, ok := row[1].(time.Duration); ok {
				due = s.instant(time.Now().Add(in))
			}
			run(t, s.db, "INSERT INTO jobs (id, submitted, status, next_at) VALUES ($1, $2, $3, $4)", id, 100-id/2, row[0], due)
		}
		rows := testkit.Must(table.Claim(t.Context(), s.db, 2))(t)
		require.Len(t, rows, 2)
		assert.ElementsMatch(t, []int64{0, 1}, []int64{rows[0].ID, rows[1].ID})
		assert.Equal(t, []int64{2, 5, 7, 8}, claimed(t, s, table, 10))
		run(t, s.db, "UPDATE jobs SET status = 'new' WHERE id = 4")
		run(t, s.db, "UPDATE jobs SET next_at = "+s.instants.Now(s.dialect)+" WHERE id = 3")
		assert.Equal(t, []int64{3, 4}, claimed(t, s, table, 10), "by hand")
	})
}

// Many retries are due. The order holds for the first 1000 of them, and the others come
// after that.
func TestMergeMany(t *testing.T) {
	t.Parallel()
	forEach(t, merging, func(t *testing.T, s *store) {
		table := s.mergeTable(t)
		const total = 1200
		for id := range total { // the later due the higher in the order
			run(t, s.db, "INSERT INTO jobs (id, submitted, status, next_at) VALUES ($1, $2, 'error', $3)",
				id, id, s.instant(time.Now().Add(-time.Hour+time.Duration(id)*time.Second)))
		}
		assert.Equal(t, []int64{999, 1000}, claimed(t, s, table, 2))
		assert.Len(t, testkit.Must(table.Claim(t.Context(), s.db, total))(t), total-2)
	})
}

// Claims at the same time get different rows, each as many as there are.
func TestMergeConcurrently(t *testing.T) {
	t.Parallel()
	forEach(t, merging, func(t *testing.T, s *store) {
		table := s.mergeTable(t)
		const workers, each = 4, 50
		for id := range workers * each {
			status := []string{"new", "error"}[id/3%2]
			run(t, s.db, "INSERT INTO jobs (id, submitted, status, next_at) VALUES ($1, $2, $3, $4)",
				id, id, status, s.instant(time.Now().Add(-time.Second)))
		}
		shareClaims(t, s, table, workers, workers*each, 1)
	})
}

// Both sides of a claim that merges are read from their indexes, however full the table is.
func TestMergePlan(t *testing.T) {
	t.Parallel()
	forEach(t, merging, func(t *testing.T, s *store) {
		for _, waiting := range []int{0, 90} {
			table, instant := s.mergeTable(t), s.instants.SQLType(s.dialect)
			run(t, s.db, "INSERT INTO jobs (id, submitted, status, next_at) SELECT i, 20000 - i, CASE WHEN i % 100 < $1 THEN 'error' ELSE 'new' END, "+
				"CASE WHEN i % 100 < 10 THEN CAST($2 AS "+instant+") WHEN i % 100 < $1 THEN CAST($3 AS "+instant+") END FROM "+s.series(1, 20_000),
				waiting, s.instant(time.Now().Add(-time.Hour)), s.instant(time.Now().Add(time.Hour)))
			for _, analyzed := range []bool{false, true} {
				if analyzed {
					s.analyze(t)
				} else if s.dialect == retrytable.PostgreSQL {
					continue
				}
				spied := &spy{DB: s.db, t: t, dialect: s.dialect}
				require.Len(t, testkit.Must(table.Claim(t.Context(), spied, 1))(t), 1)
				plan := spied.plan()
				assert.Contains(t, plan, "jobs_claim")
				assert.Contains(t, plan, "jobs_retry")
				assert.NotContains(t, plan, "Seq Scan")
			}
			run(t, s.db, "DROP TABLE jobs")
		}
	})
}

// A column of retries counts the retries that were granted: not at the claim, not at the end, and
// not for a rate limit that is free.
func TestRetriesColumn(t *testing.T) {
	t.Parallel()
	forEach(t, merging, func(t *testing.T, s *store) {
		table := s.mergeTable(t)
		run(t, s.db, "INSERT INTO jobs (id, submitted) VALUES (1, 1)")
		row := func() []any {
			return query(t, s.db, "SELECT status, retry_count, CASE WHEN next_at IS NULL THEN 0 ELSE 1 END FROM jobs")[0]
		}
		policy := *hourly
		policy.FreeRateLimits = 1
		for _, test := range []struct {
			err    error
			before int64
			want   []any
		}{
			{errWork, 0, []any{"error", int64(1), int64(1)}},
			{retry.MarkRateLimited(errWork, time.Minute), 1, []any{"error", int64(1), int64(1)}},
			{errWork, 1, []any{"error", int64(2), int64(1)}},
			{errWork, 2, []any{"error", int64(2), int64(0)}},
		} {
			claim := one(t, s.db, table)
			assert.Equal(t, []any{"running", test.before, int64(0)}, row())
			assert.Equal(t, int(test.before), claim.State.Failures)
			require.NoError(t, table.Release(t.Context(), s.db, claim.Lease))
			assert.Equal(t, []any{"new", test.before, int64(0)}, row())
			claim = one(t, s.db, table)
			d := policy.Next(claim.State, test.err, claim.Now())
			require.NoError(t, table.Fail(t.Context(), s.db, claim.Lease, d))
			assert.Equal(t, test.want, row())
			s.ago(t, s.db, "next_at", 1, time.Second)
			if !d.Retry {
				run(t, s.db, "UPDATE jobs SET next_at = NULL")
			}
		}
		run(t, s.db, "UPDATE jobs SET status = 'new'")
		one(t, s.db, table)
		s.ago(t, s.db, "lease_until", 1, time.Second)
		rows := testkit.Must(table.Sweep(t.Context(), s.db, 1))(t)
		require.Len(t, rows, 1)
		assert.Equal(t, retry.State{Failures: 2}, rows[0].State)
	})
}

// A worker that dies of a job each time ends it, although claims count nothing. An end
// whose answer was lost is known by its row. A row made ready by hand runs once more.
func TestRetriesWorker(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *testing.T, s *shop) {
		run(t, s.db, "DROP TABLE jobs")
		s.Table = s.mergeTable(t)
		run(t, s.db, "INSERT INTO jobs (id, submitted, retry_count) VALUES (1, 1, -5)")
		deaths, worked := 0, 0
		s.Work = func(context.Context, *retrytable.Job[int64]) error { worked++; return errWork }
		for range 10 {
			rows := testkit.Must(s.Table.Claim(t.Context(), s.db, 1))(t)
			deaths += len(rows)
			time.Sleep(2 * time.Minute)
			testkit.Must(s.Once(t.Context()))(t) // sweeps
			time.Sleep(2 * time.Minute)
		}
		assert.Equal(t, 3, deaths, "one that is negative stands for 0")

		assert.Zero(t, worked)
		for _, count := range []int{2, 3, 100} {
			s.outcomes = nil
			run(t, s.db, "UPDATE jobs SET status = 'new', retry_count = $1", count)
			s.database.breaks.Store(1)
			testkit.Must(s.Once(t.Context()))(t)
			assert.Equal(t, []string{"1: work failed false"}, s.outcomes)
			assert.Equal(t, [][]any{{"error", int64(count), nil}}, query(t, s.db, "SELECT status, retry_count, next_at FROM jobs"))
		}
		assert.Equal(t, 3, worked)

		s.Policy.FreeRateLimits = 1
		s.Work = func(context.Context, *retrytable.Job[int64]) error {
			return retry.MarkRateLimited(errWork, time.Minute)
		}
		run(t, s.db, "UPDATE jobs SET status = 'new'")
		testkit.Must(s.Once(t.Context()))(t)
		assert.Equal(t, [][]any{{"error", int64(100), int64(1)}}, query(t, s.db, "SELECT status, retry_count, next_at IS NOT NULL FROM jobs"))
	})
}

// A due time that is text may have any form, and none that is no instant.
func TestTextInstants(t *testing.T) {
	t.Parallel()
	forEach(t, kinds[len(kinds)-2:], func(t *testing.T, s *store) {
		table := s.mergeTable(t)
		now := time.Now().UTC().Truncate(time.Second)
		for id, format := range []string{
			time.RFC3339, time.RFC3339Nano, "2006-01-02T15:04:05.999999999+00:00", time.DateTime, "2006-01-02 15:04:05.999999", "2006-01-02T15:04:05",
		} {
			for i, in := range []time.Duration{time.Minute, -time.Minute} {
				run(t, s.db, "INSERT INTO jobs (id, submitted, status, next_at) VALUES ($1, 1, 'error', $2)", 2*id+i, now.Add(in).Format(format))
			}
		}
		assert.Equal(t, []int64{1, 3, 5, 7, 9, 11}, claimed(t, s, table, 12))
		run(t, s.db, "UPDATE jobs SET next_at = 'soon' WHERE id = 2")
		err := table.Check(t.Context(), s.db)
		require.ErrorIs(t, err, retrytable.ErrTable)
		assert.ErrorContains(t, err, `Columns.Due: "next_at": has "soon", which is no instant; `)
		_, mend, _ := strings.Cut(err.Error(), "never run: ")
		run(t, s.db, mend)
		require.NoError(t, table.Check(t.Context(), s.db))
		assert.Empty(t, claimed(t, s, table, 1))

		// What we write, others compare as text with what they write.
		run(t, s.db, "UPDATE jobs SET status = 'new' WHERE id = 2")
		row := one(t, s.db, table)
		require.NoError(t, table.Fail(t.Context(), s.db, row.Lease, retry.Decision{Retry: true, Delay: time.Hour}))
		text := query(t, s.db, "SELECT next_at FROM jobs WHERE id = 2")[0][0].(string)
		form := map[retrytable.Instants]string{retrytable.RFC3339: "2006-01-02T15:04:05.000+00:00", ofOthers: "2006-01-02 15:04:05.000"}
		near(t, testkit.Must(time.Parse(form[s.instants], text))(t), time.Hour)
	})
}
