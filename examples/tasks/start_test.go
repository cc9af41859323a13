//nolint:thelper // what each calls is the test itself
package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/examples/shared/dbtest"
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

// A task whose attempts are used up is not started, whoever has counted them.
func TestExhaustedBeforeStart(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		id := e.post(`[{"id": "a", "name": "A", "kind": "etl", ` + retry1 + `,
			"on_start": {"kind": "Webhook", "params": {"url": "HOOK/a", "verb": "Post"}}}]`)["a"]
		dbtest.Exec(t, e.db, "UPDATE task SET attempts = 2, attempt = 1")
		e.step()
		e.is(id, "Failure", 1, 0)
		assert.Empty(t, e.paths())
	})
}

// A task whose worker died while it was claimed has its timeout, in which whoever was
// called may still report about it. After that it has timed out, like one that runs.
func TestLostWorker(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		lose := func() {
			t.Helper()
			rows, err := e.claim(t.Context())
			require.NoError(t, err)
			require.Len(t, rows, 1)
		}
		post := func(retryOn string) string {
			t.Helper()
			return e.post(`[{"id": "a", "name": "A", "kind": "etl", "timeout": 40,
				"retry": {"max_retries": 1, "retry_on": ["` + retryOn + `"]}}]`)["a"]
		}
		id := post("timeout")
		lose()
		e.advance(39)
		e.is(id, "Claimed", 0, 0)
		e.advance(40)
		e.is(id, "RetryPending", 1, 45)
		e.setClock(45)
		_, err := e.retries(t.Context())
		require.NoError(t, err)
		lose()
		e.advance(84)
		e.is(id, "Claimed", 1, 0)
		e.advance(85)
		e.is(id, "Failure", 1, 0)
		assert.Equal(t, "timeout: no word for 40 s", e.get(id).FailureReason)

		other := post("explicit")
		lose()
		e.advance(125)
		e.is(other, "Failure", 0, 0)

		reported := post("timeout")
		lose()
		e.advance(160)
		e.patch(reported, `{"status": "Success"}`)
		e.is(reported, "Success", 0, 0)
	})
}

// To cancel what depends on a task leaves the task alone: it may be wanted for itself.
func TestCancelLeavesAncestors(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		ids := e.post(parentAndChild)
		e.step()
		e.request(http.MethodPost, "/task/"+ids["child"]+"/cancel", "", http.StatusOK, nil)
		e.step()
		e.is(ids["parent"], "Running", 0, 0)
		e.patch(ids["parent"], `{"status": "Success"}`)
		e.is(ids["parent"], "Success", 0, 0)
		e.is(ids["child"], "Canceled", 0, 0)
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
		_, err := e.tasks.Claim(t.Context(), plan, 1)
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
				e.clock.Set(t, epoch.Add(60*time.Second))
				_, err := e.timeouts(t.Context())
				assert.NoError(t, err)
				e.clock.Set(t, epoch.Add(70*time.Second))
				_, err = e.retries(t.Context())
				assert.NoError(t, err)
				rows, err := e.claim(t.Context())
				assert.NoError(t, err)
				assert.Len(t, rows, 1)
				return refused
			}
			id := e.post(oneHook)["a"]
			_, err := e.startNext(t.Context())
			require.NoError(t, err)
			e.is(id, "Claimed", 1, 0)
			assert.Equal(t, "failure timeout: no word for 60 s", e.record(id+":start:success:0"))
			e.setClock(0)
		}
	})
}
