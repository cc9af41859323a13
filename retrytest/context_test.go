package retrytest_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytest"
)

// TestClockContexts looks at contexts before, during and after two seconds of a sleep or of
// work.
func TestClockContexts(t *testing.T) {
	t.Parallel()
	type key struct{}
	type makes = func(c *retrytest.Clock) (context.Context, context.CancelFunc)
	background := context.WithValue(context.Background(), key{}, 1)
	errCause := errors.New("cause")
	const never = time.Hour
	timeout := func(d time.Duration) makes {
		return func(c *retrytest.Clock) (context.Context, context.CancelFunc) { return c.WithTimeout(background, d) }
	}
	childOf := func(parent makes) makes {
		return func(c *retrytest.Clock) (context.Context, context.CancelFunc) {
			ctx, cancelParent := parent(c)
			ctx, cancel := c.AttemptContext(ctx, time.Minute)
			return ctx, func() { cancel(); cancelParent() }
		}
	}
	canceled := func(c *retrytest.Clock) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancelCause(background)
		c.At(700*time.Millisecond, func() {})
		c.At(700*time.Millisecond, func() { cancel(errCause) })
		return ctx, func() { cancel(nil) }
	}
	tests := []struct {
		name     string
		makes    makes
		deadline time.Duration
		ends     time.Duration
		cause    error
	}{
		{"lives", timeout(2*time.Second + 1), 2*time.Second + 1, never, nil},
		{"WithTimeout", timeout(1500 * time.Millisecond), 1500 * time.Millisecond, 1500 * time.Millisecond, context.DeadlineExceeded},
		{"AttemptContext", func(c *retrytest.Clock) (context.Context, context.CancelFunc) {
			return c.AttemptContext(background, time.Second)
		}, time.Second, time.Second, context.DeadlineExceeded},
		{"WithDeadline", func(c *retrytest.Clock) (context.Context, context.CancelFunc) {
			return c.WithDeadline(background, start.Add(time.Second))
		}, time.Second, time.Second, context.DeadlineExceeded},
		{"at the end", timeout(2 * time.Second), 2 * time.Second, 2 * time.Second, context.DeadlineExceeded},
		{"expired already", timeout(0), 0, 0, context.DeadlineExceeded},
		{"born in the past", timeout(-time.Second), -time.Second, 0, context.DeadlineExceeded},
		{"its parent lives", childOf(timeout(time.Hour)), time.Minute, never, nil},
		{"its parent is canceled", childOf(canceled), time.Minute, 700 * time.Millisecond, errCause},
		{"its parent expires first", childOf(timeout(time.Second)), time.Second, time.Second, context.DeadlineExceeded},
		{"its grandparent expires first", childOf(func(c *retrytest.Clock) (context.Context, context.CancelFunc) {
			grandparent, _ := c.WithTimeout(background, time.Second)
			return context.WithCancel(grandparent)
		}), time.Second, time.Second, context.DeadlineExceeded},
		{"its parent has expired", childOf(timeout(0)), 0, 0, context.DeadlineExceeded},
		{"its parent has been canceled", childOf(func(*retrytest.Clock) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(background)
			cancel()
			return ctx, cancel
		}), time.Minute, 0, context.Canceled},
	}
	passes := map[string]func(c *retrytest.Clock, ctx context.Context) error{
		"sleep": func(c *retrytest.Clock, ctx context.Context) error { return c.SleepContext(ctx, 2*time.Second) },
		"work":  func(c *retrytest.Clock, ctx context.Context) error { return c.AdvanceContext(ctx, 2*time.Second) },
	}
	for _, tt := range tests {
		for way, pass := range passes {
			t.Run(tt.name+", "+way, func(t *testing.T) {
				t.Parallel()
				var c retrytest.Clock
				ctx, cancel := tt.makes(&c)
				defer cancel()
				deadline, ok := ctx.Deadline()
				assert.True(t, ok)
				assert.Equal(t, tt.deadline, deadline.Sub(start))
				assert.Equal(t, 1, ctx.Value(key{}))
				err, cause := tt.cause, tt.cause
				if cause == errCause {
					err = context.Canceled
				}
				assert.Equal(t, err, pass(&c, ctx))
				assert.Equal(t, min(tt.ends, 2*time.Second), passed(&c))
				assert.Equal(t, way == "sleep" && tt.ends > 0, len(c.Sleeps()) == 1)
				if tt.ends == never {
					require.NoError(t, ctx.Err())
					err, cause = context.Canceled, context.Canceled
				}
				cancel()
				c.Advance(time.Hour) // too late
				<-ctx.Done()
				assert.Equal(t, err, ctx.Err())
				assert.Equal(t, cause, context.Cause(ctx))
			})
		}
	}
}

// The contexts of package context end with the one of the clock, in the same
// instant and for the same cause.
func TestClockContextWithChildren(t *testing.T) {
	t.Parallel()
	var c retrytest.Clock
	ctx, cancel := c.WithTimeout(t.Context(), time.Second)
	defer cancel()
	child, cancelChild := context.WithCancel(ctx)
	defer cancelChild()
	c.Advance(time.Second)
	require.Error(t, child.Err())
	assert.Equal(t, context.DeadlineExceeded, context.Cause(child))
	assert.ErrorIs(t, child.Err(), context.Canceled, "if this changed, so must the documentation")
}

func TestClockForgetsCanceledContexts(t *testing.T) {
	t.Parallel()
	type key struct{}
	var c retrytest.Clock
	p := func() weak.Pointer[[1 << 10]byte] {
		ballast := new([1 << 10]byte)
		ctx := context.WithValue(context.Background(), key{}, ballast)
		for range 10 {
			_, cancel := c.WithTimeout(ctx, time.Hour)
			cancel()
		}
		return weak.Make(ballast)
	}()
	runtime.GC()
	assert.Nil(t, p.Value())
	runtime.KeepAlive(&c)
}

func TestClockContextRaces(t *testing.T) {
	t.Parallel()
	var c retrytest.Clock
	for range 100 {
		ctx, cancel := c.WithTimeout(context.Background(), time.Second)
		var wg sync.WaitGroup
		wg.Go(func() { c.Advance(time.Second) })
		wg.Go(cancel)
		wg.Go(func() { // poll while it ends
			for ctx.Err() == nil {
				runtime.Gosched()
			}
		})
		<-ctx.Done()
		assert.Contains(t, []error{context.Canceled, context.DeadlineExceeded}, ctx.Err())
		assert.Equal(t, ctx.Err(), context.Cause(ctx))
		wg.Wait()
	}
}
