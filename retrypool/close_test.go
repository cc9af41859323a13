//nolint:thelper // what bubble calls is the test itself
package retrypool_test

import (
	"context"
	"errors"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrypool"
)

// untilCanceled is a task that runs until its context ends.
func untilCanceled(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestCloseDrainsAndHandsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 1, Policy: every(time.Hour)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		waiting := submit(ctx, t, pool, fails)
		synctest.Wait()
		running := submit(t.Context(), t, pool, taking(time.Second, fails))
		good := submit(t.Context(), t, pool, taking(time.Second, succeeds))
		bad := submit(t.Context(), t, pool, taking(time.Second, fails))
		start := time.Now()
		left := testkit.Must(pool.Close(t.Context()))(t)
		assert.Equal(t, 3*time.Second, time.Since(start))
		require.Equal(t, []*retrypool.Task{waiting, running, bad}, left)
		require.NoError(t, good.Err())
		for i, task := range left {
			<-task.Done()
			require.ErrorIs(t, task.Err(), retrypool.ErrClosed)
			require.ErrorIs(t, task.Err(), errBoom)
			require.EqualError(t, task.Err(), "retrypool: closed; the last failure: boom")
			s, at := task.State()
			assert.Equal(t, 1, s.Failures)
			assert.True(t, at.Equal(start.Add(time.Hour+[]time.Duration{0, time.Second, 3 * time.Second}[i])), "%v", at)
		}
	})
}

func TestCloseInAHurry(t *testing.T) {
	t.Parallel()
	errFinal := retry.MarkFinal(errors.New("final"))
	finally := func(err error) func(context.Context) error {
		return func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Second) // tidies up
			return err
		}
	}
	final := retry.Policy{Classifier: retry.On(retry.Final, errBoom)}
	for _, tt := range []struct {
		name   string
		fn     func(context.Context) error
		policy retry.Policy
		back   string // the last failure, if it is handed back
		want   string // otherwise
	}{
		{name: "canceled", fn: untilCanceled, back: "context canceled"},
		{name: "otherwise", fn: finally(errBoom), back: "boom"},
		{name: "success", fn: finally(nil), want: "<nil>"},
		{name: "marked", fn: finally(errFinal), want: "final"},
		{name: "final by what the cancellation did", fn: finally(fs.ErrClosed), back: "file already closed"},
		{name: "final by a classifier", fn: finally(errBoom), policy: final, back: "boom"},
		{name: "panic", fn: func(ctx context.Context) error { <-ctx.Done(); panic("ouch") }, want: "panic: ouch"},
		{name: "non-idempotent", fn: untilCanceled, policy: retry.Policy{NonIdempotent: true}, want: "context canceled"},
		{
			name: "non-idempotent, and it may be applied", fn: finally(errBoom), policy: retry.Policy{NonIdempotent: true},
			want: "failed after 1 attempt (it may have taken effect): boom",
		},
		{name: "last attempt", fn: untilCanceled, policy: retry.Policy{MaxAttempts: 1}, back: "context canceled"},
		{name: "with a timeout", fn: untilCanceled, policy: retry.Policy{AttemptTimeout: time.Hour}, back: "context canceled"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			pool := &retrypool.Pool{Workers: 1, Policy: &tt.policy}
			running := submit(t.Context(), t, pool, tt.fn)
			synctest.Wait()
			queued := submit(t.Context(), t, pool, succeeds)
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("no time"))
			defer cancel()
			left, err := pool.Close(ctx)
			require.EqualError(t, err, "no time")
			if tt.back != "" {
				tt.want = "retrypool: closed; the last failure: " + tt.back
				require.Equal(t, []*retrypool.Task{running, queued}, left)
				s, at := running.State()
				assert.Equal(t, retry.State{}, s, "it does not count")
				assert.Zero(t, at)
			} else {
				require.Equal(t, []*retrypool.Task{queued}, left)
			}
			require.EqualError(t, queued.Err(), "retrypool: closed")
			require.Equal(t, tt.want, text(running.Err()))
		})
	}
}

// A panic is never what Close has made of an attempt, so the policy judges it, and may
// have it counted and run again.
func TestCloseInAHurryCountsPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 1, Policy: every(time.Hour)}
		task := submit(t.Context(), t, pool, func(ctx context.Context) error {
			<-ctx.Done()
			panic(retry.MarkRetryable(errBoom))
		})
		synctest.Wait()
		left, err := pool.Close(ended())
		require.EqualError(t, err, "no time")
		require.Equal(t, []*retrypool.Task{task}, left)
		require.Equal(t, "retrypool: closed; the last failure: panic: boom", text(task.Err()))
		s, at := task.State()
		assert.Equal(t, 1, s.Failures)
		assert.Equal(t, time.Now().Add(time.Hour), at)
	})
}

// A retry that is due and waits for a worker is handed back like a new task.
func TestCloseInAHurryHandsBackRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 1, Policy: every(time.Second)}
		retrying := submit(t.Context(), t, pool, fails)
		synctest.Wait()
		running := submit(t.Context(), t, pool, untilCanceled)
		fresh := submit(t.Context(), t, pool, succeeds)
		time.Sleep(time.Minute)
		left, err := pool.Close(ended())
		require.EqualError(t, err, "no time")
		require.Equal(t, []*retrypool.Task{retrying, running, fresh}, left)
		s, at := retrying.State()
		assert.Equal(t, 1, s.Failures)
		assert.Zero(t, at, "it is due")
	})
}

// A task whose own context has ended as well is not handed back.
func TestCloseInAHurryOfACanceledTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 1}
		ctx, cancel := context.WithCancel(t.Context())
		task := submit(ctx, t, pool, untilCanceled)
		synctest.Wait()
		cancel()
		left, err := pool.Close(ended())
		require.Error(t, err)
		assert.Empty(t, left)
		require.EqualError(t, task.Err(), "failed after 1 attempt: context canceled")
	})
}

// A task that a worker has taken, but not begun when Close hurries, is not begun.
func TestCloseInAHurryStartsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 1}
		closed := make(chan []*retrypool.Task, 1)
		ctx := askedContext{t.Context(), sync.OnceFunc(func() {
			go func() {
				left, err := pool.Close(ended())
				assert.EqualError(t, err, "no time")
				closed <- left
			}()
			time.Sleep(time.Nanosecond) // until Close waits for the worker
		})}
		task := submit(ctx, t, pool, func(context.Context) error {
			assert.Fail(t, "begun")
			return nil
		})
		assert.Equal(t, []*retrypool.Task{task}, <-closed)
		require.EqualError(t, task.Err(), "retrypool: closed")
	})
}

// askedContext notices that it is asked whether an attempt may begin.
type askedContext struct {
	context.Context
	before func()
}

func (c askedContext) Done() <-chan struct{} {
	pcs := make([]uintptr, 6)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for frame, more := frames.Next(); more; frame, more = frames.Next() {
		if strings.HasSuffix(frame.Function, "(*Pool).attempt") {
			c.before()
			break
		}
	}
	return c.Context.Done()
}

func TestCloseWhenNothingIsLeft(t *testing.T) {
	t.Parallel()
	for range 50 { // which of two things that have happened is seen first is left to chance
		var pool retrypool.Pool
		left := testkit.Must(pool.Close(ended()))(t)
		require.Empty(t, left)
	}
}

func TestCloseUnblocksSubmit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 1, Queue: 1}
		submit(t.Context(), t, pool, taking(time.Hour, succeeds))
		synctest.Wait()
		submit(t.Context(), t, pool, succeeds)
		refused := make(chan error)
		go func() {
			_, err := pool.Submit(t.Context(), succeeds)
			refused <- err
		}()
		synctest.Wait()
		start := time.Now()
		go func() { _, _ = pool.Close(t.Context()) }()
		require.ErrorIs(t, <-refused, retrypool.ErrClosed)
		assert.Equal(t, start, time.Now())
		_, err := pool.TrySubmit(t.Context(), succeeds)
		require.ErrorIs(t, err, retrypool.ErrClosed, "and not that it is full")
		shut(t, pool)
	})
}

func TestCloseTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 2, Policy: every(time.Hour)}
		for range 20 {
			submit(t.Context(), t, pool, fails)
		}
		synctest.Wait()
		for range 20 {
			submit(t.Context(), t, pool, taking(time.Second, fails))
		}
		var all sync.Map
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+5)*time.Second)
				defer cancel()
				left, _ := pool.Close(ctx)
				for _, task := range left {
					_, twice := all.LoadOrStore(task, true)
					assert.False(t, twice)
				}
			})
		}
		wg.Wait()
		n := 0
		all.Range(func(any, any) bool { n++; return true })
		assert.Equal(t, 40, n)
		left := testkit.Must(pool.Close(ended()))(t)
		assert.Empty(t, left)
	})
}
