package retrypool_test

import (
	"context"
	"runtime"
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
func fill(t *testing.T, n int, next func(context.Context) context.Context) (*retrypool.Pool, float64) {
	t.Helper()
	pool := &retrypool.Pool{Workers: 4, Policy: &retry.Policy{Backoff: retry.Constant(time.Hour)}}
	parent, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	ctxs := make([]context.Context, n)
	for i := range ctxs {
		ctxs[i] = next(parent) //nolint:fatcontext // not nested
		_ = ctxs[i].Done()     // made when it is asked for
	}
	before := inUse()
	for _, ctx := range ctxs {
		_, err := pool.Submit(ctx, fails)
		require.NoError(t, err)
	}
	settle(t, pool)
	bytes := (inUse() - before) / float64(n)
	runtime.KeepAlive(ctxs)
	return pool, bytes
}

// settle returns when everything that was submitted so far has been run.
func settle(t *testing.T, pool *retrypool.Pool) {
	t.Helper()
	for range 4 {
		last, err := pool.Submit(context.Background(), succeeds)
		require.NoError(t, err)
		require.NoError(t, last.Wait(context.Background()))
	}
}

// A task that waits for its retry is small, without its function, its last error and its
// context. Not parallel: it measures the memory in use.
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
