package tabletest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// callers are how the work of a job calls a server, by a policy inside that gives up.
func callers() map[string]func(req *http.Request) error {
	get := func(client *http.Client, req *http.Request) error {
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if why := retryhttp.Why(resp); why != nil {
			return fmt.Errorf("the hook: %w", why)
		}
		if resp.StatusCode == http.StatusOK {
			return nil
		}
		return &retryhttp.StatusError{StatusCode: resp.StatusCode}
	}
	policy := func(attempts int) *retry.Policy {
		return &retry.Policy{MaxAttempts: attempts, Backoff: retry.Constant(0)}
	}
	by := func(attempts int) func(*http.Request) error {
		return func(req *http.Request) error {
			return policy(attempts).Execute(req.Context(), func(context.Context) error { return get(http.DefaultClient, req) })
		}
	}
	transport := &http.Client{Transport: &retryhttp.Transport{Policy: policy(3)}}
	return map[string]func(*http.Request) error{
		"one attempt": by(1), "three attempts": by(3),
		"Do": func(req *http.Request) error {
			return retryhttp.Do(nil, policy(1), req, func(*http.Response) error { return nil })
		},
		"Transport": func(req *http.Request) error { return get(transport, req) },
	}
}

// TestGivenUpInside runs jobs that call a server which refuses one call in three, by policies that
// give up: none is dead.
func TestGivenUpInside(t *testing.T) {
	t.Parallel()
	for name, call := range callers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEach(t, []kind{databases[0], databases[2], databases[3]}, func(t *testing.T, s *store) {
				t.Helper()
				givenUpInside(t, s, call)
			})
		})
	}
}

func givenUpInside(t *testing.T, s *store, call func(*http.Request) error) {
	t.Helper()
	const n = 30
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/1" && calls.Add(1) <= 3 || rand.IntN(3) == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	var events retrytest.Recorder
	var ended atomic.Int32
	w := retrytable.Worker[int64]{
		Table: jobs(), DB: s.db, Concurrency: 4, Poll: 10 * time.Millisecond,
		Policy: &retry.Policy{MaxAttempts: 30, Backoff: retry.Constant(time.Millisecond), Observer: &events},
		Work: func(ctx context.Context, job *retrytable.Job[int64]) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprint(server.URL, "/", job.ID), http.NoBody)
			assert.NoError(t, err)
			return call(req)
		},
		After: func(_ context.Context, o *retrytable.Outcome[int64]) {
			if !o.Released && !o.Decision.Retry && ended.Add(1) == n {
				stop()
			}
		},
	}
	s.create(t, w.Table, n)
	require.ErrorIs(t, w.Run(ctx), context.Canceled)
	assert.Equal(t, [][]any{{"done", int64(n)}}, query(t, s.db, "SELECT status, count(*) FROM jobs GROUP BY status"))
	again := 0
	for _, e := range events.Events() {
		if e.Kind == retry.Retrying {
			again++
			assert.Equal(t, "http_503", e.Verdict.Category)
			assert.True(t, strings.Contains(e.Err.Error(), "failed after") && strings.Contains(e.Err.Error(), "503"), "%v", e.Err)
		}
	}
	assert.Positive(t, again)
}
