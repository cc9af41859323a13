//nolint:thelper // what each calls is the test itself
package main

import (
	"bytes"
	"database/sql"
	_ "embed"
	"html"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
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
			{ // 65 KB are answered by few
				"POST", "/task", `[{"id": "` + strings.Repeat("A", 40_000) + `", "dependencies": ["` + strings.Repeat(`","`, 9_000) + `"]}]`, bad,
				`task "` + strings.Repeat("A", 60) + `": dependencies: "": there is no such task\nand 8981 more`,
			},
			{"PATCH", "/task/" + id, `{"` + strings.Repeat("A", 100_000) + `": 1}`, bad, `unknown field "AAA`},
			{"POST", "/task", `[{"id": "a", "dependencies": ["b"]}]`, bad, `task "a": dependencies: "b": there is no such task`},
			{
				"POST", "/task", `[{"id": "a", "dependencies": ["b"]}, {"id": "b", "dependencies": ["a"]}]`, bad,
				`dependencies: there is a cycle: a needs b needs a`,
			},
			{
				"POST", "/task", `[{"id": "a", "retry": {"max_retries": 11}}]`, bad,
				`task "a": retry: max_retries: 11: must be from 1 to 10`,
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
			{"GET", "/task?limit=0", "", bad, `limit: "0": must be from 1 to 1000`},
			{"GET", "/task?limit=1001", "", bad, `limit: "1001": must be from 1 to 1000`},
			{"GET", "/task?limit=all", "", bad, `limit: "all": must be from 1 to 1000`},
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
			assert.Contains(t, strings.ReplaceAll(answer.Error, "\n", `\n`), tt.want, tt.body[:min(len(tt.body), 1000)])
			assert.Less(t, len(answer.Error), 5000)
		}
		var all []dto
		e.request(http.MethodGet, "/task", "", http.StatusOK, &all)
		assert.Len(t, all, 3)
	})
}

// A body is JSON, says so, and is no larger than the server takes.
func TestBodies(t *testing.T) {
	t.Parallel()
	e := newEnv(t, dbtest.New(t, retrytable.SQLite))
	handler := http.MaxBytesHandler(e.handler(), 100)
	for _, tt := range []struct {
		kind, body string
		code       int
		want       string
	}{
		{"application/json; charset=utf-8", `[{"id": "a"}]`, http.StatusCreated, `"id"`},
		{"text/plain", `[{"id": "a"}]`, http.StatusUnsupportedMediaType, `Content-Type: \"text/plain\": must be application/json`},
		{"", `[{"id": "a"}]`, http.StatusUnsupportedMediaType, `Content-Type: \"\": must be application/json`},
		{"application/json", strings.Repeat(" ", 101), http.StatusRequestEntityTooLarge, "body: must have at most 100 bytes"},
	} {
		r, w := httptest.NewRequest(http.MethodPost, "/task", strings.NewReader(tt.body)), httptest.NewRecorder()
		r.Header.Set("Content-Type", tt.kind)
		handler.ServeHTTP(w, r)
		assert.Equal(t, tt.code, w.Code, tt.kind)
		assert.Contains(t, w.Body.String(), tt.want)
	}
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
		id := e.post(`[{"id": "a", "name": "\\u0000 \u00e9\\", "kind": "x",
			"on_success": {"kind": "Webhook", "params": {"url": "https://é.example/", "verb": "Get"}}}]`)["a"]
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
		uses := func(index, query string, args ...any) {
			plan := dbtest.Explain(t, e.db)
			_, err := shared.Query(t.Context(), plan, func(*sql.Rows) (any, error) { return nil, nil }, e.db.SQL(query), args...)
			require.NoError(t, err)
			assert.Contains(t, plan.String(), index)
		}
		uses("task_created", lastBatch)
		for asked, index := range map[string]string{
			"batch=batch7": "task_batch", "batch=batch7&status=Success": "task_batch", "after=4000&limit=10": "task_created",
		} {
			values, err := url.ParseQuery(asked)
			require.NoError(t, err)
			query, args, err := listed(values)
			require.NoError(t, err)
			uses(index, query, args...)
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
		assert.Equal(t, 2, strings.Count(page, `marker-end="url(#arrow)"`))
		assert.Contains(t, page, `<path d="M280 53 C315 53 315 53 350 53" marker-end`)
		assert.Equal(t, 3, strings.Count(page, `<div class="task `))

		page = e.text("/dag?batch=" + other["batch"])
		assert.Contains(t, page, "Batch "+other["batch"])
		assert.Contains(t, page, "<p>attempt 0 of 0…1</p>")
		assert.NotContains(t, page, "next retry")

		dbtest.Exec(t, e.db, "INSERT INTO task_link VALUES ($1, $2)", other["parent"], ids["parent"])
		assert.Equal(t, 2, strings.Count(e.text("/dag?batch="+ids["batch"]), `marker-end="url(#arrow)"`), "no line from another batch")
	})
}

// drawn is a page of so many nodes with these links, from one to another.
func drawn(n int, links [][2]int) *page {
	p, names := &page{}, make([][2]string, len(links))
	for i := range n {
		p.Nodes = append(p.Nodes, &node{task: task{basicTask: basicTask{ID: strconv.Itoa(i)}}})
	}
	for i, l := range links {
		names[i] = [2]string{strconv.Itoa(l[0]), strconv.Itoa(l[1])}
	}
	p.arrange(names)
	return p
}

// The page of a long chain takes no longer than that of as many tasks without links.
func TestDAGOfLongChain(t *testing.T) {
	t.Parallel()
	const n = 50_000
	links := make([][2]int, 0, 2*n)
	for i := range n {
		if i > 0 { // the last link first, which takes the most passes over all of them
			links = append(links, [2]int{n - i - 1, n - i}, [2]int{0, i})
		}
	}
	arranged := make(chan *page, 1)
	go func() { arranged <- drawn(n, links) }()
	select {
	case p := <-arranged:
		for i := range n {
			require.Equal(t, i*columnWidth, p.Nodes[i].X)
		}
	case <-time.After(20 * time.Second):
		require.Fail(t, "not arranged")
	}
}

// The lines lead from node to node, and go behind none.
func TestDAGLines(t *testing.T) {
	t.Parallel()
	number := regexp.MustCompile(`-?\d+`)
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		var links [][2]int
		for child := range 12 {
			for parent := range child {
				if random.IntN(5) == 0 {
					links = append(links, [2]int{parent, child})
				}
			}
		}
		p := drawn(12, links)
		require.Len(t, p.Lines, len(links))
		lanes := map[int]int{} // whose they are
		for i, l := range links {
			from, to := p.Nodes[l[0]], p.Nodes[l[1]]
			var at []int
			for _, text := range number.FindAllString(p.Lines[i], -1) {
				n, _ := strconv.Atoi(text)
				at = append(at, n)
			}
			require.GreaterOrEqual(t, to.X-from.X, columnWidth)
			assert.Equal(t, []int{from.X + nodeWidth, from.Y + nodeHeight/2}, at[:2])
			if to.X-from.X == columnWidth { // within the gap
				assert.Equal(t, []int{to.X, to.Y + nodeHeight/2}, at[6:], p.Lines[i])
				continue
			}
			assert.Equal(t, []int{to.Y + nodeHeight/2, to.X}, at[5:], p.Lines[i])
			assert.Less(t, at[2], from.X+columnWidth, "down in the gap")
			assert.Greater(t, at[4], to.X-gapWidth, "and up in the other one")
			for _, n := range p.Nodes {
				assert.Greater(t, at[3], n.Y+nodeHeight, "below all nodes")
			}
			assert.Less(t, at[3], p.Height)
			if whose, known := lanes[at[3]]; known {
				assert.Equal(t, l[0], whose)
			}
			lanes[at[3]] = l[0]
		}
	}
}

// Where batches have a uuid, /dag without one is a page, and a text that is no uuid is not found.
func TestDAGOfUUIDs(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, retrytable.PostgreSQL)
	dbtest.Exec(t, db, "CREATE TABLE task (id uuid PRIMARY KEY, batch_id uuid, status text NOT NULL DEFAULT 'paused')")
	e := newEnv(t, db)
	assert.Contains(t, e.text("/dag"), "Batch none")
	e.request(http.MethodGet, "/dag?batch=yesterday", "", http.StatusNotFound, nil)
	assert.Contains(t, e.text("/dag?batch="+e.post(parentAndChild)["batch"]), "Grandchild")
}

// A list has pages, in the order of all.
func TestPages(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		var want []string
		for i := range 3 {
			e.setClock(float64(i))
			ids := e.post(parentAndChild)
			want = append(want, ids["parent"], ids["child"], ids["grandchild"])
		}
		list := func(asked string) (ids []string) {
			var found []dto
			e.request(http.MethodGet, "/task?"+asked, "", http.StatusOK, &found)
			for _, f := range found {
				ids = append(ids, f.ID)
			}
			return ids
		}
		assert.Equal(t, want, list(""))
		assert.Equal(t, want, list("limit=9"))
		assert.Equal(t, want[:4], list("limit=4"))
		assert.Equal(t, want[4:8], list("limit=4&after="+want[3]))
		assert.Equal(t, want[8:], list("limit=4&after="+want[7]))
		assert.Empty(t, list("after="+want[8]))
		assert.Equal(t, []string{want[3], want[6]}, list("status=pending&after="+want[1]))
	})
}

// Whether the service can work depends on its database.
func TestHealth(t *testing.T) {
	t.Parallel()
	e := newEnv(t, dbtest.New(t, retrytable.SQLite))
	assert.JSONEq(t, `{"status": "ok"}`, e.text("/health"))
	again := newService(dbtest.Reopen(t, e.db), e.config, e.log)
	require.NoError(t, again.db.Close())
	w := httptest.NewRecorder()
	again.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/health", http.NoBody))
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Equal(t, "1", w.Header().Get("Retry-After"))
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

//go:embed openapi.json
var openAPIText []byte

// described is the API as the document has it.
var described = sync.OnceValues(func() (routers.Router, error) {
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.FileBodyDecoder)
	doc, err := openapi3.NewLoader().LoadFromData(openAPIText)
	if err != nil {
		return nil, err
	}
	return legacy.NewRouter(doc)
})

// describes asserts that a request and its answer are as the document says. A request that
// is refused need not be.
func describes(t *testing.T, req *http.Request, body string, resp *http.Response, answer string) {
	t.Helper()
	router, err := described()
	require.NoError(t, err)
	req.URL.Host, req.URL.Scheme = "", ""
	route, params, err := router.FindRoute(req)
	if err != nil {
		assert.Contains(t, []int{http.StatusNotFound, http.StatusMethodNotAllowed}, resp.StatusCode, "%v: %v", req.URL, err)
		return
	}
	req.Body = io.NopCloser(strings.NewReader(body))
	in := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route}
	if resp.StatusCode < http.StatusBadRequest {
		assert.NoError(t, openapi3filter.ValidateRequest(t.Context(), in), body)
	}
	assert.NoError(t, openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: resp.StatusCode, Header: resp.Header, Body: io.NopCloser(bytes.NewBufferString(answer)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}), answer)
}

// The document is valid, is served, and has what there are handlers for and nothing else.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	e := newEnv(t, dbtest.New(t, retrytable.SQLite))
	assert.JSONEq(t, string(openAPIText), e.text("/openapi.json"))
	doc, err := openapi3.NewLoader().LoadFromData(openAPIText)
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))
	var operations []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			operations = append(operations, method+" "+path)
			mux, ok := e.handler().(*http.ServeMux)
			require.True(t, ok)
			_, pattern := mux.Handler(httptest.NewRequest(method, strings.ReplaceAll(path, "{id}", "x"), http.NoBody))
			assert.NotEmpty(t, pattern, "%s %s", method, path)
		}
	}
	for _, pattern := range handled(t) {
		assert.Contains(t, operations, pattern)
	}
}

//go:embed api.go
var apiSource string

// handled are the patterns in api.go.
func handled(t *testing.T) (patterns []string) {
	t.Helper()
	for _, match := range regexp.MustCompile(`"((?:GET|POST|PATCH) /[^"]*)"`).FindAllStringSubmatch(apiSource, -1) {
		if !strings.HasSuffix(match[1], "/") { // cancel, pause and unpause
			patterns = append(patterns, match[1])
		}
	}
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(patterns))), 10)
	return patterns
}
