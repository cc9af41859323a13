//nolint:thelper // what bubble calls is the test itself
package retrypool_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypool"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func explode(context.Context) error { panic("ouch") }

func leave(context.Context) error {
	runtime.Goexit()
	return nil
}

func TestPanicsAreContained(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 1, Policy: every(time.Hour)}
		start := time.Now()
		var e *retry.PanicError

		err := submit(t.Context(), t, pool, explode).Wait(t.Context())
		require.Equal(t, "panic: ouch", text(err))
		require.ErrorAs(t, err, &e)
		assert.Equal(t, "ouch", e.Value)
		assert.Contains(t, string(e.Stack), "retrypool_test.explode")
		require.NoError(t, errors.Unwrap(e))

		err = submit(t.Context(), t, pool, func(context.Context) error { panic(io.ErrUnexpectedEOF) }).Wait(t.Context())
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "an error is found")

		var none map[string]int
		err = submit(t.Context(), t, pool, func(context.Context) error { none["a"] = 1; return nil }).Wait(t.Context())
		var bug runtime.Error
		require.ErrorAs(t, err, &bug)

		err = submit(t.Context(), t, pool, func(context.Context) error { panic(nil) }).Wait(t.Context())
		require.ErrorAs(t, err, &e)

		assert.Equal(t, start, time.Now(), "none was run again")
		require.NoError(t, submit(t.Context(), t, pool, succeeds).Wait(t.Context()), "the worker lives on")
	})
}

// Whatever a function of the caller's does, wherever it is called, the task ends,
// and the pool goes on.
func TestCallbacksThatFail(t *testing.T) {
	t.Parallel()
	ways := map[string]func(){
		"panic in a function of the Policy: ouch": func() { panic("ouch") },
		"retrypool: task called runtime.Goexit":   runtime.Goexit,
	}
	for want, failing := range ways {
		observer := func(kind retry.EventKind) retry.Policy {
			return retry.Policy{Observer: retry.ObserverFunc(func(_ context.Context, e retry.Event) {
				if e.Kind == kind {
					failing()
				}
			})}
		}
		tests := []struct {
			name   string
			policy retry.Policy
			fn     func(context.Context) error
		}{
			{"classifier", retry.Policy{Classifier: func(error) retry.Verdict { failing(); return retry.Verdict{} }}, fails},
			{"retrying", observer(retry.Retrying), fails},
			{"gave up", observer(retry.GaveUp), fails},
			{"succeeded", observer(retry.Succeeded), succeeds},
			{"backoff", retry.Policy{Backoff: badBackoff(failing)}, fails},
			{"jitter", retry.Policy{Jitter: badJitter(failing)}, fails},
			{"rand", retry.Policy{Rand: badRand(failing)}, fails},
			{"budget", retry.Policy{Budget: badBudget(failing)}, fails},
			{"budget of a success", retry.Policy{Budget: badBudget(failing)}, succeeds},
		}
		for _, tt := range tests {
			bubble(t, tt.name+": "+want, func(t *testing.T) {
				ends := 0
				pool := &retrypool.Pool{Workers: 1, Policy: &tt.policy, OnEnd: func(context.Context, *retrypool.Task) { ends++ }}
				task := submit(t.Context(), t, pool, tt.fn)
				require.Equal(t, want, text(task.Wait(t.Context())))
				require.Equal(t, want, text(submit(t.Context(), t, pool, tt.fn).Wait(t.Context())))
				assert.Empty(t, shut(t, pool))
				assert.Equal(t, 2, ends)
			})
		}
		// Also where a canceled context ends tasks, and not only the first of them.
		bubble(t, "canceled: "+want, func(t *testing.T) {
			p := observer(retry.GaveUp)
			p.Backoff = retry.Constant(time.Hour)
			pool := &retrypool.Pool{Policy: &p}
			ctx, cancel := context.WithCancel(t.Context())
			var tasks []*retrypool.Task
			for range 5 {
				tasks = append(tasks, submit(ctx, t, pool, fails))
			}
			synctest.Wait()
			cancel()
			synctest.Wait()
			for _, task := range tasks {
				require.Equal(t, want, text(task.Err()))
			}
			assert.Empty(t, shut(t, pool))
		})
	}
}

type badBackoff func()

func (b badBackoff) Delay(int) time.Duration { b(); return 0 }

type badJitter func()

func (b badJitter) Apply(_, _ time.Duration, _ uint64) time.Duration { b(); return 0 }

type badRand func()

func (b badRand) Uint64() uint64 { b(); return 0 }

type badBudget func()

func (b badBudget) Deposit(time.Time) { b() }

func (b badBudget) TryWithdraw(time.Time) bool { b(); return true }

type badClock struct{ retrytest.Clock }

func (*badClock) After(time.Duration) <-chan time.Time { panic("no clock") }

func (*badClock) SleepContext(context.Context, time.Duration) error { panic("no clock") }

// A panic of the Clock is not recovered: without one, tasks would wait for ever.
func TestPanicOfTheClock(t *testing.T) {
	t.Parallel()
	const inside = "TEST_PANIC_OF_THE_CLOCK"
	if os.Getenv(inside) != "" {
		pool := &retrypool.Pool{Policy: &retry.Policy{Clock: &badClock{}}}
		_ = submit(t.Context(), t, pool, fails).Wait(t.Context())
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPanicOfTheClock$", "-test.timeout=1m")
	cmd.Env = append(os.Environ(), inside+"=1")
	output, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(output), "panic: no clock")
}

// OnEnd must not end its goroutine, but if it does, no caller waits forever, not even if that
// is the goroutine of Close.
func TestGoexitInOnEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ends := 0
		pool := &retrypool.Pool{Workers: 1, Policy: every(time.Hour), OnEnd: func(context.Context, *retrypool.Task) {
			ends++
			runtime.Goexit()
		}}
		var left []*retrypool.Task
		for range 3 {
			require.NoError(t, submit(t.Context(), t, pool, succeeds).Wait(t.Context()))
			left = append(left, submit(t.Context(), t, pool, fails))
		}
		synctest.Wait()
		go func() { _, _ = pool.Close(t.Context()) }()
		for _, task := range left {
			require.ErrorIs(t, task.Wait(t.Context()), retrypool.ErrClosed)
		}
		require.NoError(t, pool.Wait(t.Context()))
		assert.Equal(t, 6, ends)
	})
}
