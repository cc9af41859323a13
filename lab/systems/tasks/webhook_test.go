//nolint:thelper // what each calls is the test itself
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

const oneHook = `[{"id": "a", "name": "A", "kind": "etl", ` + retry3 + `,
	"on_start": {"kind": "Webhook", "params": {"url": "HOOK/a", "verb": "Post"}}}]`

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
	})
}

// Whoever is called may be done before the call is.
func TestSuccessWhileClaimed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		var id string
		e.refuse = func(call) bool {
			_, err := e.apply(t.Context(), id, patch{Status: success})
			return !assert.NoError(t, err)
		}
		id = e.post(oneHook)["a"]
		e.step()
		e.is(id, "Success", 0, 0)
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

// Receivers that hang keep no other from being called: at the start of tasks, and at
// their end.
func TestHangingReceivers(t *testing.T) {
	t.Parallel()
	const hanging = 40
	for _, hook := range []string{"on_start", "on_success"} {
		t.Run(hook, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, e *env) {
				calls, good := make(chan bool, 3*hanging), make(chan bool) // three attempts each, when they fail at last
				e.client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
					if r.URL.Path == "/answers" {
						close(good)
						return http.DefaultTransport.RoundTrip(r)
					}
					calls <- true
					<-good
					return nil, errors.New("has hung")
				})
				task := func(id, path string) string {
					return fmt.Sprintf(`{"id": "%s", "name": "%[1]s", "kind": "x",
						"%s": {"kind": "Webhook", "params": {"url": "HOOK/%s", "verb": "Post"}}}`, id, hook, path)
				}
				var batch []string
				for i := range hanging {
					batch = append(batch, task(fmt.Sprint(i), "hangs"))
				}
				ids := e.post("[" + strings.Join(append(batch, task("good", "answers")), ",") + "]")
				if hook == "on_success" {
					e.step()
					for id := range ids {
						if id != "batch" && id != "good" {
							e.patch(ids[id], `{"status": "Success"}`)
						}
					}
				}
				e.poll = 10 * time.Millisecond // between two looks
				defer e.working()()
				if hook == "on_success" {
					for range hanging {
						select {
						case <-calls:
						case <-time.After(time.Minute):
							close(good)
							require.Fail(t, "not all are called at once")
						}
					}
					e.patch(ids["good"], `{"status": "Success"}`)
				}
				select {
				case <-good:
				case <-time.After(time.Minute):
					assert.Fail(t, "the other one was not called")
					close(good)
				}
			})
		})
	}
}

// One that hangs is given up in time for its lease.
func TestHangingReceiverIsBound(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(receiver.Close)
	c, err := readConfig(func(string) string { return "" })
	require.NoError(t, err)
	c.hookTime = 50 * time.Millisecond
	s := newService(dbtest.New(t, retrytable.SQLite), c, slog.New(slog.DiscardHandler))
	a := &action{Kind: "Webhook"}
	a.Params.URL, a.Params.Verb = receiver.URL, "Post"
	assert.ErrorIs(t, s.call(t.Context(), a, "key", nil), context.DeadlineExceeded)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

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
		e.advance(119)
		assert.Empty(t, e.paths())
		e.advance(120)
		e.advance(130)
		assert.Equal(t, []call{{"/done", id + ":end:success:0", "POST", 0}}, e.calls)
	})
}

// Section 6: the record of an on_start says what became of the call, for each
// attempt.
func TestStartRecords(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		e.refuse = func(c call) bool { return c.Attempt == 0 }
		id := e.post(oneHook)["a"]
		e.step()
		assert.Regexp(t, "^failure .*POST .*/a: 503", e.record(id+":start:success:0"))
		e.advance(10)
		assert.Equal(t, "success ", e.record(id+":start:success:1"))
		e.patch(id, explicitFailure)
		assert.Equal(t, "success ", e.record(id+":start:success:1"), "of the call, not of the task")
	})
}

// Nobody knows what became of a call whose worker died, unless word of it comes. So the webhook is
// called again under the same key, and may report as the attempt of that key. After a failure that
// is known, the key is another one.
func TestLostStartRecord(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		id := e.post(oneHook)["a"]
		e.lose()
		e.advance(120)
		assert.Regexp(t, "^failure lost: whoever called", e.record(id+":start:success:0"))
		e.retry(130)
		e.lose()
		e.advance(250)
		e.advance(270)
		e.is(id, "Running", 2, 0)
		assert.Equal(t, []call{{"/a", id + ":start:success:0", "POST", 2}}, e.calls)
		assert.Equal(t, "success ", e.record(id+":start:success:0"))
		e.request(http.MethodPatch, "/task/"+id, `{"attempt": 1}`, http.StatusConflict, nil)
		e.patch(id, `{"attempt": 0, "status": "Failure"}`)
		e.is(id, "RetryPending", 3, 310)
		e.retry(310)
		e.lose()
		e.request(http.MethodPatch, "/task/"+id, `{"attempt": 0, "status": "Success"}`, http.StatusConflict, nil)
		e.patch(id, `{"attempt": 3, "status": "Success"}`)
		e.is(id, "Success", 3, 0)
		assert.Equal(t, "success ", e.record(id+":start:success:3"))
		e.advance(1000)
		e.is(id, "Success", 3, 0)
	})
}
