//nolint:thelper // what bubble calls is the test itself
package retrypool_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypool"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// A thousand tasks, a hundred of which fail at first, and Close: without Wait it hands
// back the hundred, which wait for their retries; after Wait, nothing is left.
func TestWaitForAll(t *testing.T) {
	t.Parallel()
	for _, wait := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			pool := &retrypool.Pool{Workers: 4, Policy: every(time.Hour)}
			var tasks []*retrypool.Task
			for i := range 1000 {
				fn := succeeds
				if i%10 == 0 {
					fn = retrytest.Script(errBoom, errBoom, nil).Run
				}
				tasks = append(tasks, submit(t.Context(), t, pool, fn))
			}
			if !wait {
				assert.Len(t, shut(t, pool), 100)
				return
			}
			start := time.Now()
			require.NoError(t, pool.Wait(t.Context()))
			assert.Equal(t, 2*time.Hour, time.Since(start))
			for _, task := range tasks {
				require.NoError(t, task.Err())
				<-task.Done()
			}
			assert.Empty(t, shut(t, pool))
		})
	}
}

func TestWaitWithNothingToDo(t *testing.T) {
	t.Parallel()
	var none context.Context // is the background
	for range 50 {           // which of two things that have happened is seen first is left to chance
		var pool retrypool.Pool
		require.NoError(t, pool.Wait(none))
		require.NoError(t, pool.Wait(ended()))
		submit(t.Context(), t, &pool, succeeds)
		require.NoError(t, pool.Wait(none))
		require.NoError(t, pool.Wait(ended()))
		shut(t, &pool)
		require.NoError(t, pool.Wait(ended()))
	}
}

// Every Wait returns, each time that the pool has nothing to do.
func TestWaitSeveralTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 1, Policy: every(time.Hour)}
		for range 3 {
			start := time.Now()
			submit(t.Context(), t, pool, fails)
			var wg sync.WaitGroup
			for i := range 10 {
				wg.Go(func() {
					time.Sleep(time.Duration(i) * time.Minute)
					assert.NoError(t, pool.Wait(t.Context()))
					assert.Equal(t, 2*time.Hour, time.Since(start))
				})
			}
			wg.Wait()
		}
	})
}

// Wait waits for tasks that are submitted before the pool has nothing to do, and not
// for later ones.
func TestWaitWhileOthersSubmit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		pause time.Duration // from one task, which takes a second, to the next
		after time.Duration
		err   error
	}{
		{"tasks that overlap", 900 * time.Millisecond, time.Hour, context.DeadlineExceeded},
		{"tasks that do not", 1100 * time.Millisecond, time.Second, nil},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			pool := &retrypool.Pool{Workers: 2}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			submit(t.Context(), t, pool, taking(time.Second, succeeds))
			go func() {
				for time.Sleep(tt.pause); ctx.Err() == nil; time.Sleep(tt.pause) {
					_, err := pool.Submit(t.Context(), taking(time.Second, succeeds))
					assert.NoError(t, err)
				}
			}()
			start := time.Now()
			require.Equal(t, tt.err, pool.Wait(ctx))
			assert.Equal(t, tt.after, time.Since(start))
			cancel()
			time.Sleep(time.Minute)
			require.NoError(t, pool.Wait(t.Context()))
		})
	}
}

// The instant counts, even if new work has come before Wait notices it.
func TestWaitDoesNotMissTheInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 1}
		task := submit(t.Context(), t, pool, taking(time.Second, succeeds))
		for range 100 {
			waited := make(chan error, 1)
			go func() { waited <- pool.Wait(t.Context()) }()
			synctest.Wait()
			<-task.Done()
			task = submit(t.Context(), t, pool, taking(time.Second, succeeds))
			start := time.Now()
			require.NoError(t, <-waited)
			require.Equal(t, start, time.Now())
		}
		require.NoError(t, pool.Wait(t.Context()))
	})
}

// Tasks that are submitted by tasks are waited for.
func TestWaitForWhatTasksSubmit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 3}
		var ran atomic.Int32
		var grow func(depth int) func(context.Context) error
		grow = func(depth int) func(context.Context) error {
			return func(context.Context) error {
				time.Sleep(time.Second)
				ran.Add(1)
				if depth > 0 {
					for range 2 {
						if _, err := pool.TrySubmit(t.Context(), grow(depth-1)); err != nil {
							return err
						}
					}
				}
				return nil
			}
		}
		submit(t.Context(), t, pool, grow(6))
		require.NoError(t, pool.Wait(t.Context()))
		assert.EqualValues(t, 127, ran.Load())
	})
}

// However a task ends, OnEnd has returned before Wait does.
func TestWaitForOnEnd(t *testing.T) {
	t.Parallel()
	for name, fn := range map[string]func(context.Context) error{
		"success":  succeeds,
		"failure":  fails,
		"final":    func(context.Context) error { return retry.MarkFinal(errBoom) },
		"panic":    explode,
		"goexit":   leave,
		"canceled": func(ctx context.Context) error { return context.Cause(ctx) },
	} {
		bubble(t, name, func(t *testing.T) {
			told := 0
			pool := &retrypool.Pool{Workers: 1, Policy: every(time.Second), OnEnd: func(context.Context, *retrypool.Task) {
				time.Sleep(time.Minute)
				told++
			}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			for range 3 {
				submit(ctx, t, pool, fn)
			}
			require.NoError(t, pool.Wait(t.Context()))
			assert.Equal(t, 3, told)
		})
	}
}

// A task that Close hands back has ended when OnEnd has returned.
func TestWaitDuringClose(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		ctx   func(context.Context) context.Context // of Close
		after time.Duration
	}{
		{"with time", func(ctx context.Context) context.Context { return ctx }, 182 * time.Minute},
		{"in a hurry", func(context.Context) context.Context { return ended() }, 2 * time.Minute},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			var told atomic.Int32
			pool := &retrypool.Pool{Workers: 1, Policy: every(time.Hour), OnEnd: func(context.Context, *retrypool.Task) {
				time.Sleep(time.Minute)
				told.Add(1)
			}}
			submit(t.Context(), t, pool, fails)
			synctest.Wait()
			for range 2 {
				submit(t.Context(), t, pool, func(ctx context.Context) error {
					select {
					case <-ctx.Done():
					case <-time.After(90 * time.Minute):
					}
					return errBoom
				})
			}
			synctest.Wait()
			start := time.Now()
			go func() { _, _ = pool.Close(tt.ctx(t.Context())) }()
			synctest.Wait()
			require.NoError(t, pool.Wait(t.Context()))
			assert.EqualValues(t, 3, told.Load())
			assert.Equal(t, tt.after, time.Since(start))
			require.NoError(t, pool.Wait(ended()))
		})
	}
}

// A task that waits for its own pool would wait for itself.
func TestWaitInsideATask(t *testing.T) {
	t.Parallel()
	const refused = "retrypool: Wait was called by a task of the pool, and would wait for itself"
	type key struct{}
	for _, tt := range []struct {
		name   string
		policy retry.Policy
		ctx    func(context.Context) (context.Context, context.CancelFunc)
		want   string
	}{
		{"its context", retry.Policy{}, nil, refused},
		{"with a timeout", retry.Policy{AttemptTimeout: time.Hour}, nil, refused},
		{"a value", retry.Policy{}, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithValue(ctx, key{}, 1), func() {}
		}, refused},
		{"canceled", retry.Policy{}, context.WithCancel, refused},
		{"detached", retry.Policy{}, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithoutCancel(ctx), func() {}
		}, refused},
		{"another", retry.Policy{}, func(context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), time.Second)
		}, "context deadline exceeded"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			policy := tt.policy
			policy.Classifier = retry.On(retry.Final, context.DeadlineExceeded)
			pool := &retrypool.Pool{Policy: &policy}
			task := submit(t.Context(), t, pool, func(ctx context.Context) error {
				if tt.ctx != nil {
					var cancel context.CancelFunc
					ctx, cancel = tt.ctx(ctx)
					defer cancel()
				}
				return retry.MarkFinal(pool.Wait(ctx))
			})
			require.EqualError(t, task.Wait(t.Context()), tt.want)
		})
	}
}

// A task may wait for another pool, whose tasks it has submitted under its own context,
// and they must not wait for the first pool. When the task has ended, its context says
// nothing any more.
func TestWaitInsideAnotherPool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var outer, inner retrypool.Pool
		kept := make(chan context.Context, 1)
		var innermost *retrypool.Task
		task := submit(t.Context(), t, &outer, func(ctx context.Context) error {
			kept <- context.WithoutCancel(ctx)
			var err error
			innermost, err = inner.Submit(ctx, func(ctx context.Context) error {
				time.Sleep(time.Second)
				return retry.MarkFinal(outer.Wait(ctx))
			})
			return errors.Join(err, inner.Wait(ctx))
		})
		require.NoError(t, task.Wait(t.Context()))
		require.ErrorContains(t, innermost.Err(), "would wait for itself")
		submit(t.Context(), t, &outer, taking(time.Second, succeeds))
		require.NoError(t, outer.Wait(<-kept))
	})
}

// The context of an attempt is like a child of the task's context, of whatever type
// that is.
func TestContextOfAnAttempt(t *testing.T) {
	t.Parallel()
	type key struct{}
	var asked atomic.Int32
	for name, wrap := range map[string]func(context.Context) context.Context{
		"package context's":       func(ctx context.Context) context.Context { return ctx },
		"embedded":                func(ctx context.Context) context.Context { return struct{ context.Context }{ctx} },
		"foreign":                 func(ctx context.Context) context.Context { return foreign{ctx} },
		"foreign, with AfterFunc": func(ctx context.Context) context.Context { return foreignAfter{foreign{ctx}, &asked} },
		"another attempt's":       inTask,
		"derived from another's":  func(ctx context.Context) context.Context { return context.WithValue(inTask(ctx), key{}, "v") },
	} {
		bubble(t, name, func(t *testing.T) {
			var pool retrypool.Pool
			parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "v"))
			defer cancel(nil)
			timed, stop := context.WithTimeout(parent, time.Hour)
			defer stop()
			ctx := wrap(timed)
			task := submit(ctx, t, &pool, func(got context.Context) error {
				assert.Equal(t, "v", got.Value(key{}))
				want, _ := ctx.Deadline()
				at, ok := got.Deadline()
				assert.True(t, ok)
				assert.Equal(t, want, at)
				assert.NoError(t, got.Err())
				if name == "foreign, with AfterFunc" {
					assert.EqualValues(t, 1, asked.Load(), "package context starts no goroutine then")
				}
				<-got.Done()
				assert.Equal(t, context.Canceled, got.Err())
				assert.Equal(t, context.Cause(ctx), context.Cause(got))
				return nil
			})
			time.Sleep(time.Second)
			cancel(errBoom)
			require.NoError(t, task.Wait(context.Background()))
		})
	}
}

// inTask returns the context that a task gets of another pool, one that never ends.
func inTask(ctx context.Context) context.Context {
	var pool retrypool.Pool
	got := make(chan context.Context)
	_, _ = pool.Submit(ctx, func(inner context.Context) error {
		got <- inner
		<-ctx.Done()
		return nil
	})
	return <-got
}

// foreign is a context that package context knows nothing of.
type foreign struct{ ctx context.Context }

func (f foreign) Deadline() (time.Time, bool) { return f.ctx.Deadline() }
func (f foreign) Done() <-chan struct{}       { return f.ctx.Done() }
func (f foreign) Err() error                  { return f.ctx.Err() }

// Value hides the key that package context looks for.
func (f foreign) Value(key any) any {
	if _, ok := key.(*int); ok {
		return nil
	}
	return f.ctx.Value(key)
}

// foreignAfter has the method that package context looks for.
type foreignAfter struct {
	foreign
	asked *atomic.Int32
}

func (f foreignAfter) AfterFunc(fn func()) func() bool {
	f.asked.Add(1)
	return context.AfterFunc(f.ctx, fn)
}
