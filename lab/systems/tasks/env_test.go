package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/retrytest/retrytabletest"
)

// epoch is when tests begin, by the clock of their database. It is not the time
// of the process, by far.
var epoch = time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)

// env is a service on a database whose clock stands still unless it is moved, and
// somebody who is called by its webhooks.
type env struct {
	*service

	t     *testing.T
	url   string // of the API
	clock *retrytabletest.Clock

	hook   string // the URL of the webhooks
	mu     sync.Mutex
	calls  []call
	refuse func(c call) bool
}

// call is one of a webhook.
type call struct {
	Path, Key, Method string
	Attempt           int
}

// each runs a test on both databases.
//
//nolint:thelper // what each calls is the test itself
func each(t *testing.T, test func(t *testing.T, e *env)) {
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		db, clock := dbtest.StopClock(t, db, epoch)
		e := newEnv(t, db)
		e.clock = clock
		e.advance(0)
		test(t, e)
	})
}

func newEnv(t *testing.T, db *shared.DB) *env {
	t.Helper()
	c, err := readConfig(func(string) string { return "" })
	require.NoError(t, err)
	e := &env{service: newService(db, c, slog.New(slog.NewTextHandler(t.Output(), nil))), t: t}
	require.NoError(t, e.db.Migrate(t.Context(), io.Discard, e.schema(), false))
	api := httptest.NewServer(e.handler())
	t.Cleanup(api.Close)
	e.url = api.URL
	hook := httptest.NewServer(http.HandlerFunc(e.called))
	t.Cleanup(hook.Close)
	e.hook = hook.URL
	return e
}

func (e *env) called(w http.ResponseWriter, r *http.Request) {
	var body struct{ Attempt int }
	if !assert.NoError(e.t, json.NewDecoder(r.Body).Decode(&body)) {
		return
	}
	c := call{r.URL.Path, r.Header.Get("Idempotency-Key"), r.Method, body.Attempt}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls = append(e.calls, c)
	if e.refuse != nil && e.refuse(c) {
		if c.Path == "/later" {
			w.Header().Set("Retry-After", "30")
		}
		http.Error(w, "no", http.StatusServiceUnavailable)
	}
}

// called returns the paths of the webhooks that were called so far.
func (e *env) paths() (paths []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.calls {
		paths = append(paths, c.Path)
	}
	return paths
}

// advance moves the clock of the database to so many seconds after epoch, and
// lets every loop do what is due.
func (e *env) advance(seconds float64) {
	e.t.Helper()
	e.setClock(seconds)
	e.step()
}

func (e *env) setClock(seconds float64) {
	e.t.Helper()
	e.clock.Set(epoch.Add(time.Duration(seconds * float64(time.Second))))
}

// startNext starts the task whose turn it is, and reports whether there was one.
func (e *env) startNext(ctx context.Context) (bool, error) { return startNext(ctx, e.service) }

func startNext(ctx context.Context, s *service) (bool, error) {
	n, err := s.starter().Once(ctx)
	if errors.Is(err, retrytable.ErrLeaseLost) { // by a report or a command that came in between
		err = nil
	}
	return n > 0, err
}

// lose claims a task for a starter that is not heard of again.
func (e *env) lose() {
	e.t.Helper()
	rows, err := e.starts.Claim(e.t.Context(), e.db, 1)
	require.NoError(e.t, err)
	require.Len(e.t, rows, 1)
}

// retry lets the retry loop do what is due, so many seconds after epoch.
func (e *env) retry(seconds float64) {
	e.t.Helper()
	e.setClock(seconds)
	more, err := e.retries(e.t.Context())
	require.NoError(e.t, err)
	require.True(e.t, more)
}

func (e *env) step() {
	e.t.Helper()
	deliver := func(ctx context.Context) (bool, error) {
		n, err := e.deliverer().Once(ctx)
		return n > 0, err
	}
	for _, loop := range []func(context.Context) (bool, error){e.timeout, e.retries, e.startNext, deliver} {
		for more := true; more; {
			var err error
			more, err = loop(e.t.Context())
			require.NoError(e.t, err)
		}
	}
}

// request sends a request, expects a status, and reads the answer.
func (e *env) request(method, path, body string, code int, into any) {
	e.t.Helper()
	text := e.send(method, path, body, code)
	if into != nil {
		require.NoError(e.t, json.Unmarshal([]byte(text), into), text)
	}
}

func (e *env) text(path string) string {
	e.t.Helper()
	return e.send(http.MethodGet, path, "", http.StatusOK)
}

func (e *env) send(method, path, body string, code int) string {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), method, e.url+path, bytes.NewBufferString(body))
	require.NoError(e.t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(e.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(e.t, err)
	require.Equal(e.t, code, resp.StatusCode, string(text))
	describes(e.t, req, body, resp, string(text))
	return string(text)
}

// dto is what the API says about a task.
type dto struct {
	ID            string       `json:"id"`
	BatchID       string       `json:"batch_id"`
	LocalID       string       `json:"local_id"`
	Status        string       `json:"status"`
	Attempt       int          `json:"attempt"`
	Retry         *retryPolicy `json:"retry"`
	NextRetryAt   time.Time    `json:"next_retry_at"`
	FailureReason string       `json:"failure_reason"`
	Success       int          `json:"success"`
	Failures      int          `json:"failures"`
	StartedAt     time.Time    `json:"started_at"`
	EndedAt       time.Time    `json:"ended_at"`
	LastUpdated   time.Time    `json:"last_updated"`
}

// post posts a batch, in which HOOK is the URL of the webhooks, and returns the
// IDs of the tasks by those of the batch. "batch" is that of the batch.
func (e *env) post(batch string) map[string]string {
	e.t.Helper()
	var created []dto
	e.request(http.MethodPost, "/task", strings.ReplaceAll(batch, "HOOK", e.hook), http.StatusCreated, &created)
	ids := map[string]string{}
	for _, t := range created {
		ids[t.LocalID], ids["batch"] = t.ID, t.BatchID
	}
	return ids
}

func (e *env) get(id string) (t dto) {
	e.t.Helper()
	e.request(http.MethodGet, "/task/"+id, "", http.StatusOK, &t)
	return t
}

func (e *env) patch(id, body string) {
	e.t.Helper()
	e.request(http.MethodPatch, "/task/"+id, body, http.StatusOK, nil)
}

// is asserts the status and the attempt of a task, and its next retry in seconds
// after epoch, 0 for none.
func (e *env) is(id, status string, attempt int, next float64) {
	e.t.Helper()
	t := e.get(id)
	assert.Equal(e.t, status, t.Status)
	assert.Equal(e.t, attempt, t.Attempt)
	var at time.Time
	if next != 0 {
		at = epoch.Add(time.Duration(next * float64(time.Second)))
	}
	assert.Equal(e.t, at, t.NextRetryAt.UTC())
}

// record returns what is stored about the call with a key: its status and its error.
func (e *env) record(key string) string {
	e.t.Helper()
	return dbtest.Get[string](e.t, e.db, "SELECT status || ' ' || coalesce(error, '') FROM webhook_execution WHERE idempotency_key = $1", key)
}

// none asserts that no task meets a condition.
func (e *env) none(condition string) {
	e.t.Helper()
	n := dbtest.Get[int](e.t, e.db, "SELECT count(*) FROM task WHERE "+condition)
	assert.Zero(e.t, n, condition)
}
