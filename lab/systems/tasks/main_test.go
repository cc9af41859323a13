//nolint:thelper // what each calls is the test itself
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

func TestMain(m *testing.M) { dbtest.Main(m, crashWorker) }

// The service serves, and works, until it is interrupted.
func TestServe(t *testing.T) {
	t.Parallel()
	dsn := filepath.Join(t.TempDir(), "tasks.db")
	dbtest.Run(t, program.Run, "migrate", "-dsn", dsn)
	out, stop := dbtest.Start(t, program.Run, "serve", "-dsn", dsn)
	url := out.Await(t, "(http://.*)/dag")[1]
	require.NoError(t, request(t.Context(), http.MethodGet, url+"/dag", ""))
	require.NoError(t, request(t.Context(), http.MethodPost, url+"/task", `[{"id": "a", "name": "A", "kind": "x"}]`))
	out.Await(t, "msg=A status=Running attempt=0")
	assert.ErrorIs(t, stop(), context.Canceled)
	assert.NotContains(t, out.Rest(), "error")
}

// What was asked before the interrupt is answered, and so is not lost, if that does
// not take too long. Here it has to wait for a lock.
func TestStopDuringRequest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		grace time.Duration
		stuck bool
	}{
		{"answered", time.Minute, false},
		{"stuck", 50 * time.Millisecond, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, e *env) { stopDuringRequest(t, e, tt.grace, tt.stuck) })
		})
	}
}

func stopDuringRequest(t *testing.T, e *env, grace time.Duration, stuck bool) {
	t.Helper()
	e.grace = grace
	id := e.post(parentAndChild)["parent"]
	e.step()
	if stuck && e.db.Dialect == retrytable.SQLite {
		// The loops wait for the lock too, each in its turn. With 10 seconds for each, the
		// end of the service would be a race with the end of the request's patience.
		dbtest.Exec(t, e.db, "PRAGMA busy_timeout = 100")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	asked, answered := make(chan struct{}), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		defer close(answered)
		e.handler().ServeHTTP(w, r)
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- e.serve(ctx, listener, handler) }()

	lock, err := dbtest.Reopen(t, e.db).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = lock.ExecContext(t.Context(), "UPDATE task SET position = position WHERE id = $1", id)
	require.NoError(t, err)
	patched := make(chan error, 1)
	url := "http://" + listener.Addr().String() + "/task/" + id
	go func() { patched <- request(t.Context(), http.MethodPatch, url, `{"status": "Success"}`) }()
	<-asked
	stop()
	if stuck {
		assert.ErrorContains(t, <-served, "shutdown: context deadline exceeded")
		require.NoError(t, lock.Rollback())
		assert.Error(t, <-patched)
		<-answered
		return
	}
	select {
	case err := <-served:
		assert.Fail(t, "ended before it had answered")
		served <- err
	case <-time.After(200 * time.Millisecond):
	}
	require.NoError(t, lock.Rollback())
	assert.NoError(t, <-patched)
	assert.ErrorIs(t, <-served, context.Canceled)
	e.is(id, "Success", 0, 0)
}

// Section 5: the pace of the retry loop is its own.
func TestIntervals(t *testing.T) {
	t.Parallel()
	const slow, quick = time.Hour, 5 * time.Millisecond
	becomes := func(e *env, id string, is func(status string) bool) {
		e.t.Helper()
		require.Eventually(e.t, func() bool { return is(e.get(id).Status) }, 20*time.Second, quick)
	}
	each(t, func(t *testing.T, e *env) {
		e.poll, e.interval = quick, slow
		defer e.working()()
		for range 2 { // what was there at the first look is no proof
			becomes(e, e.post(parentAndChild)["parent"], func(status string) bool { return status == "Running" })
		}
	})
	each(t, func(t *testing.T, e *env) {
		e.poll, e.interval = slow, quick
		a, b := e.post(parentAndChild)["parent"], e.post(parentAndChild)["parent"]
		e.step()
		e.patch(a, explicitFailure)
		e.setClock(1)
		e.patch(b, explicitFailure)
		defer e.working()()
		for _, id := range []string{a, b} {
			e.clock.Set(e.get(id).NextRetryAt)
			becomes(e, id, func(status string) bool { return status != "RetryPending" })
		}
	})
}

// working has the loops work until stop is called.
func (e *env) working() (stop func()) {
	ctx, cancel := context.WithCancel(e.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = e.work(ctx) })
	return func() {
		cancel()
		wg.Wait()
	}
}

// request sends a request to the API from outside.
func request(ctx context.Context, method, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		text, err := io.ReadAll(resp.Body)
		return errors.Join(fmt.Errorf("%s: %s", resp.Status, text), err)
	}
	return nil
}

func TestRunFails(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "none.db")
	for args, want := range map[string]string{
		"":                           "tasks: ",
		"play":                       "tasks: ",
		"-dsn x":                     "tasks: ",
		"serve":                      "the DSN is missing",
		"serve -dsn mysql://x":       "open database: ",
		"serve -dsn " + missing:      "no such file",
		"migrate -dsn mysql://x":     "open database: ",
		"migrate -address 127.0.0.1": "flag provided but not defined: -address",
	} {
		err := program.Run(t.Context(), strings.Fields(args), io.Discard)
		assert.ErrorContains(t, err, want, args)
		assert.Equal(t, 2, shared.ExitCode(err), args)
	}
	assert.NoFileExists(t, missing)
}

// A variable that is wrong, or an address, is no failure of the service.
func TestWrongSettings(t *testing.T) {
	dsn := dbtest.New(t, retrytable.SQLite).DSN
	dbtest.Run(t, program.Run, "migrate", "-dsn", dsn)
	err := program.Run(t.Context(), []string{"serve", "-dsn", dsn, "-address", "nowhere"}, io.Discard)
	assert.ErrorContains(t, err, "-address: listen tcp: address nowhere: missing port")
	assert.Equal(t, 2, shared.ExitCode(err))
	t.Setenv("RETRY_MAX_DELAY_LIMIT", "1h")
	err = program.Run(t.Context(), []string{"serve", "-dsn", dsn}, io.Discard)
	assert.ErrorContains(t, err, `RETRY_MAX_DELAY_LIMIT: "1h": must be an integer`)
	assert.Equal(t, 2, shared.ExitCode(err))
}
