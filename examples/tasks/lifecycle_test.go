//nolint:thelper // what each calls is the test itself
package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/examples/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

const (
	retry3 = `"retry": {"max_retries": 3, "initial_delay_secs": 10, "backoff_multiplier": 2.0, "max_delay_secs": 120}`
	retry1 = `"retry": {"max_retries": 1, "initial_delay_secs": 10}`

	parentAndChild = `[
		{"id": "parent", "name": "Parent", "kind": "etl", "timeout": 30, ` + retry1 + `},
		{"id": "child", "name": "Child", "kind": "etl", "dependencies": ["parent"],
			"on_failure": {"kind": "Webhook", "params": {"url": "HOOK/child-failed", "verb": "Post"}}},
		{"id": "grandchild", "name": "Grandchild", "kind": "etl", "dependencies": ["child"]}]`

	explicitFailure = `{"status": "Failure", "failure_reason": "bad data"}`
)

// Section 12, to the instant. Its task has a timeout of 120 s and times out after
// 30: it gets 30 here.
func TestTimeline(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		ids := e.post(`[{"id": "import", "name": "Import Data", "kind": "etl", "timeout": 30, ` + retry3 + `,
				"on_start": {"kind": "Webhook", "params": {"url": "HOOK/import", "verb": "Post"}}},
			{"id": "child", "name": "Child", "kind": "etl", "dependencies": ["import"]}]`)
		id, child := ids["import"], ids["child"]
		e.is(id, "Pending", 0, 0)
		for _, moment := range []struct {
			at          float64
			status      string
			attempt     int
			nextRetryAt float64
		}{
			{0, "Running", 0, 0},
			{29.999, "Running", 0, 0},
			{30, "RetryPending", 1, 40},
			{39.999, "RetryPending", 1, 40},
			{40, "Running", 1, 0},
			{69.999, "Running", 1, 0},
			{70, "RetryPending", 2, 90},
			{89.999, "RetryPending", 2, 90},
			{90, "Running", 2, 0},
			{100, "Running", 2, 0},
		} {
			e.advance(moment.at)
			e.is(id, moment.status, moment.attempt, moment.nextRetryAt)
			e.is(child, "Waiting", 0, 0)
		}
		e.patch(id, `{"status": "Success"}`)
		e.is(id, "Success", 2, 0)
		e.is(child, "Pending", 0, 0)
		assert.Equal(t, []string{"/import", "/import", "/import"}, e.paths())
	})
}

// Section 13: retry on timeout → eventually succeeds.
func TestRetryOnTimeoutEventuallySucceeds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		ids := e.post(parentAndChild)
		e.advance(1)
		e.advance(31)
		e.is(ids["parent"], "RetryPending", 1, 41)
		assert.Equal(t, "timeout: no word for 30 s", e.get(ids["parent"]).FailureReason)
		e.advance(41)
		e.patch(ids["parent"], `{"status": "Success"}`)
		e.is(ids["parent"], "Success", 1, 0)
		e.is(ids["child"], "Pending", 0, 0)
		e.is(ids["grandchild"], "Waiting", 0, 0)
	})
}

// Section 13: retry on webhook failure → eventually succeeds.
func TestRetryOnWebhookFailureEventuallySucceeds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		e.refuse = func(c call) bool { return c.Attempt == 0 }
		id := e.post(`[{"id": "a", "name": "A", "kind": "etl", ` + retry3 + `,
			"on_start": {"kind": "Webhook", "params": {"url": "HOOK/a", "verb": "Put"}}}]`)["a"]
		e.step()
		e.is(id, "RetryPending", 1, 10)
		assert.Regexp(t, "^webhook_failure: .*PUT .*/a: 503", e.get(id).FailureReason)
		e.advance(10)
		e.is(id, "Running", 1, 0)
		e.patch(id, `{"status": "Success"}`)
		e.is(id, "Success", 1, 0)
		assert.Equal(t, "PUT", e.calls[1].Method)
	})
}

// Section 4c: PATCH with Failure is retried.
func TestRetryOnExplicitFailureEventuallySucceeds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		ids := e.post(parentAndChild)
		e.step()
		e.patch(ids["parent"], explicitFailure)
		e.is(ids["parent"], "RetryPending", 1, 10)
		assert.Equal(t, "explicit: bad data", e.get(ids["parent"]).FailureReason)
		e.is(ids["child"], "Waiting", 0, 0)
		e.advance(10)
		e.patch(ids["parent"], `{"status": "Success"}`)
		e.is(ids["child"], "Pending", 0, 0)
	})
}

// Section 13: retry exhausted → Failure, and propagation to the children.
func TestRetryExhausted(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		ids := e.post(parentAndChild)
		e.step()
		e.patch(ids["parent"], explicitFailure)
		e.advance(10)
		e.request(http.MethodPost, "/task/"+ids["grandchild"]+"/pause", "", http.StatusOK, nil)
		e.patch(ids["parent"], explicitFailure)
		e.is(ids["parent"], "Failure", 1, 0)
		e.is(ids["child"], "Failure", 0, 0)
		e.is(ids["grandchild"], "Failure", 0, 0)
		assert.Equal(t, "dependency "+ids["parent"]+": Failure", e.get(ids["grandchild"]).FailureReason)
		e.advance(1000)
		e.is(ids["parent"], "Failure", 1, 0)
		assert.Equal(t, []string{"/child-failed"}, e.paths())
		assert.Equal(t, ids["child"]+":end:failure:0", e.calls[0].Key)
	})
}

// Section 4: without a policy, or with one for other triggers, a failure is final.
func TestNotRetried(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		e.refuse = func(call) bool { return true }
		ids := e.post(`[{"id": "none", "name": "A", "kind": "etl", "timeout": 5},
			{"id": "timeout", "name": "B", "kind": "etl", "timeout": 5,
				"retry": {"max_retries": 3, "retry_on": ["webhook_failure", "explicit"]}},
			{"id": "explicit", "name": "C", "kind": "etl", "retry": {"max_retries": 3, "retry_on": ["timeout"]}},
			{"id": "webhook", "name": "D", "kind": "etl", "retry": {"max_retries": 3, "retry_on": ["timeout"]},
				"on_start": {"kind": "Webhook", "params": {"url": "HOOK/d", "verb": "Post"}}}]`)
		e.step()
		e.patch(ids["explicit"], explicitFailure)
		e.advance(5)
		for _, id := range []string{"none", "timeout", "explicit", "webhook"} {
			e.is(ids[id], "Failure", 0, 0)
		}
	})
}

// Sections 3 and 7: a retry does not propagate. It is not an end.
func TestRetryDoesNotPropagate(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		ids := e.post(`[{"id": "parent", "name": "Parent", "kind": "etl", ` + retry3 + `,
				"on_failure": {"kind": "Webhook", "params": {"url": "HOOK/failed", "verb": "Post"}}},
			{"id": "child", "name": "Child", "kind": "etl", "dependencies": ["parent"]}]`)
		e.step()
		for i, at := range []float64{10, 30, 70} {
			e.patch(ids["parent"], explicitFailure)
			e.step()
			e.is(ids["parent"], "RetryPending", i+1, at)
			e.is(ids["child"], "Waiting", 0, 0)
			e.advance(at)
		}
		assert.Empty(t, e.paths())
		e.patch(ids["parent"], explicitFailure)
		e.step()
		e.is(ids["parent"], "Failure", 3, 0)
		e.is(ids["child"], "Failure", 0, 0)
		assert.Equal(t, []string{"/failed"}, e.paths())
	})
}

// Section 13: cancel during RetryPending. It is final, and children are canceled.
func TestCancelDuringRetryPending(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		ids := e.post(parentAndChild)
		e.step()
		e.patch(ids["parent"], explicitFailure)
		e.request(http.MethodPost, "/task/"+ids["parent"]+"/cancel", "", http.StatusOK, nil)
		e.is(ids["parent"], "Canceled", 1, 0)
		e.is(ids["child"], "Canceled", 0, 0)
		e.is(ids["grandchild"], "Canceled", 0, 0)
		e.advance(1000)
		e.is(ids["parent"], "Canceled", 1, 0)
		e.request(http.MethodPost, "/task/"+ids["parent"]+"/cancel", "", http.StatusConflict, nil)
		assert.Empty(t, e.paths())
	})
}

// A task that is canceled while its on_start is called stays so.
func TestCancelWhileClaimed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		var id string
		e.refuse = func(call) bool {
			_, err := e.cancel(t.Context(), id)
			return assert.NoError(t, err)
		}
		id = e.post(`[{"id": "a", "name": "A", "kind": "etl", ` + retry3 + `,
			"on_start": {"kind": "Webhook", "params": {"url": "HOOK/a", "verb": "Post"}}}]`)["a"]
		e.step()
		e.advance(1000)
		e.is(id, "Canceled", 0, 0)
	})
}

// Whoever is called may be done before the call is.
func TestSuccessWhileClaimed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		var id string
		e.refuse = func(call) bool {
			_, err := e.apply(t.Context(), id, patch{Status: string(success)})
			return !assert.NoError(t, err)
		}
		id = e.post(`[{"id": "a", "name": "A", "kind": "etl", ` + retry3 + `,
			"on_start": {"kind": "Webhook", "params": {"url": "HOOK/a", "verb": "Post"}}}]`)["a"]
		e.step()
		e.is(id, "Success", 0, 0)
	})
}

// Sections 8 and 14: paused during RetryPending, a task goes back to it and keeps
// its instant, whether that has passed or not.
func TestPauseDuringRetryPending(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		for i, resumed := range []float64{5, 50} {
			zero := float64(i) * 1000
			resumed += zero
			e.advance(zero)
			ids := e.post(parentAndChild)
			id := ids["parent"]
			e.step()
			e.patch(id, explicitFailure)
			e.request(http.MethodPost, "/task/"+id+"/pause", "", http.StatusOK, nil)
			e.is(id, "Paused", 1, zero+10)
			e.advance(resumed)
			e.is(id, "Paused", 1, zero+10)
			e.request(http.MethodPost, "/task/"+id+"/unpause", "", http.StatusOK, nil)
			e.is(id, "RetryPending", 1, zero+10)
			if resumed < zero+10 {
				e.advance(zero + 9.999)
				e.is(id, "RetryPending", 1, zero+10)
				e.setClock(zero + 10)
			}
			e.step()
			e.is(id, "Running", 1, 0)
			e.request(http.MethodPost, "/task/"+id+"/pause", "", http.StatusConflict, nil)
			e.request(http.MethodPost, "/task/"+id+"/unpause", "", http.StatusConflict, nil)

			// Others go back to where they were as well, or to where they would be.
			child := ids["child"]
			e.request(http.MethodPost, "/task/"+child+"/pause", "", http.StatusOK, nil)
			e.request(http.MethodPost, "/task/"+child+"/unpause", "", http.StatusOK, nil)
			e.is(child, "Waiting", 0, 0)
			e.request(http.MethodPost, "/task/"+child+"/pause", "", http.StatusOK, nil)
			e.patch(id, `{"status": "Success"}`)
			e.is(child, "Paused", 0, 0)
			e.request(http.MethodPost, "/task/"+child+"/unpause", "", http.StatusOK, nil)
			e.is(child, "Pending", 0, 0)
		}
	})
}

// Section 8: stop_batch cancels what waits for its retry, and other batches stay.
func TestStopBatch(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		ids, other := e.post(parentAndChild), e.post(parentAndChild)
		e.step()
		e.patch(ids["parent"], explicitFailure)
		var stopped struct{ Canceled int }
		e.request(http.MethodPost, "/batch/"+ids["batch"]+"/stop", "", http.StatusOK, &stopped)
		assert.Equal(t, 3, stopped.Canceled)
		e.is(ids["parent"], "Canceled", 1, 0)
		e.is(ids["child"], "Canceled", 0, 0)
		e.advance(20)
		e.is(ids["parent"], "Canceled", 1, 0)
		e.is(other["parent"], "Running", 0, 0)
	})
}

// Section 6: what a retry resets, and what it does not.
func TestReset(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		id := e.post(parentAndChild)["parent"]
		e.advance(1)
		e.patch(id, `{"new_success": 3, "new_failures": 2}`)
		e.patch(id, `{"status": "Failure", "failure_reason": "bad data", "new_success": 1}`)
		failed := e.get(id)
		assert.Equal(t, epoch.Add(time.Second), failed.StartedAt.UTC())
		assert.Equal(t, epoch.Add(time.Second), failed.EndedAt.UTC())
		assert.Equal(t, "explicit: bad data", failed.FailureReason)

		e.setClock(11)
		more, err := e.retries(t.Context())
		require.NoError(t, err)
		require.True(t, more)
		reset := e.get(id)
		assert.Equal(t, "Pending", reset.Status)
		assert.Zero(t, reset.StartedAt)
		assert.Zero(t, reset.EndedAt)
		assert.Empty(t, reset.FailureReason)
		assert.Zero(t, reset.NextRetryAt)
		assert.Equal(t, epoch.Add(11*time.Second), reset.LastUpdated.UTC())
		assert.Equal(t, 4, reset.Success, "not reset")
		assert.Equal(t, 2, reset.Failures, "not reset")
		assert.Equal(t, 1, reset.Attempt, "not changed")
	})
}

// Section 13: the idempotency key has the attempt in it, so that a retry calls
// its webhook again. The same attempt does not.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		id := e.post(`[{"id": "a", "name": "A", "kind": "etl", ` + retry3 + `,
			"on_start": {"kind": "Webhook", "params": {"url": "HOOK/a", "verb": "Post"}},
			"on_success": {"kind": "Webhook", "params": {"url": "HOOK/done", "verb": "Post"}}}]`)["a"]
		e.step()
		e.patch(id, explicitFailure)
		e.advance(10)
		e.patch(id, `{"status": "Success"}`)
		e.step()
		assert.Equal(t, []call{
			{"/a", id + ":start:success:0", "POST", 0},
			{"/a", id + ":start:success:1", "POST", 1},
			{"/done", id + ":end:success:1", "POST", 1},
		}, e.calls)

		require.NoError(t, e.inTx(t.Context(), func(ctx context.Context, tx *transaction) error {
			stored, err := e.task(ctx, tx, id)
			require.NoError(t, err)
			first, err := e.begin(ctx, tx, stored)
			assert.False(t, first, "attempt 1 has called it")
			return err
		}))
	})
}

// The webhooks of an end are called again if they fail, with the same key.
func TestEndWebhooks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		refused := 0
		e.refuse = func(call) bool { refused++; return refused < 3 }
		id := e.post(`[{"id": "a", "name": "A", "kind": "etl",
			"on_failure": {"kind": "Webhook", "params": {"url": "HOOK/failed", "verb": "Post"}}}]`)["a"]
		e.step()
		e.patch(id, explicitFailure)
		for at := range 20 {
			e.advance(float64(at))
		}
		want := call{"/failed", id + ":end:failure:0", "POST", 0}
		assert.Equal(t, []call{want, want, want}, e.calls)
	})
}

// One that was lost with its worker is called again.
func TestLostEndWebhook(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		id := e.post(`[{"id": "a", "name": "A", "kind": "etl",
			"on_success": {"kind": "Webhook", "params": {"url": "HOOK/done", "verb": "Post"}}}]`)["a"]
		e.step()
		e.patch(id, `{"status": "Success"}`)
		rows, err := e.hooks.Claim(t.Context(), e.db, 1)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		e.advance(29)
		assert.Empty(t, e.paths())
		e.advance(30)
		e.advance(40)
		assert.Equal(t, []call{{"/done", id + ":end:success:0", "POST", 0}}, e.calls)
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

// Section 7: the timeout counts from the last word of the task, and anew in each
// attempt.
func TestTimeoutIsReset(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		id := e.post(parentAndChild)["parent"]
		e.step()
		e.setClock(29)
		e.patch(id, `{"new_success": 1}`)
		e.advance(58)
		e.is(id, "Running", 0, 0)
		e.advance(59)
		e.is(id, "RetryPending", 1, 69)
		e.advance(100)
		e.is(id, "Running", 1, 0)
		e.advance(129)
		e.is(id, "Running", 1, 0)
		e.advance(130)
		e.is(id, "Failure", 1, 0)
	})
}

// An attempt whose worker died before it ran counts, and is retried whatever
// retry_on says.
func TestLostWorker(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		id := e.post(`[{"id": "a", "name": "A", "kind": "etl", "retry": {"max_retries": 1, "retry_on": ["explicit"]}}]`)["a"]
		lose := func() {
			rows, err := e.tasks.Claim(t.Context(), e.db, 1)
			require.NoError(t, err)
			require.Len(t, rows, 1)
		}
		lose()
		e.advance(29)
		e.is(id, "Claimed", 0, 0)
		e.advance(30)
		e.is(id, "RetryPending", 1, 35)
		e.setClock(35)
		_, err := e.retries(t.Context())
		require.NoError(t, err)
		lose()
		e.advance(65)
		e.is(id, "Failure", 1, 0)
	})
}

// A child starts when all it depends on has succeeded, also if that is at once.
func TestPropagation(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		for range 5 {
			ids := e.post(`[{"id": "a", "name": "A", "kind": "x"}, {"id": "b", "name": "B", "kind": "x"},
				{"id": "first", "name": "First", "kind": "x"},
				{"id": "c", "name": "C", "kind": "x", "dependencies": ["first", "a", "b", "a"]}]`)
			e.step()
			e.is(ids["c"], "Waiting", 0, 0)
			e.patch(ids["first"], `{"status": "Success"}`)
			e.is(ids["c"], "Waiting", 0, 0)
			var wg sync.WaitGroup
			for _, parent := range []string{"a", "b"} {
				wg.Go(func() {
					_, err := e.apply(t.Context(), ids[parent], patch{Status: string(success)})
					assert.NoError(t, err)
				})
			}
			wg.Wait()
			e.is(ids["c"], "Pending", 0, 0)
		}
	})
}

// Section 5: any number of retry loops may run. Each retry is
// begun once.
func TestRetryLoops(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		for range 40 {
			e.post(`[{"id": "a", "name": "A", "kind": "etl", ` + retry1 + `}]`)
		}
		e.step()
		var found []dto
		e.request(http.MethodGet, "/task?status=running", "", http.StatusOK, &found)
		require.Len(t, found, 40)
		for _, f := range found {
			e.patch(f.ID, explicitFailure)
		}
		e.setClock(10)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				_, err := e.retries(t.Context())
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		e.request(http.MethodGet, "/task?status=Pending", "", http.StatusOK, &found)
		assert.Len(t, found, 40)
		assert.Contains(t, e.text("/metrics"), `task_retry_total{attempt="1"} 40`)
	})
}

// Another loop's lock is no reason to wait: FOR UPDATE SKIP LOCKED.
func TestRetryLoopSkipsLocked(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		if e.db.Dialect == retrytable.SQLite {
			return // has one writer at a time
		}
		a, b := e.post(parentAndChild)["parent"], e.post(parentAndChild)["parent"]
		e.step()
		e.patch(a, explicitFailure)
		e.patch(b, explicitFailure)
		e.setClock(10)
		tx, err := e.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), "SELECT 1 FROM task WHERE id = $1 FOR UPDATE", a)
		require.NoError(t, err)
		_, err = e.retries(t.Context())
		require.NoError(t, err)
		e.is(a, "RetryPending", 1, 10)
		e.is(b, "Pending", 1, 0)
		require.NoError(t, tx.Rollback())
		e.step()
		e.is(a, "Running", 1, 0)
	})
}

// The clock of the database decides, also for a worker whose own is an hour off.
func TestDatabaseClockDecides(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		for _, off := range []time.Duration{-time.Hour, time.Hour} {
			zero := float64(int64(time.Until(epoch.Add(-off)).Seconds()) * -1)
			e.setClock(zero)
			id := e.post(parentAndChild)["parent"]
			e.step()
			e.advance(zero + 29)
			e.is(id, "Running", 0, 0)
			e.advance(zero + 30)
			e.is(id, "RetryPending", 1, zero+40)
			e.advance(zero + 39)
			e.is(id, "RetryPending", 1, zero+40)
			e.advance(zero + 40)
			e.is(id, "Running", 1, 0)
		}
	})
}

// Section 8: the metrics.
func TestMetrics(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		ids := e.post(`[{"id": "a", "name": "A", "kind": "etl", "retry": {"max_retries": 2, "initial_delay_secs": 1}},
			{"id": "b", "name": "B", "kind": "etl", ` + retry1 + `}, {"id": "c", "name": "C", "kind": "etl"}]`)
		e.step()
		for _, id := range []string{"a", "b", "c"} {
			e.patch(ids[id], explicitFailure)
		}
		e.advance(10)
		e.patch(ids["a"], explicitFailure)
		e.advance(20)
		e.patch(ids["a"], explicitFailure)
		text := e.text("/metrics")
		assert.Contains(t, text, `task_retry_total{attempt="1"} 2`)
		assert.Contains(t, text, `task_retry_total{attempt="2"} 1`)
		assert.Contains(t, text, "task_retry_exhausted_total 1", "b has a retry left, c had none")
	})
}

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
