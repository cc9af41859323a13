//nolint:thelper // what each calls is the test itself
package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// What was posted first starts first.
func TestOldestFirst(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		var ids []string
		for i := range 3 {
			e.setClock(float64(i))
			ids = append(ids, e.post(`[{"id": "a", "name": "A", "kind": "x",
				"on_start": {"kind": "Webhook", "params": {"url": "HOOK/` + string(rune('a'+i)) + `", "verb": "Get"}}}]`)["a"])
		}
		e.step()
		assert.True(t, slices.IsSorted(e.paths()), "%v", e.paths())
		assert.Len(t, e.paths(), len(ids))
	})
}

// Sections 8 and 14: what waits for its retry does not count as running.
func TestConcurrencyRules(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		rule := `"kind": "etl", "max_concurrency": 1, ` + retry1
		ids := e.post(`[{"id": "a", "name": "A", ` + rule + `}, {"id": "b", "name": "B", ` + rule + `},
			{"id": "other", "name": "C", "kind": "web", "max_concurrency": 1}]`)
		e.step()
		e.is(ids["a"], "Running", 0, 0)
		e.is(ids["b"], "Pending", 0, 0)
		e.is(ids["other"], "Running", 0, 0)
		e.patch(ids["a"], explicitFailure)
		e.step()
		e.is(ids["a"], "RetryPending", 1, 10)
		e.is(ids["b"], "Running", 0, 0)
		e.advance(10)
		e.is(ids["a"], "Pending", 1, 0)
		e.patch(ids["b"], `{"status": "Success"}`)
		e.step()
		e.is(ids["a"], "Running", 1, 0)
	})
}

// A rule holds however many claim at once.
func TestConcurrencyRulesAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		const rounds, limit, starters = 8, 2, 8
		for round := range rounds {
			for range starters {
				e.post(fmt.Sprintf(`[{"id": "a", "name": "A", "kind": "%d", "max_concurrency": %d}]`, round, limit))
			}
			var wg sync.WaitGroup
			for range starters {
				wg.Go(func() {
					_, err := e.startNext(t.Context())
					assert.NoError(t, err)
				})
			}
			wg.Wait()
			var found []dto
			e.request(http.MethodGet, "/task?status=Running", "", http.StatusOK, &found)
			require.Len(t, found, (round+1)*limit)
		}
	})
}

// A crash while Claimed is an attempt like others, whatever the policy is for, and it is said
// what has happened.
func TestLostWorker(t *testing.T) {
	t.Parallel()
	const reason = "lost: whoever called its on_start has died, or was cut off from the database"
	each(t, func(t *testing.T, e *env) {
		id := e.post(`[{"id": "a", "name": "A", "kind": "etl", "timeout": 3,
			"retry": {"max_retries": 1, "retry_on": ["explicit"]}}]`)["a"]
		e.lose()
		e.advance(119)
		e.is(id, "Claimed", 0, 0)
		e.advance(120)
		e.is(id, "RetryPending", 1, 125)
		assert.Equal(t, reason, e.get(id).FailureReason)
		e.retry(125)
		e.lose()
		e.advance(244)
		e.is(id, "Claimed", 1, 0)
		e.advance(245)
		e.is(id, "Failure", 1, 0)
		assert.Equal(t, reason, e.get(id).FailureReason)
	})
}

// That is no failure of a task without a policy: it is tried again, but not for ever, because
// it may be what kills its starters.
func TestLostWorkerWithoutPolicy(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		ids := e.post(`[{"id": "a", "name": "A", "kind": "x"}, {"id": "child", "name": "B", "kind": "x", "dependencies": ["a"]}]`)
		e.lose()
		e.advance(120)
		e.is(ids["a"], "RetryPending", 1, 125)
		e.is(ids["child"], "Waiting", 0, 0)
		e.retry(125)
		e.lose()
		e.advance(245)
		e.is(ids["a"], "RetryPending", 2, 255)
		e.retry(255)
		e.lose()
		e.advance(375)
		e.is(ids["a"], "Failure", 2, 0)
		e.is(ids["child"], "Failure", 0, 0)

		other := e.post(`[{"id": "a", "name": "A", "kind": "x"}]`)["a"]
		e.lose()
		e.advance(495)
		e.advance(500)
		e.is(other, "Running", 1, 0)
		e.patch(other, explicitFailure)
		e.is(other, "Failure", 1, 0)
	})
}

// Whoever was called may report while the task is Claimed, also if its starter has died.
func TestReportWhileClaimed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		id := e.post(oneHook)["a"]
		e.lose()
		e.setClock(100)
		e.patch(id, `{"new_success": 1}`)
		e.is(id, "Running", 0, 0)
		assert.Equal(t, epoch.Add(100*time.Second), e.get(id).StartedAt.UTC())
		assert.Equal(t, "success ", e.record(id+":start:success:0"))
		e.advance(159)
		e.is(id, "Running", 0, 0)
		e.patch(id, `{"status": "Success"}`)
		e.is(id, "Success", 0, 0)
	})
}

// A kind has as many places as the task that wants to start says, whatever its
// others say and whichever of them run.
func TestConcurrencyRulesDiffer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		ids := e.post(`[{"id": "a", "name": "A", "kind": "x"}, {"id": "b", "name": "B", "kind": "x"},
			{"id": "one", "name": "1", "kind": "x", "max_concurrency": 1}, {"id": "two", "name": "2", "kind": "x", "max_concurrency": 2},
			{"id": "three", "name": "3", "kind": "x", "max_concurrency": 3}, {"id": "y", "name": "Y", "kind": "y", "max_concurrency": 1}]`)
		for _, moment := range []struct{ ends, held string }{
			{"", "one two"}, {"three", "one two"}, {"a", "one"}, {"two", "one"}, {"b", ""},
		} {
			if moment.ends != "" {
				e.patch(ids[moment.ends], `{"status": "Success"}`)
			}
			e.step()
			var held []string
			for _, id := range []string{"a", "b", "one", "two", "three", "y"} {
				if e.get(ids[id]).Status == "Pending" {
					held = append(held, id)
				}
			}
			assert.Equal(t, moment.held, strings.Join(held, " "))
		}
	})
}

// What runs is counted once for a claim, and not for each task that it holds back.
func TestConcurrencyRulesPlan(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		plan := dbtest.Explain(t, e.db)
		_, err := e.starts.Claim(t.Context(), plan, 1)
		require.NoError(t, err)
		if e.db.Dialect == retrytable.PostgreSQL {
			assert.Contains(t, plan.String(), "NOT (hashed SubPlan")
		}
		assert.NotContains(t, plan.String(), "CORRELATED", "SQLite's word for each")
		assert.Contains(t, plan.String(), "task_running")
	})
}

// A starter whose on_start took longer than its lease has no say any more, in the
// task nor in the record of the call. Meanwhile another one has the task.
func TestLateStarter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		for _, refused := range []bool{false, true} {
			e.refuse = func(call) bool {
				e.setClock(120)
				_, err := e.starter().Once(t.Context())
				assert.NoError(t, err)
				e.retry(130)
				e.lose()
				return refused
			}
			id := e.post(oneHook)["a"]
			_, err := e.starter().Once(t.Context())
			require.ErrorIs(t, err, retrytable.ErrLeaseLost)
			e.is(id, "Claimed", 1, 0)
			assert.Regexp(t, "^failure lost: ", e.record(id+":start:success:0"))
			e.setClock(0)
		}
	})
}

// A task that cannot be read is not started, and no attempt of it is used up.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		id := e.post(oneHook)["a"]
		dbtest.Exec(t, e.db, `UPDATE task SET on_start = '"nonsense"'`)
		_, err := e.starter().Once(t.Context())
		require.ErrorContains(t, err, "cannot unmarshal")
		assert.Empty(t, e.paths())
		var found []dto
		e.request(http.MethodGet, "/task", "", http.StatusOK, &found)
		assert.Len(t, found, 1, "others can be listed with it")
		e.request(http.MethodPost, "/task/"+id+"/pause", "", http.StatusOK, nil)
		e.request(http.MethodPost, "/task/"+id+"/unpause", "", http.StatusOK, nil)
		e.none("attempt <> 0 OR status NOT IN ('pending', 'retry_pending')")
		dbtest.Exec(t, e.db, `UPDATE task SET on_start = NULL`)
		e.setClock(600)
		e.step()
		e.is(id, "Running", 0, 0)
	})
}

// BenchmarkStart starts a task as a starter does: it claims the task, reads it, and
// has it run. A tenth of the tasks is pending, the others wait or are done. Older
// ones may be held back, by the five of their kind that run. It prints the plan of
// the claim.
//
//	go test -run '^$' -bench . -benchtime 900x -v
func BenchmarkStart(b *testing.B) {
	for name, dialect := range map[string]retrytable.Dialect{
		"sqlite": retrytable.SQLite, "postgres": retrytable.PostgreSQL,
	} {
		for _, size := range []struct{ tasks, held int }{
			{10_000, 0},
			{100_000, 0},
			{1_000_000, 0},
			{1_000_000, 1_000},
			{1_000_000, 30_000},
		} {
			b.Run(fmt.Sprintf("%s/tasks=%d/held=%d", name, size.tasks, size.held), func(b *testing.B) {
				s := crowded(b, dialect, size.tasks, size.held)
				plan := dbtest.Explain(b, s.db)
				_, err := s.starts.Claim(b.Context(), plan, 1)
				require.NoError(b, err)
				b.Log("\n" + plan.String())
				for b.Loop() {
					more, err := startNext(b.Context(), s)
					require.NoError(b, err)
					require.True(b, more, "fewer tasks are pending than -benchtime asks for")
					b.StopTimer()
					dbtest.Exec(b, s.db, "UPDATE task SET status = 'success' WHERE status IN ('claimed', 'running') AND kind = 'free'")
					b.StartTimer()
				}
			})
		}
	}
}

// crowded returns a service with so many tasks, and so many that are held back.
func crowded(b *testing.B, dialect retrytable.Dialect, tasks, held int) *service {
	b.Helper()
	db := dbtest.New(b, dialect)
	c, err := readConfig(func(string) string { return "" })
	require.NoError(b, err)
	s := newService(db, c, slog.New(slog.DiscardHandler))
	require.NoError(b, s.db.Migrate(b.Context(), io.Discard, s.schema(), false))
	const limit = 5
	dbtest.Exec(b, db, `
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1),
		t AS (SELECT i, CASE WHEN i <= $2 THEN 'limited' ELSE 'free' END AS kind,
			CASE WHEN i <= $3 THEN 'running' WHEN i <= $2 OR i % 10 = 0 THEN 'pending' WHEN i % 10 = 1 THEN 'waiting'
				WHEN i % 10 = 2 THEN 'retry_pending' ELSE 'success' END AS status FROM n)
		INSERT INTO task (id, batch_id, position, local_id, name, kind, max_concurrency, timeout, status,
			next_retry_at, lease_until, created_at, last_updated)
		SELECT 'task-' || i, 'batch-' || i / 100, i, 'local', 'Name', kind, CASE kind WHEN 'limited' THEN $3 ELSE 100 END, 60, status,
			CASE status WHEN 'retry_pending' THEN {now} + 3600000000 * {microsecond} END,
			NULL, {now} + i * {microsecond}, {now}
		FROM t`, held+limit+tasks, held+limit, limit)
	if dialect == retrytable.PostgreSQL {
		dbtest.Exec(b, db, "VACUUM task")
	}
	dbtest.Exec(b, db, "ANALYZE task")
	return s
}
