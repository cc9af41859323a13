//nolint:thelper // what each calls is the test itself
package main

import (
	"database/sql"
	"html"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared"
	"github.com/seed-5ff3c98e/retry/systems/shared/dbtest"
)

// Section 11: what is wrong is refused, with its task, its field and its value,
// and nothing is stored.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		id := e.post(parentAndChild)["parent"]
		e.step()
		bad, gone, conflicting := http.StatusBadRequest, http.StatusNotFound, http.StatusConflict
		for _, tt := range []struct {
			method, path, body string
			code               int
			want               string
		}{
			{"POST", "/task", `{}`, bad, "body: "},
			{"POST", "/task", `[] []`, bad, "body: more than one JSON value"},
			{"POST", "/task", `[{"id": "a", "retries": 3}]`, bad, `unknown field "retries"`},
			{"POST", "/task", `[]`, bad, "tasks: 0: must be at least 1"},
			{"POST", "/task", `[{"id": ""}]`, bad, `task "": id: must be there and unique`},
			{"POST", "/task", `[{"id": "a"}, {"id": "a"}]`, bad, `task "a": id: must be there and unique`},
			{"POST", "/task", `[{"id": "a", "timeout": -1}]`, bad, `task "a": timeout: -1: must not be negative`},
			{"POST", "/task", `[{"id": "a", "max_concurrency": -1}]`, bad, `task "a": max_concurrency: -1: must not be negative`},
			{"POST", "/task", `[{"id": "a", "dependencies": ["b"]}]`, bad, `task "a": dependencies: "b": there is no such task`},
			{
				"POST", "/task", `[{"id": "a", "dependencies": ["b"]}, {"id": "b", "dependencies": ["a"]}]`, bad,
				`task "b": dependencies: "a": must not depend on itself`,
			},
			{
				"POST", "/task", `[{"id": "a", "retry": {"max_retries": 11}}]`, bad,
				`task "a": retry: max_retries: 11: must be at most 10`,
			},
			{
				"POST", "/task", `[{"id": "a"}, {"id": "b", "retry": {"max_retries": 1, "initial_delay_secs": 0}}]`, bad,
				`task "b": retry: initial_delay_secs: 0: must be at least 1`,
			},
			{"POST", "/task", `[{"id": "a", "on_start": {"kind": "Mail"}}]`, bad, `task "a": on_start: kind: "Mail": must be Webhook`},
			{
				"POST", "/task", `[{"id": "a", "on_success": {"kind": "Webhook", "params": {"url": "file:///x", "verb": "Post"}}}]`, bad,
				`task "a": on_success: params.url: "file:///x": must be http://… or https://…`,
			},
			{
				"POST", "/task", `[{"id": "a", "on_failure": {"kind": "Webhook", "params": {"url": "http://x", "verb": "POST"}}}]`, bad,
				`task "a": on_failure: params.verb: "POST": must be Get, Post, Put, Patch or Delete`,
			},
			{"GET", "/task?status=Retry", "", bad, `status: "Retry": must be one of [Waiting Pending Claimed Running RetryPending`},
			{"GET", "/task/nobody", "", gone, "task nobody: not found"},
			{"PATCH", "/task/nobody", `{}`, gone, "task nobody: not found"},
			{"POST", "/task/nobody/cancel", "", gone, "task nobody: not found"},
			{"POST", "/batch/none/stop", "", gone, "batch none: not found"},
			{"PATCH", "/task/" + id, `{"status": "RetryPending"}`, bad, `status: "RetryPending": must be Success or Failure`},
			{
				"PATCH", "/task/" + id, `{"new_success": -1, "new_failures": -2}`, bad,
				`new_success: -1: must not be negative\nnew_failures: -2: must not be negative`,
			},
			{"PATCH", "/task/" + id, `{"status": "Success", "attempt": 1}`, conflicting, "attempt: 1: the task is at attempt 0"},
			{"POST", "/task/" + id + "/unpause", "", conflicting, "status Running: does not allow that"},
		} {
			var answer struct{ Error string }
			e.request(tt.method, tt.path, tt.body, tt.code, &answer)
			assert.Contains(t, strings.ReplaceAll(answer.Error, "\n", `\n`), tt.want, tt.body)
		}
		var all []dto
		e.request(http.MethodGet, "/task", "", http.StatusOK, &all)
		assert.Len(t, all, 3)
	})
}

// What PostgreSQL cannot store is refused, or is not there.
func TestStrangeTexts(t *testing.T) {
	t.Parallel()
	e := newEnv(t, dbtest.New(t, retrytable.PostgreSQL))
	for _, tt := range [][3]string{
		{"POST", "/task", `[{"id": "a", "name": "b\\\\\u0000"}]`},
		{"POST", "/task", `[{"id": "a", "on_start": {"kind": "Webhook", "params": {"url": "http://x/\u0000", "verb": "Post"}}}]`},
		{"GET", "/task/a%00b", ""},
		{"POST", "/task/%ff/cancel", ""},
		{"POST", "/batch/%00/stop", ""},
		{"GET", "/task?batch=%00", ""},
	} {
		var answer struct{ Error string }
		e.request(tt[0], tt[1], tt[2], http.StatusBadRequest, &answer)
		assert.NotEmpty(t, answer.Error)
	}
}

// Sections 8 and 9: tasks in lists have their attempt, and RetryPending is a
// filter; a task has its policy and its next retry too.
func TestFiltersAndFields(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		ids := e.post(parentAndChild)
		e.post(parentAndChild)
		e.step()
		e.patch(ids["parent"], explicitFailure)
		e.request(http.MethodPatch, "/task/"+ids["parent"], `{"status": "Success"}`, http.StatusConflict, nil)
		for _, filter := range []string{"status=RetryPending", "status=retry_pending", "status=RetryPending&batch=" + ids["batch"]} {
			var found []map[string]any
			e.request(http.MethodGet, "/task?"+filter, "", http.StatusOK, &found)
			assert.Equal(t, []map[string]any{{
				"id": ids["parent"], "batch_id": ids["batch"], "local_id": "parent", "name": "Parent", "kind": "etl",
				"status": "RetryPending", "attempt": 1.,
			}}, found)
		}
		var found []dto
		e.request(http.MethodGet, "/task?status=Running&batch="+ids["batch"], "", http.StatusOK, &found)
		assert.Empty(t, found)
		got := e.get(ids["parent"])
		assert.Equal(t, &retryPolicy{1, 10, 2, 300, nil}, got.Retry)
		assert.Equal(t, epoch.Add(10*time.Second), got.NextRetryAt.UTC())
		assert.Nil(t, e.get(ids["child"]).Retry)
	})
}

// A backslash before u0000 is no NUL, and other words need not be English.
func TestStrangeNames(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		id := e.post(`[{"id": "a", "name": "\\u0000 \u00e9\\", "kind": "x"}]`)["a"]
		var got struct{ Name string }
		e.request(http.MethodGet, "/task/"+id, "", http.StatusOK, &got)
		assert.Equal(t, `\u0000 é\`, got.Name)
	})
}

// Lists and the page, which reloads itself, have indexes.
func TestListPlans(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		dbtest.Exec(t, e.db, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
			INSERT INTO task (id, batch_id, position, local_id, name, kind, timeout, max_concurrency, created_at, last_updated)
			SELECT i, 'batch' || i / 10, 0, i, 'Name', 'x', 60, 0, {now} + i * {microsecond}, {now} FROM n`)
		dbtest.Exec(t, e.db, "ANALYZE task")
		ofBatch, args := listQuery("", "batch7")
		ofBoth, both := listQuery(failed, "batch7")
		for _, look := range []struct {
			query string
			args  []any
			index string
		}{
			{ofBatch, args, "task_batch"}, {ofBoth, both, "task_batch"}, {lastBatch, nil, "task_created"},
		} {
			plan := dbtest.Explain(t, e.db)
			_, err := shared.Query(t.Context(), plan, func(*sql.Rows) (any, error) { return nil, nil }, e.db.SQL(look.query), look.args...)
			require.NoError(t, err)
			assert.Contains(t, plan.String(), look.index)
		}
	})
}

// Section 8: the page shows RetryPending, the attempt and the next retry.
func TestDAGPage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		assert.Contains(t, e.text("/dag"), "Batch none")
		other := e.post(parentAndChild)
		e.setClock(1)
		ids := e.post(strings.ReplaceAll(parentAndChild, `"Parent"`, `"<b>Parent</b>"`))
		e.step()
		e.patch(ids["parent"], explicitFailure)
		page := e.text("/dag")
		assert.Contains(t, page, "Batch "+ids["batch"])
		assert.Contains(t, page, `<div class="task RetryPending" id="`+ids["parent"]+`" style="left: 0px; top: 0px">
<strong>&lt;b&gt;Parent&lt;/b&gt;</strong> RetryPending
<p>attempt 1 of 0…1</p>
<p>next retry at <time>04:05:17.000</time> UTC, in 10s</p>
<p class="reason" title="explicit: bad data">explicit: bad data</p>`)
		assert.Contains(t, page, `<div class="task Waiting" id="`+ids["grandchild"]+`" style="left: 700px; top: 0px">`)
		assert.Equal(t, 2, strings.Count(page, "<line "))
		assert.Contains(t, page, `<line x1="280" y1="53" x2="350" y2="53"`)
		assert.Equal(t, 3, strings.Count(page, `<div class="task `))

		page = e.text("/dag?batch=" + other["batch"])
		assert.Contains(t, page, "Batch "+other["batch"])
		assert.Contains(t, page, "<p>attempt 0 of 0…1</p>")
		assert.NotContains(t, page, "next retry")
	})
}

// The page of a long chain takes no longer than that of as many tasks without links.
func TestDAGOfLongChain(t *testing.T) {
	t.Parallel()
	const n = 50_000
	nodes, links := map[string]*node{}, make([][2]string, 0, 2*n)
	for i := range n {
		nodes[strconv.Itoa(i)] = &node{}
		if i > 0 { // the last link first, which takes the most passes over all of them
			links = append(links, [2]string{strconv.Itoa(n - i - 1), strconv.Itoa(n - i)}, [2]string{"0", strconv.Itoa(i)})
		}
	}
	arranged := make(chan bool)
	go func() {
		arrange(nodes, links)
		close(arranged)
	}()
	select {
	case <-arranged:
	case <-time.After(20 * time.Second):
		require.Fail(t, "not arranged")
	}
	for i := range n {
		require.Equal(t, i*columnWidth, nodes[strconv.Itoa(i)].X)
	}
}

// All of a failure is on the page, and a page of many tasks reloads itself less often.
func TestDAGPageOfMany(t *testing.T) {
	t.Parallel()
	e := newEnv(t, dbtest.New(t, retrytable.SQLite))
	const reason = `webhook_failure: Post "http://a-host-with-a-name.example:8080/a/long/path": dial tcp 127.0.0.1:8080: connect: connection refused`
	e.post(`[{"id": "a", "name": "A", "kind": "x"}]`)
	dbtest.Exec(t, e.db, "UPDATE task SET failure_reason = $1", reason)
	page := e.text("/dag")
	assert.Contains(t, html.UnescapeString(page), ">"+reason+"</p>")
	assert.Contains(t, page, `http-equiv="refresh" content="1"`)
	dbtest.Exec(t, e.db, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
		INSERT INTO task (id, batch_id, position, local_id, name, kind, timeout, max_concurrency, created_at, last_updated)
		SELECT i, 'large', 0, i, 'Name', 'x', 60, 0, {now}, {now} FROM n`)
	assert.Contains(t, e.text("/dag?batch=large"), `http-equiv="refresh" content="4"`)
}
