package retrypool_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypool"
)

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

// text is that of an error, without the stack of a panic.
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
	left, err := pool.Close(context.Background())
	require.NoError(t, err)
	return left
}

func submit(ctx context.Context, t *testing.T, pool *retrypool.Pool, fn func(context.Context) error) *retrypool.Task {
	t.Helper()
	task, err := pool.Submit(ctx, fn)
	require.NoError(t, err)
	return task
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
