package retrypool_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrypool"
)

// The contexts that tasks come with.
var contexts = []struct {
	name  string
	bytes float64 // a task may cost on average
	next  func(ctx context.Context) context.Context
}{
	{"background", 400, func(context.Context) context.Context { return context.Background() }},
	{"shared", 400, func(ctx context.Context) context.Context { return ctx }},
	{"own", 1000, func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancel(ctx)
		_ = cancel // it ends with its parent
		return ctx
	}},
}

// inUse returns the bytes that the program holds.
func inUse() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// fill lets n tasks wait for about an hour, and returns their pool and the
// memory in use that each has added, without its context.
func fill(tb testing.TB, n int, next func(context.Context) context.Context) (*retrypool.Pool, float64) {
	tb.Helper()
	pool := &retrypool.Pool{Workers: 4, Policy: &retry.Policy{Backoff: retry.Constant(time.Hour)}}
	parent, cancel := context.WithCancel(context.Background())
	tb.Cleanup(cancel)
	ctxs := make([]context.Context, n)
	for i := range ctxs {
		ctxs[i] = next(parent) //nolint:fatcontext // not nested
		_ = ctxs[i].Done()     // made when it is asked for
	}
	before := inUse()
	for _, ctx := range ctxs {
		_, err := pool.Submit(ctx, fails)
		require.NoError(tb, err)
	}
	settle(tb, pool)
	bytes := (inUse() - before) / float64(n)
	runtime.KeepAlive(ctxs)
	return pool, bytes
}

// settle returns when everything that was submitted so far has been run.
func settle(tb testing.TB, pool *retrypool.Pool) {
	tb.Helper()
	for range 4 {
		last, err := pool.Submit(context.Background(), succeeds)
		require.NoError(tb, err)
		require.NoError(tb, last.Wait(context.Background()))
	}
}

// TestMemoryOfAWaitingTask is BenchmarkWaitingMemory in small. Not parallel: it
// measures the memory in use.
func TestMemoryOfAWaitingTask(t *testing.T) { //nolint:paralleltest // see above
	if testkit.Race {
		t.Skip("the race detector needs memory of its own")
	}
	for _, c := range contexts { //nolint:paralleltest // see above
		t.Run(c.name, func(t *testing.T) {
			pool, bytes := fill(t, 20_000, c.next)
			assert.LessOrEqual(t, bytes, c.bytes)
			assert.Len(t, shut(t, pool), 20_000)
		})
	}
}

// When a flood is over, its memory is free. Not parallel, likewise.
func TestMemoryIsGivenBack(t *testing.T) { //nolint:paralleltest // see above
	if testkit.Race {
		t.Skip("the race detector needs memory of its own")
	}
	const n = 100_000
	shared, cancelShared := context.WithCancel(t.Context())
	for name, newContext := range map[string]func() (context.Context, context.CancelFunc){ //nolint:paralleltest // see above
		"shared": func() (context.Context, context.CancelFunc) { return shared, cancelShared },
		"own":    func() (context.Context, context.CancelFunc) { return context.WithCancel(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			var pool retrypool.Pool
			before := inUse()
			at := time.Now().Add(time.Hour)
			tasks, cancels := make([]*retrypool.Task, n), make([]context.CancelFunc, n)
			for i := range n {
				var ctx context.Context
				ctx, cancels[i] = newContext()
				task, err := pool.Resume(ctx, retry.State{}, at, fails)
				require.NoError(t, err)
				tasks[i] = task
			}
			for i := range n { // and not all at once, in as many goroutines
				cancels[i]()
				<-tasks[i].Done()
			}
			assert.Less(t, inUse()-before, 2.0*n)
			shut(t, &pool)
		})
	}
}

// Likewise the room of a queue.
func TestMemoryOfTheQueueIsGivenBack(t *testing.T) { //nolint:paralleltest // see above
	if testkit.Race {
		t.Skip("the race detector needs memory of its own")
	}
	const n = 100_000
	pool := &retrypool.Pool{Workers: 1, Queue: n}
	before := inUse()
	begin := make(chan struct{})
	for range n {
		_, err := pool.Submit(context.Background(), func(context.Context) error {
			<-begin
			return nil
		})
		require.NoError(t, err)
	}
	close(begin)
	require.NoError(t, pool.Wait(t.Context()))
	assert.Less(t, inUse()-before, 2.0*n)
	shut(t, pool)
}

// BenchmarkWaitingMemory reports the memory of a task that waits for its retry,
// without its function, its last error and its context.
func BenchmarkWaitingMemory(b *testing.B) {
	for _, c := range contexts {
		b.Run("context="+c.name, func(b *testing.B) {
			for b.Loop() {
				pool, bytes := fill(b, 1_000_000, c.next)
				b.ReportMetric(bytes, "B/waiting")
				_, _ = pool.Close(b.Context())
			}
		})
	}
}

// BenchmarkSchedule measures a task that is submitted, fails, and waits, among n to
// 2n others that do.
func BenchmarkSchedule(b *testing.B) {
	for _, n := range []int{1e3, 1e4, 1e5, 1e6} {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			var pool *retrypool.Pool
			more := 0
			for b.Loop() {
				if more == 0 {
					b.StopTimer()
					pool, _ = fill(b, n, contexts[0].next)
					b.StartTimer()
				}
				_, _ = pool.Submit(context.Background(), fails)
				if more++; more == n {
					settle(b, pool)
					more = 0
				}
			}
			settle(b, pool)
		})
	}
}

// BenchmarkDue measures a retry that is due, fails again, and waits for the next
// one, among n that are due at about the same time. The clock moves when all of them
// wait: a task that has failed and not asked for the time yet would else wait for
// longer than the clock moves.
func BenchmarkDue(b *testing.B) {
	for _, n := range []int{1e3, 1e4, 1e5, 1e6} {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			var c leapingClock
			var calls atomic.Int64
			pool := &retrypool.Pool{
				Workers: 4,
				Policy:  &retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(time.Hour), Clock: &c},
			}
			r := rand.New(rand.NewPCG(1, 2))
			tasks := make([]*retrypool.Task, n)
			for i := range tasks {
				at := c.Now().Add(time.Hour + time.Duration(r.Int64N(int64(time.Minute))))
				tasks[i], _ = pool.Resume(context.Background(), retry.State{}, at, func(context.Context) error {
					calls.Add(1)
					return errBoom
				})
			}
			b.ReportAllocs()
			for b.Loop() {
				before := calls.Load()
				c.ahead.Add(int64(2 * time.Hour))
				for calls.Load() < before+int64(n) {
					time.Sleep(10 * time.Microsecond)
				}
				b.StopTimer()
				for _, task := range tasks {
					for _, at := task.State(); at.IsZero(); _, at = task.State() {
						runtime.Gosched()
					}
				}
				b.StartTimer()
			}
			b.StopTimer()
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(calls.Load()), "ns/retry")
			_, _ = pool.Close(b.Context())
		})
	}
}

// leapingClock is ahead of the system's clock by hours. Its waits end soon, and the pool
// then looks at the time again.
type leapingClock struct{ ahead atomic.Int64 }

func (c *leapingClock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *leapingClock) After(time.Duration) <-chan time.Time {
	return time.After(50 * time.Microsecond)
}

// BenchmarkCancel measures the end of one of n tasks that wait, each under a
// context of its own, and its replacement.
func BenchmarkCancel(b *testing.B) {
	for _, n := range []int{1e3, 1e4, 1e5, 1e6} {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			var pool retrypool.Pool
			tasks, cancels := make([]*retrypool.Task, n), make([]context.CancelFunc, n)
			r := rand.New(rand.NewPCG(1, 2))
			resume := func(i int) {
				var ctx context.Context
				ctx, cancels[i] = context.WithCancel(context.Background())
				at := time.Now().Add(time.Hour + time.Duration(r.Int64N(int64(time.Hour))))
				tasks[i], _ = pool.Resume(ctx, retry.State{}, at, fails)
			}
			for i := range tasks {
				resume(i)
			}
			b.ReportAllocs()
			for b.Loop() {
				i := r.IntN(n)
				cancels[i]()
				<-tasks[i].Done()
				resume(i)
			}
			b.StopTimer()
			_, _ = pool.Close(b.Context())
		})
	}
}

// BenchmarkCancelAll measures the end of a context that a million tasks share.
func BenchmarkCancelAll(b *testing.B) {
	const n = 1_000_000
	for b.Loop() {
		b.StopTimer()
		var ended atomic.Int64
		pool := &retrypool.Pool{OnEnd: func(context.Context, *retrypool.Task) { ended.Add(1) }}
		ctx, cancel := context.WithCancel(context.Background())
		at := time.Now().Add(time.Hour)
		for range n {
			_, _ = pool.Resume(ctx, retry.State{}, at, fails)
		}
		most := 0
		b.StartTimer()
		cancel()
		for ended.Load() < n {
			most = max(most, runtime.NumGoroutine())
			time.Sleep(time.Millisecond)
		}
		b.ReportMetric(float64(most), "goroutines")
	}
}

// BenchmarkThroughput measures new work, with and without a thousand old failures
// that wait for an hour.
func BenchmarkThroughput(b *testing.B) {
	for _, n := range []int{0, 1000} {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			pool, _ := fill(b, n, contexts[0].next)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = pool.Submit(context.Background(), succeeds)
			}
			settle(b, pool)
			b.StopTimer()
			_, _ = pool.Close(b.Context())
		})
	}
}
