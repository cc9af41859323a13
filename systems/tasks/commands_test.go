//nolint:thelper // what each calls is the test itself
package main

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/systems/shared/dbtest"
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
