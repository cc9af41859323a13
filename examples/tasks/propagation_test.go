//nolint:thelper // what each calls is the test itself
package main

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
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
					_, err := e.apply(t.Context(), ids[parent], patch{Status: string(success)})
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
