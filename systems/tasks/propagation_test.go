//nolint:thelper // what each calls is the test itself
package main

import (
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/systems/shared/dbtest"
)

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
