//nolint:thelper // what bubble calls is the test itself
package retrypool_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrypool"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func TestZeroPool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var pool retrypool.Pool
		var none context.Context // is the background, as in Execute
		good := submit(t.Context(), t, &pool, succeeds)
		bad := testkit.Must(pool.TrySubmit(none, fails))(t)
		require.NoError(t, good.Wait(t.Context()))
		require.EqualError(t, bad.Wait(none), "failed after 3 attempts: boom")
		left := testkit.Must(pool.Close(none))(t)
		assert.Empty(t, left)
	})
}

func TestWorkersBoundWhatRuns(t *testing.T) {
	t.Parallel()
	tests := []struct{ workers, want int }{{1, 1}, {3, 3}, {0, runtime.GOMAXPROCS(0)}, {-1, runtime.GOMAXPROCS(0)}}
	for _, tt := range tests {
		bubble(t, strconv.Itoa(tt.workers), func(t *testing.T) {
			pool := &retrypool.Pool{Workers: tt.workers, Policy: every(time.Millisecond)}
			var running, most atomic.Int32
			var last *retrypool.Task
			for range 50 {
				last = submit(t.Context(), t, pool, func(context.Context) error {
					n := running.Add(1)
					for old := most.Load(); n > old; old = most.Load() {
						most.CompareAndSwap(old, n)
					}
					time.Sleep(time.Millisecond)
					running.Add(-1)
					return errBoom
				})
			}
			require.ErrorIs(t, last.Wait(t.Context()), errBoom)
			shut(t, pool)
			assert.EqualValues(t, tt.want, most.Load())
		})
	}
}

func TestSubmitBlocksWhileTheQueueIsFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 1, Queue: 2, Policy: every(time.Hour)}
		submit(t.Context(), t, pool, taking(time.Minute, fails))
		synctest.Wait() // it has left the queue
		for range 2 {
			submit(t.Context(), t, pool, taking(time.Minute, fails))
		}
		_, err := pool.TrySubmit(t.Context(), succeeds)
		require.ErrorIs(t, err, retrypool.ErrFull)

		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errBoom)
		defer cancel()
		start := time.Now()
		_, err = pool.Submit(ctx, succeeds)
		assert.Equal(t, errBoom, err)
		assert.Equal(t, time.Second, time.Since(start))

		task := submit(t.Context(), t, pool, succeeds)
		assert.Equal(t, time.Minute, time.Since(start), "when the second task starts")
		require.NoError(t, task.Wait(t.Context()))
		assert.Equal(t, 3*time.Minute, time.Since(start), "those that wait do not count")
	})
}

func TestSubmitRefuses(t *testing.T) {
	t.Parallel()
	var pool retrypool.Pool
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBoom)
	ways := map[string]func(context.Context, func(context.Context) error) (*retrypool.Task, error){
		"Submit":    pool.Submit,
		"TrySubmit": pool.TrySubmit,
		"Resume": func(ctx context.Context, fn func(context.Context) error) (*retrypool.Task, error) {
			return pool.Resume(ctx, retry.State{}, time.Time{}, fn)
		},
	}
	for name, way := range ways {
		_, err := way(t.Context(), nil)
		require.EqualError(t, err, "retrypool: fn is nil", name)
		task, err := way(ctx, succeeds)
		require.Equal(t, errBoom, err, name)
		require.Nil(t, task, name)
	}
	testkit.Must(pool.Close(t.Context()))(t)
	for name, way := range ways {
		_, err := way(t.Context(), succeeds)
		require.ErrorIs(t, err, retrypool.ErrClosed, name)
	}
}

func TestResume(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		state    retry.State
		in       time.Duration // from now
		first    time.Duration // when it runs
		attempts int
	}{
		{"the future", retry.State{Failures: 1}, 10 * time.Minute, 10 * time.Minute, 3},
		{"now", retry.State{Failures: 2}, 0, 0, 3},
		{"the past", retry.State{Failures: 1, RateLimited: 1}, -time.Hour, 0, 4},
		{"far in the past", retry.State{}, -100 * 365 * 24 * time.Hour, 0, 3},
		{"nonsense", retry.State{Failures: -7}, 0, 0, 3},
		{"absurd", retry.State{Failures: 1, RateLimited: math.MaxInt}, 0, 0, math.MaxInt},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			pool := &retrypool.Pool{Queue: 1, Policy: every(time.Hour)}
			var at []time.Duration
			start := time.Now()
			task, err := pool.Resume(t.Context(), tt.state, start.Add(tt.in), func(context.Context) error {
				at = append(at, time.Since(start))
				return errBoom
			})
			require.NoError(t, err)
			err = task.Wait(t.Context())
			e := testkit.As[*retry.Error](t, err)
			assert.Equal(t, tt.attempts, e.Attempts)
			assert.Equal(t, tt.first, at[0])
			assert.Len(t, at, 3-max(tt.state.Failures, 0))
		})
	}
}

// Resumed tasks take no place in the queue, and a task may submit others.
func TestResumeTakesNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 1, Queue: 1}
		submit(t.Context(), t, pool, taking(time.Second, succeeds))
		synctest.Wait()
		submit(t.Context(), t, pool, succeeds)
		var last *retrypool.Task
		for range 100 {
			last = testkit.Must(pool.Resume(t.Context(), retry.State{Failures: 1}, time.Time{}, succeeds))(t)
		}
		_, err := pool.TrySubmit(t.Context(), succeeds)
		require.ErrorIs(t, err, retrypool.ErrFull)
		require.NoError(t, last.Wait(t.Context()))
		for range 5 { // all places were given back
			testkit.Must(pool.TrySubmit(t.Context(), succeeds))(t)
			synctest.Wait()
		}
	})
}

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
		_ = testkit.As[runtime.Error](t, err)

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
			return retry.Policy{Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) {
				if e.Kind == kind {
					failing()
				}
			}}}
		}
		for _, tt := range []struct {
			name   string
			policy retry.Policy
			fn     func(context.Context) error
		}{
			{"classifier", retry.Policy{Classifier: func(error) retry.Verdict { failing(); return retry.Verdict{} }}, fails},
			{"retrying", observer(retry.Retrying), fails},
			{"gave up", observer(retry.GaveUp), fails},
			{"succeeded", observer(retry.Succeeded), succeeds},
			{"backoff", retry.Policy{Backoff: bad(failing)}, fails},
			{"jitter", retry.Policy{Jitter: bad(failing)}, fails},
			{"rand", retry.Policy{Rand: bad(failing)}, fails},
			{"budget", retry.Policy{Budget: bad(failing)}, fails},
			{"budget of a success", retry.Policy{Budget: bad(failing)}, succeeds},
		} {
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

// bad is a Backoff, a Jitter, a Rand and a Throttle that fail.
type bad func()

func (b bad) Delay(int) time.Duration { b(); return 0 }

func (b bad) Apply(_, _ time.Duration, _ uint64) time.Duration { b(); return 0 }

func (b bad) Uint64() uint64 { b(); return 0 }

func (b bad) Deposit(time.Time) { b() }

func (b bad) TryWithdraw(time.Time) bool { b(); return true }

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

var errBoom = errors.New("boom")

func fails(context.Context) error { return errBoom }

func succeeds(context.Context) error { return nil }

// bubble runs one test of several in a bubble of its own.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, test)
	})
}

// text is the text of an error, without the stack of a panic.
func text(err error) string {
	line, _, _ := strings.Cut(fmt.Sprint(err), "\n")
	return line
}

// every returns a policy whose retries come after d.
func every(d time.Duration) *retry.Policy {
	return &retry.Policy{Backoff: retry.Constant(d), Jitter: retry.NoJitter}
}

// taking returns a task that takes d and then calls fn.
func taking(d time.Duration, fn func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		time.Sleep(d)
		return fn(ctx)
	}
}

// shut closes a pool when there is time.
func shut(t *testing.T, pool *retrypool.Pool) []*retrypool.Task {
	t.Helper()
	return testkit.Must(pool.Close(context.Background()))(t)
}

func submit(ctx context.Context, t *testing.T, pool *retrypool.Pool, fn func(context.Context) error) *retrypool.Task {
	t.Helper()
	return testkit.Must(pool.Submit(ctx, fn))(t)
}

// journal records the actions of tasks in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) note(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// noted returns fn with a note of each call.
func (j *journal) noted(name string, fn func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		j.note(name)
		return fn(ctx)
	}
}

// goroutines counts the goroutines of all pools.
func goroutines() (n int) {
	buf := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "retrypool.(*Pool)") {
			n++
		}
	}
	return n
}

// expectGoroutines lets those that are about to end do so.
func expectGoroutines(t *testing.T, want int) {
	t.Helper()
	for range 100 {
		if goroutines() <= want {
			break
		}
		runtime.Gosched()
	}
	assert.Equal(t, want, goroutines())
}

// ended returns a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("no time"))
	return ctx
}

func TestMain(m *testing.M) { testkit.NoLeaks(m) }
