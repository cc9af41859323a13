//nolint:thelper // what each calls is the test itself
package main

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

// A webhook that says when to come back is not called before.
func TestRetryAfterOfWebhook(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		e.refuse = func(c call) bool { return c.Attempt == 0 }
		id := e.post(`[{"id": "a", "name": "A", "kind": "etl", ` + retry3 + `,
			"on_start": {"kind": "Webhook", "params": {"url": "HOOK/later", "verb": "Post"}}}]`)["a"]
		e.step()
		e.is(id, "RetryPending", 1, 30)
		e.advance(30)
		e.is(id, "Running", 1, 0)
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
		assert.Equal(t, "dependency Parent: Failure", e.get(ids["grandchild"]).FailureReason)
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

		e.retry(11)
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
