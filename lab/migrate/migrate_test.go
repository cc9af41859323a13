// Package migrate holds what docs/migrate.md shows: for each of the libraries that programs
// come from, a piece of code before and after. Its tests run both, and compare attempts,
// waits and ends. It has tests only.
package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	errDown     = errors.New("down")
	errBusy     = errors.New("busy")
	errNotFound = errors.New("not found")
	errNotReady = errors.New("not ready")
	errGaveUp   = errors.New("gave up")
)

// course is what is the same before and after.
type course struct {
	waits    []time.Duration
	took     time.Duration
	success  bool
	notFound bool // the end is errNotFound
	down     bool // the end is errDown
	gaveUp   bool
	canceled bool
}

type runner = func(context.Context, func(context.Context) error) error

// run plays a script in a bubble; the last error goes on. If cancel is positive, the
// context is canceled then.
func run(t *testing.T, do runner, cancel time.Duration, script ...error) (c course) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		if cancel > 0 {
			defer time.AfterFunc(cancel, stop).Stop()
		}
		var times []time.Time
		began := time.Now()
		err := do(ctx, func(context.Context) error {
			times = append(times, time.Now())
			return script[min(len(times), len(script))-1]
		})
		for i := 1; i < len(times); i++ {
			c.waits = append(c.waits, times[i].Sub(times[i-1]))
		}
		c.took, c.success = time.Since(began), err == nil
		c.notFound, c.down = errors.Is(err, errNotFound), errors.Is(err, errDown)
		c.gaveUp, c.canceled = errors.Is(err, errGaveUp), errors.Is(err, context.Canceled)
	})
	return c
}

// ofValue makes a runner of a function with a value.
func ofValue(do func(context.Context, func(context.Context) (string, error)) (string, error)) runner {
	return func(ctx context.Context, op func(context.Context) error) error {
		_, err := do(ctx, func(ctx context.Context) (string, error) { return "", op(ctx) })
		return err
	}
}

const second = time.Second

// TestMigrate runs every pair under the same scripts.
func TestMigrate(t *testing.T) {
	t.Parallel()
	pairs := []struct {
		name          string
		before, after runner
		forget        func(*course) // what the text says is different
		waits         []time.Duration
	}{
		{"backoff v4", beforeBackoffV4, afterBackoffV4, canceledHidesLast, []time.Duration{second, 2 * second, 4 * second, 8 * second}},
		{"backoff v5", ofValue(beforeBackoffV5), ofValue(afterBackoffV5), canceledHidesLast, []time.Duration{second, 2 * second, 4 * second, 8 * second}},
		{"backoff v7", beforeBackoffV7, afterBackoffV7, nil, []time.Duration{5 * second, 5 * second, 5 * second, 5 * second}},
		{"retry-go v4", beforeRetryGoV4, afterRetryGoV4, canceledHidesLast, []time.Duration{second, 2 * second, 4 * second, 8 * second}},
		{"retry-go v5", beforeRetryGoV5, afterRetryGoV5, allErrors, []time.Duration{second, second, second, second}},
		{"go-retry", beforeGoRetry, afterGoRetry, canceledHidesLast, []time.Duration{second, 2 * second, 4 * second, 8 * second}},
		{"k8s wait", beforeK8sWait, afterK8sWait, neverLast, []time.Duration{second, 2 * second, 4 * second, 8 * second}},
	}
	scripts := []struct {
		name   string
		cancel time.Duration
		errs   []error
	}{
		{"success", 0, []error{nil}},
		{"two failures", 0, []error{errDown, errDown, nil}},
		{"an outage", 0, []error{errDown}},
		{"not found", 0, []error{errDown, errNotFound}},
		{"busy", 0, []error{errBusy, nil}},
		{"busy for ever", 0, []error{errBusy}},
		{"canceled in a wait", 1500 * time.Millisecond, []error{errDown}},
	}
	for _, pair := range pairs {
		for _, script := range scripts {
			t.Run(pair.name+"/"+script.name, func(t *testing.T) {
				t.Parallel()
				before, after := run(t, pair.before, script.cancel, script.errs...), run(t, pair.after, script.cancel, script.errs...)
				if script.name == "an outage" {
					assert.Equal(t, pair.waits, after.waits)
				}
				if pair.forget != nil {
					pair.forget(&before)
					pair.forget(&after)
				}
				assert.Equal(t, before, after)
			})
		}
	}
}

// canceledHidesLast is of libraries that return the error of the context alone.
func canceledHidesLast(c *course) {
	if c.canceled {
		c.down = false
	}
}

// allErrors is of a library whose error is the errors of all attempts.
func allErrors(c *course) { c.down = c.down && !c.notFound }

// neverLast is of a library that never returns the last error.
func neverLast(c *course) { c.down = false }

// logKey is where a context has the log of a test.
type logKey struct{}

func logRetry(ctx context.Context, attempt int, err error) {
	if log, ok := ctx.Value(logKey{}).(*[]string); ok {
		*log = append(*log, fmt.Sprintf("%d %v", attempt, err))
	}
}

func TestMigrateLogs(t *testing.T) {
	t.Parallel()
	for _, do := range []runner{beforeRetryGoV5, afterRetryGoV5} {
		var log []string
		run(t, func(ctx context.Context, op func(context.Context) error) error {
			return do(context.WithValue(ctx, logKey{}, &log), op)
		}, 0, errDown, errDown, nil)
		assert.Equal(t, []string{"1 down", "2 down"}, log)
	}
}

type roundTripper func(*http.Request) *http.Response

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	return f(req), req.Context().Err()
}

// get plays a script of statuses.
func get(t *testing.T, newClient func(http.RoundTripper) *http.Client, script ...int) (c course, status int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var times []time.Time
		client := newClient(roundTripper(func(*http.Request) *http.Response {
			times = append(times, time.Now())
			recorder := httptest.NewRecorder()
			if code := script[min(len(times), len(script))-1]; code != http.StatusTooManyRequests {
				recorder.WriteHeader(code)
			} else {
				recorder.Header().Set("Retry-After", "7")
				recorder.WriteHeader(code)
			}
			return recorder.Result()
		}))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		c.success = err == nil
		if err == nil {
			status = resp.StatusCode
			require.NoError(t, resp.Body.Close())
		}
		for i := 1; i < len(times); i++ {
			c.waits = append(c.waits, times[i].Sub(times[i-1]))
		}
	})
	return c, status
}

func TestMigrateRetryableHTTP(t *testing.T) {
	t.Parallel()
	for _, script := range [][]int{{200}, {503, 500, 200}, {404}, {501}} {
		before, status := get(t, beforeRetryableHTTP, script...)
		after, same := get(t, afterRetryableHTTP, script...)
		assert.Equal(t, before, after, "%v", script)
		assert.Equal(t, status, same, "%v", script)
	}

	// When retries run out, there is a response in the place of an error.
	before, _ := get(t, beforeRetryableHTTP, 503)
	after, status := get(t, afterRetryableHTTP, 503)
	assert.Equal(t, before.waits, after.waits)
	assert.False(t, before.success)
	assert.True(t, after.success)
	assert.Equal(t, http.StatusServiceUnavailable, status)

	// A hint is a lower bound, and spread by up to 10 %.
	before, _ = get(t, beforeRetryableHTTP, 429, 200)
	after, _ = get(t, afterRetryableHTTP, 429, 200)
	assert.Equal(t, []time.Duration{7 * second}, before.waits)
	assert.GreaterOrEqual(t, after.waits[0], 7*second)
	assert.LessOrEqual(t, after.waits[0], 7700*time.Millisecond)
}

func TestMigrateK8sPoll(t *testing.T) {
	t.Parallel()
	poll := func(do func(context.Context, func(context.Context) (bool, error)) error) runner {
		return func(ctx context.Context, op func(context.Context) error) error {
			return do(ctx, func(ctx context.Context) (bool, error) {
				err := op(ctx)
				if errors.Is(err, errNotReady) {
					return false, nil
				}
				return err == nil, err
			})
		}
	}
	for _, script := range [][]error{{nil}, {errNotReady, errNotReady, nil}, {errNotReady, errDown}} {
		before, after := run(t, poll(beforeK8sPoll), 0, script...), run(t, poll(afterK8sPoll), 0, script...)
		assert.Equal(t, before, after, "%v", script)
	}
	// k8s waits until the time is over; we end where the next attempt would come too late.
	before, after := run(t, poll(beforeK8sPoll), 0, errNotReady), run(t, poll(afterK8sPoll), 0, errNotReady)
	assert.Equal(t, 10*time.Minute, before.took)
	assert.Equal(t, 10*time.Minute-5*second, after.took)
	assert.False(t, after.success)
}
