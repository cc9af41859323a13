//nolint:thelper // what each calls is the test itself
package main

import (
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
)

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
			_, err := e.command(t.Context(), id, "cancel")
			return assert.NoError(t, err)
		}
		id = e.post(oneHook)["a"]
		e.step()
		e.advance(1000)
		e.is(id, "Canceled", 0, 0)
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

// Section 8: which statuses each command is for. What is canceled has no lease left.
func TestCommands(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		for _, from := range statuses {
			bring := func() (id, batch string) {
				ids := e.post(`[{"id": "a", "name": "A", "kind": "x"}]`)
				dbtest.Exec(t, e.db, "UPDATE task SET status = $1, lease_until = {now} WHERE id = $2", string(from), ids["a"])
				return ids["a"], ids["batch"]
			}
			ended := from == success || from == failed || from == canceled
			code := func(allowed bool) int {
				if allowed {
					return http.StatusOK
				}
				return http.StatusConflict
			}
			id, _ := bring()
			e.request(http.MethodPost, "/task/"+id+"/pause", "", code(from == waiting || from == pending || from == retryPending), nil)
			id, _ = bring()
			e.request(http.MethodPost, "/task/"+id+"/unpause", "", code(from == paused), nil)
			id, _ = bring()
			e.request(http.MethodPost, "/task/"+id+"/cancel", "", code(!ended), nil)
			id, _ = bring()
			e.request(http.MethodPost, "/task/"+id+"/retry", "", code(from == failed), nil)
			_, batch := bring()
			var stopped struct{ Canceled int }
			e.request(http.MethodPost, "/batch/"+batch+"/stop", "", http.StatusOK, &stopped)
			assert.Equal(t, !ended, stopped.Canceled == 1, from)
			if !ended {
				e.none("status = 'canceled' AND lease_until IS NOT NULL")
			}
		}
	})
}

// A task that is Failure is attempted once more when somebody says so, under another key, and then what
// depends on it.
func TestRetryOfFailure(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		ids := e.post(`[{"id": "a", "name": "A", "kind": "x", "on_start": {"kind": "Webhook", "params": {"url": "HOOK/a", "verb": "Post"}}},
			{"id": "b", "name": "B", "kind": "x", "dependencies": ["a"]}]`)
		e.step()
		e.patch(ids["a"], explicitFailure)
		e.is(ids["b"], "Failure", 0, 0)
		e.request(http.MethodPost, "/task/"+ids["b"]+"/retry", "", http.StatusConflict, nil)
		e.request(http.MethodPost, "/task/"+ids["a"]+"/retry", "", http.StatusOK, nil)
		e.step()
		e.step()
		e.is(ids["a"], "Running", 1, 0)
		assert.Empty(t, e.get(ids["a"]).FailureReason)
		assert.NotEqual(t, e.calls[0].Key, e.calls[1].Key)
		e.patch(ids["a"], `{"status": "Success"}`)
		e.is(ids["b"], "Failure", 0, 0)
		e.request(http.MethodPost, "/task/"+ids["b"]+"/retry", "", http.StatusOK, nil)
		e.step()
		e.step()
		e.is(ids["b"], "Running", 1, 0)
	})
}

// Section 8: stop_batch cancels what waits for its retry, and other batches stay.
func TestStopBatch(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		var log strings.Builder
		e.log = slog.New(slog.NewTextHandler(&log, nil))
		ids, other := e.post(parentAndChild), e.post(parentAndChild)
		e.step()
		e.patch(ids["parent"], explicitFailure)
		var stopped struct{ Canceled int }
		e.request(http.MethodPost, "/batch/"+ids["batch"]+"/stop", "", http.StatusOK, &stopped)
		assert.Equal(t, 3, stopped.Canceled)
		for _, name := range []string{"Parent status=Canceled attempt=1", "Child status=Canceled attempt=0", "Grandchild status=Canceled attempt=0"} {
			assert.Contains(t, log.String(), "msg="+name)
		}
		e.is(ids["parent"], "Canceled", 1, 0)
		e.is(ids["child"], "Canceled", 0, 0)
		e.advance(20)
		e.is(ids["parent"], "Canceled", 1, 0)
		e.is(other["parent"], "Running", 0, 0)
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
					_, err := e.apply(t.Context(), ids[parent], patch{Status: success})
					assert.NoError(t, err)
				})
			}
			wg.Wait()
			e.is(ids["c"], "Pending", 0, 0)
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

// Section 8: an ancestor is a dead end when all tasks that depend on it have ended without it.
// It is canceled, and then perhaps its own ancestors. RetryPending is no end.
func TestDeadEndAncestors(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		cancel := func(id string) {
			t.Helper()
			e.request(http.MethodPost, "/task/"+id+"/cancel", "", http.StatusOK, nil)
		}
		ids := e.post(parentAndChild)
		e.step()
		cancel(ids["grandchild"])
		for _, id := range []string{"parent", "child"} {
			e.is(ids[id], "Canceled", 0, 0)
			assert.Equal(t, "all tasks that depend on it have ended", e.get(ids[id]).FailureReason)
		}

		ids = e.post(`[{"id": "top", "name": "Top", "kind": "x"}, {"id": "alone", "name": "Alone", "kind": "x"},
			{"id": "a", "name": "A", "kind": "x", "dependencies": ["top"]}, {"id": "b", "name": "B", "kind": "x", "dependencies": ["top"]}]`)
		e.step()
		dbtest.Exec(t, e.db, "UPDATE task SET status = 'retry_pending', next_retry_at = {now} + 3600000000 * {microsecond} WHERE id = $1", ids["b"])
		cancel(ids["a"])
		e.is(ids["top"], "Running", 0, 0)
		cancel(ids["b"])
		e.is(ids["top"], "Canceled", 0, 0)
		e.is(ids["alone"], "Running", 0, 0)
		e.patch(ids["alone"], `{"status": "Success"}`)

		// One that has ended stays as it was, and so does one whose other descendants go on.
		ids = e.post(`[{"id": "done", "name": "Done", "kind": "x"}, {"id": "fails", "name": "Fails", "kind": "x"},
			{"id": "c", "name": "C", "kind": "x", "dependencies": ["done", "fails"]},
			{"id": "other", "name": "Other", "kind": "x"}, {"id": "d", "name": "D", "kind": "x", "dependencies": ["other", "fails"]},
			{"id": "e", "name": "E", "kind": "x", "dependencies": ["other"]}]`)
		e.step()
		e.patch(ids["done"], `{"status": "Success"}`)
		e.patch(ids["fails"], explicitFailure)
		e.is(ids["c"], "Failure", 0, 0)
		e.is(ids["d"], "Failure", 0, 0)
		e.is(ids["done"], "Success", 0, 0)
		e.is(ids["other"], "Running", 0, 0)
	})
}
