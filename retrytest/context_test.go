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

func TestClockContexts(t *testing.T) {
	t.Parallel()
	type key struct{}
	errCause := errors.New("cause")
	background := func(*retrytest.Clock) (context.Context, context.CancelFunc) {
		return context.WithValue(context.Background(), key{}, 1), func() {}
	}
	tests := []struct {
		name     string
		parent   func(c *retrytest.Clock) (context.Context, context.CancelFunc)
		child    func(c *retrytest.Clock, parent context.Context) (context.Context, context.CancelFunc)
		deadline time.Duration
		then     func(c *retrytest.Clock, cancel context.CancelFunc)
		err      error
		cause    error
	}{
		{
			name:   "lives",
			parent: background,
			child: func(c *retrytest.Clock, parent context.Context) (context.Context, context.CancelFunc) {
				return c.AttemptContext(parent, time.Second)
			},
			deadline: time.Second,
			then:     func(c *retrytest.Clock, _ context.CancelFunc) { c.Advance(time.Second - 1) },
		},
		{
			name:   "AttemptContext expires",
			parent: background,
			child: func(c *retrytest.Clock, parent context.Context) (context.Context, context.CancelFunc) {
				return c.AttemptContext(parent, time.Second)
			},
			deadline: time.Second,
			then:     func(c *retrytest.Clock, _ context.CancelFunc) { c.Advance(time.Second) },
			err:      context.DeadlineExceeded,
			cause:    context.DeadlineExceeded,
		},
		{
			name:   "WithTimeout expires, and a cancel comes too late",
			parent: background,
			child: func(c *retrytest.Clock, parent context.Context) (context.Context, context.CancelFunc) {
				return c.WithTimeout(parent, time.Second)
			},
			deadline: time.Second,
			then: func(c *retrytest.Clock, cancel context.CancelFunc) {
				c.Advance(time.Hour)
				cancel()
			},
			err:   context.DeadlineExceeded,
			cause: context.DeadlineExceeded,
		},
		{
			name:   "WithDeadline expires",
			parent: background,
			child: func(c *retrytest.Clock, parent context.Context) (context.Context, context.CancelFunc) {
				return c.WithDeadline(parent, start.Add(time.Minute))
			},
			deadline: time.Minute,
			then:     func(c *retrytest.Clock, _ context.CancelFunc) { c.Advance(time.Minute) },
			err:      context.DeadlineExceeded,
			cause:    context.DeadlineExceeded,
		},
		{
			name:   "canceled, and the deadline comes too late",
			parent: background,
			child: func(c *retrytest.Clock, parent context.Context) (context.Context, context.CancelFunc) {
				return c.WithTimeout(parent, time.Second)
			},
			deadline: time.Second,
			then: func(c *retrytest.Clock, cancel context.CancelFunc) {
				cancel()
				cancel()
				c.Advance(time.Hour)
			},
			err:   context.Canceled,
			cause: context.Canceled,
		},
		{
			name:   "born in the past",
			parent: background,
			child: func(c *retrytest.Clock, parent context.Context) (context.Context, context.CancelFunc) {
				return c.WithTimeout(parent, -time.Second)
			},
			deadline: -time.Second,
			then:     func(*retrytest.Clock, context.CancelFunc) {},
			err:      context.DeadlineExceeded,
			cause:    context.DeadlineExceeded,
		},
		{
			name: "parent canceled with a cause",
			parent: func(c *retrytest.Clock) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(context.WithValue(context.Background(), key{}, 1))
				c.At(time.Second, func() { cancel(errCause) })
				return ctx, func() { cancel(nil) }
			},
			child: func(c *retrytest.Clock, parent context.Context) (context.Context, context.CancelFunc) {
				return c.WithTimeout(parent, time.Minute)
			},
			deadline: time.Minute,
			then:     func(c *retrytest.Clock, _ context.CancelFunc) { c.Advance(time.Hour) },
			err:      context.Canceled,
			cause:    errCause,
		},
		{
			name: "parent expires first",
			parent: func(c *retrytest.Clock) (context.Context, context.CancelFunc) {
				return c.WithTimeout(context.WithValue(context.Background(), key{}, 1), time.Second)
			},
			child: func(c *retrytest.Clock, parent context.Context) (context.Context, context.CancelFunc) {
				return c.AttemptContext(parent, time.Minute)
			},
			deadline: time.Second,
			then:     func(c *retrytest.Clock, _ context.CancelFunc) { c.Advance(time.Second) },
			err:      context.DeadlineExceeded,
			cause:    context.DeadlineExceeded,
		},
		{
			name: "grandparent expires first, with others in between",
			parent: func(c *retrytest.Clock) (context.Context, context.CancelFunc) {
				grandparent, cancel := c.WithTimeout(context.Background(), time.Second)
				parent, cancelParent := context.WithCancel(context.WithValue(grandparent, key{}, 1))
				return parent, func() { cancelParent(); cancel() }
			},
			child: func(c *retrytest.Clock, parent context.Context) (context.Context, context.CancelFunc) {
				return c.AttemptContext(parent, time.Minute)
			},
			deadline: time.Second,
			then:     func(c *retrytest.Clock, _ context.CancelFunc) { c.Advance(time.Second) },
			err:      context.DeadlineExceeded,
			cause:    context.DeadlineExceeded,
		},
		{
			name: "parent had expired",
			parent: func(c *retrytest.Clock) (context.Context, context.CancelFunc) {
				return c.WithTimeout(context.WithValue(context.Background(), key{}, 1), 0)
			},
			child: func(c *retrytest.Clock, parent context.Context) (context.Context, context.CancelFunc) {
				return c.AttemptContext(parent, time.Minute)
			},
			deadline: 0,
			then:     func(*retrytest.Clock, context.CancelFunc) {},
			err:      context.DeadlineExceeded,
			cause:    context.DeadlineExceeded,
		},
		{
			name: "parent had been canceled",
			parent: func(*retrytest.Clock) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, 1))
				cancel()
				return ctx, cancel
			},
			child: func(c *retrytest.Clock, parent context.Context) (context.Context, context.CancelFunc) {
				return c.AttemptContext(parent, 0)
			},
			deadline: 0,
			then:     func(*retrytest.Clock, context.CancelFunc) {},
			err:      context.Canceled,
			cause:    context.Canceled,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var c retrytest.Clock
			parent, cancelParent := tt.parent(&c)
			defer cancelParent()
			ctx, cancel := tt.child(&c, parent)
			defer cancel()

			deadline, ok := ctx.Deadline()
			assert.True(t, ok)
			assert.Equal(t, tt.deadline, deadline.Sub(start))
			assert.Equal(t, 1, ctx.Value(key{}))

			tt.then(&c, cancel)
			assert.Equal(t, tt.err, ctx.Err())
			assert.Equal(t, tt.cause, context.Cause(ctx))
			select {
			case <-ctx.Done():
				assert.Error(t, tt.err)
			default:
				assert.NoError(t, tt.err)
			}
		})
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
