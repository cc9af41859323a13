package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/systems/shared"
	"github.com/seed-5ff3c98e/retry/systems/shared/dbtest"
)

const (
	crashTasks   = 200
	crashRetries = 6
)

// crashConfig is that of workers in a hurry.
func crashConfig() config {
	c, err := readConfig(func(string) string { return "" })
	c.lease, c.hookTime = 250*time.Millisecond, 120*time.Millisecond
	c.interval, c.poll = 30*time.Millisecond, 10*time.Millisecond
	if err != nil {
		panic(err)
	}
	return c
}

// poison is a connection that kills its process by what it is to send.
type poison struct{}

func (poison) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.HasPrefix(req.URL.Path, "/poison/") {
		return nil, syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return http.DefaultTransport.RoundTrip(req)
}

// crashWorker is what [dbtest.Kill] starts: the loops, without the API.
func crashWorker(ctx context.Context, db *shared.DB) error {
	s := newService(db, crashConfig(), slog.New(slog.DiscardHandler))
	s.client.Transport = poison{}
	s.work(ctx)
	return errors.New("work has ended")
}

// Workers are killed every 30 to 130 ms, by others or by their task, while 200
// tasks run. Each task ends, none is begun more often than its limit, and those
// that kill their worker fail.
func TestCrash(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		t.Helper()
		s := newService(db, crashConfig(), slog.New(slog.DiscardHandler))
		require.NoError(t, s.db.Migrate(t.Context(), io.Discard, s.schema(), false))
		var mu sync.Mutex
		starts, keys := map[string]int{}, map[string]int{}
		hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			key := r.Header.Get("Idempotency-Key")
			id, _, _ := strings.Cut(key, ":")
			mu.Lock()
			starts[id]++
			keys[key]++
			n := len(starts)
			first := starts[id] == 1
			mu.Unlock()
			if first && n%5 == 0 {
				http.Error(w, "busy", http.StatusServiceUnavailable)
				return
			}
			if first && n%7 == 0 {
				return // and not heard of again
			}
			_, err := s.apply(r.Context(), id, patch{Status: success})
			var p *problem
			if !errors.As(err, &p) && r.Context().Err() == nil {
				assert.NoError(t, err)
			}
		}))
		defer hook.Close()

		batch := make([]newTask, crashTasks)
		for i := range batch {
			path := "/work/"
			if i%40 == 39 {
				path = "/poison/"
			}
			start := &action{Kind: "Webhook"}
			start.Params.URL, start.Params.Verb = hook.URL+path+strconv.Itoa(i), "Post"
			batch[i] = newTask{
				ID: strconv.Itoa(i), Name: path, Kind: "crash", Timeout: 1, OnStart: start,
				Retry: json.RawMessage(fmt.Sprintf(`{"max_retries": %d, "initial_delay_secs": 1, "backoff_multiplier": 1, "max_delay_secs": 1}`, crashRetries)),
			}
		}
		_, err := s.create(t.Context(), batch)
		require.NoError(t, err)
		dbtest.Kill(t, db, 2, 50, func() bool {
			busy := dbtest.Get[bool](t, db, `SELECT EXISTS (SELECT 1 FROM task WHERE status IN `+alive+`) OR
				EXISTS (SELECT 1 FROM webhook_execution WHERE status IN ('ready', 'waiting', 'running'))`)
			return !busy
		})

		all, err := s.list(t.Context(), nil)
		require.NoError(t, err)
		assert.Len(t, all, crashTasks, "no task is lost")
		ends := map[string]int{}
		retried := 0
		for _, task := range all {
			ends[task.Name+task.Status.String()]++
			assert.LessOrEqual(t, task.Attempt, crashRetries, "%+v", task)
			assert.LessOrEqual(t, starts[task.ID], task.Attempt+1, "%+v", task)
			if task.Status == failed {
				assert.Equal(t, crashRetries, task.Attempt, "%+v", task)
			}
			if task.Attempt > 0 {
				retried++
			}
		}
		unknown := 0
		for _, n := range keys {
			if n > 1 {
				unknown++
			}
		}
		assert.NotZero(t, unknown, "what became of a call is not known, and it has the same key")
		t.Log(ends, retried, "retried", unknown, "called again under the same key")
		assert.Equal(t, crashTasks/40, ends["/poison/Failure"])
		assert.Equal(t, crashTasks-crashTasks/40, ends["/work/Success"]+ends["/work/Failure"])
		// A slow machine has more of them meet with a kill in each attempt.
		assert.Greater(t, ends["/work/Success"], crashTasks/2)
		assert.Greater(t, retried, 60)
	})
}
