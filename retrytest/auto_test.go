package retrytest_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

var (
	_ retry.Clock    = (*clock.Mock)(nil)
	_ retrytest.Mock = (*clock.Mock)(nil)
	_ retry.Clock    = (*retrytest.AutoClock)(nil)
)

func TestAuto(t *testing.T) {
	t.Parallel()
	mock := clock.NewMock()
	began := mock.Now()
	auto := retrytest.Auto(mock)
	op := retrytest.Script(errBoom, retry.MarkRetryable(errBoom), errBoom, nil)
	var recorder retrytest.Recorder
	policy := retry.Policy{
		MaxAttempts: 4,
		Backoff:     retry.Schedule{time.Second, 0, time.Minute},
		Jitter:      retry.NoJitter,
		Clock:       auto,
		Observer:    recorder.Observer(),
	}
	require.NoError(t, policy.Execute(t.Context(), op.Run))
	recorder.ExpectWaits(t, time.Second, 0, time.Minute)
	assert.Equal(t, []time.Duration{time.Second, time.Minute}, auto.Sleeps())
	assert.Equal(t, 61*time.Second, mock.Now().Sub(began))
	assert.Equal(t, mock.Now(), auto.Now())
}

func TestAutoHoldsTheTimeThen(t *testing.T) {
	t.Parallel()
	mock := clock.NewMock()
	began := mock.Now()
	auto := retrytest.Auto(mock)
	for _, tt := range []struct {
		d, at time.Duration
	}{
		{time.Hour, time.Hour},
		{0, time.Hour},
		{-time.Hour, time.Hour},
		{1, time.Hour + 1},
	} {
		ch := auto.After(tt.d)
		require.Len(t, ch, 1, "After(%v)", tt.d)
		assert.Equal(t, tt.at, (<-ch).Sub(began), "After(%v)", tt.d)
	}
	assert.Equal(t, []time.Duration{time.Hour, 1}, auto.Sleeps())
	auto.Sleeps()[0] = 0
	assert.Equal(t, []time.Duration{time.Hour, 1}, auto.Sleeps(), "it is a copy")
}

func TestAutoConcurrentWaitsAddUp(t *testing.T) {
	t.Parallel()
	const goroutines, waits = 10, 10
	mock := clock.NewMock()
	began := mock.Now()
	auto := retrytest.Auto(mock)
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range waits {
				<-auto.After(time.Second)
				<-auto.After(0)
			}
		})
	}
	wg.Wait()
	assert.Equal(t, goroutines*waits*time.Second, mock.Now().Sub(began))
	assert.Len(t, auto.Sleeps(), goroutines*waits)
}

// The deadlines of contexts that the mock makes are in its time, which is years
// away from the system's.
func TestAutoWithDeadlineOfMock(t *testing.T) {
	t.Parallel()
	mock := clock.NewMock()
	ctx, cancel := mock.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var recorder retrytest.Recorder
	policy := retry.Policy{Jitter: retry.NoJitter, Clock: retrytest.Auto(mock), Observer: recorder.Observer()}
	err := policy.Execute(ctx, retrytest.Script(errBoom, errBoom, nil).Run)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	recorder.Expect(t, "1: boom: retry in 2s", "2: gave up (deadline): boom")
}

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

// observing has an Observer.
type observing interface{ Observer() *retry.Observer }

// several are the Observers of several.
type several []observing

func (s several) Observer() *retry.Observer {
	all := retry.Observers()
	for _, o := range s {
		all = retry.Observers(all, o.Observer())
	}
	return all
}

// layers wraps op in policies of three attempts each, with these Observers from the
// outermost to the innermost. Each retries the error of the next one that gave up.
func layers(op func(context.Context) error, observers ...observing) func(context.Context) error {
	for _, observer := range slices.Backward(observers) {
		var o *retry.Observer
		if observer != nil {
			o = observer.Observer()
		}
		p := &retry.Policy{Backoff: retry.Constant(0), Observer: o, Classifier: func(error) retry.Verdict {
			return retry.Verdict{Class: retry.Retryable}
		}}
		inner := op
		op = func(ctx context.Context) error { return p.Execute(ctx, inner) }
	}
	return op
}

func TestNesting(t *testing.T) {
	t.Parallel()
	errDown := errors.New("down")
	down := func(context.Context) error { return errDown }
	for _, test := range []struct {
		name string
		run  func(*retrytest.Nesting) error
		want []int
	}{
		{"three layers", func(n *retrytest.Nesting) error { return layers(down, n, n, n)(t.Context()) }, []int{3, 3, 3}},
		{"one layer", func(n *retrytest.Nesting) error { return layers(down, n)(t.Context()) }, nil},
		{"one after the other", func(n *retrytest.Nesting) error {
			return errors.Join(layers(down, n)(t.Context()), layers(down, n)(t.Context()))
		}, nil},
		{"the innermost is in a library", func(n *retrytest.Nesting) error { return layers(down, n, n, nil)(t.Context()) }, []int{3, 3, 3}},
		{"two are in a library", func(n *retrytest.Nesting) error { return layers(down, n, nil, nil)(t.Context()) }, []int{3, 3, 3}},
		{"the middle is in a library", func(n *retrytest.Nesting) error { return layers(down, n, nil, n)(t.Context()) }, []int{3, 3, 3}},
		{"the outermost is in a library", func(n *retrytest.Nesting) error { return layers(down, nil, n, n)(t.Context()) }, []int{3, 3}},
		{"all are in libraries", func(n *retrytest.Nesting) error { return layers(down, nil, nil, nil)(t.Context()) }, nil},
		{"with other observers", func(n *retrytest.Nesting) error {
			both := several{&retrytest.Recorder{}, n, &retrytest.Nesting{}}
			return layers(down, both, both)(t.Context())
		}, []int{3, 3}},
		{"inner successes", func(n *retrytest.Nesting) error {
			calls := 0
			inner := layers(func(context.Context) error {
				if calls++; calls%3 != 0 {
					return errDown
				}
				return nil
			}, n)
			return layers(func(ctx context.Context) error {
				_ = inner(ctx)
				return errDown // of the rest of the attempt
			}, n)(t.Context())
		}, []int{3, 3}},
		{"another context", func(n *retrytest.Nesting) error {
			inner := layers(down, n)
			return layers(func(context.Context) error { return inner(t.Context()) }, n)(t.Context())
		}, []int{3, 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var n retrytest.Nesting
			require.ErrorIs(t, test.run(&n), errDown)
			assert.Equal(t, test.want, n.Attempts())
			product := 1
			for _, attempt := range test.want {
				product *= attempt
			}
			if test.want == nil {
				product = 0
			}
			assert.Equal(t, product, n.Product())
		})
	}
}

// What is seen of an inner policy without a retry: one attempt in one attempt.
func TestNestingOfSuccess(t *testing.T) {
	t.Parallel()
	var n retrytest.Nesting
	require.NoError(t, layers(func(context.Context) error { return nil }, &n, &n, &n)(t.Context()))
	assert.Equal(t, []int{1, 1, 1}, n.Attempts())
}

// Attempts at the same time are not mixed.
func TestNestingConcurrently(t *testing.T) {
	t.Parallel()
	var n retrytest.Nesting
	boom := errors.New("boom")
	inner := layers(func(context.Context) error { return boom }, &n)
	outer := layers(func(ctx context.Context) error {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { assert.Error(t, inner(ctx)) })
		}
		wg.Wait()
		return boom
	}, &n)
	require.Error(t, outer(t.Context()))
	assert.Equal(t, []int{3, 3}, n.Attempts())
}
