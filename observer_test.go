package retry_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func TestObservers(t *testing.T) {
	t.Parallel()
	var told []string
	named := func(name string) retry.Observer {
		return retry.ObserverFunc(func(ctx context.Context, e retry.Event) {
			assert.Equal(t, t.Context(), ctx)
			assert.Equal(t, 7, e.Attempt)
			told = append(told, name)
		})
	}
	tests := []struct {
		name string
		o    retry.Observer
		want []string
	}{
		{"none", retry.Observers(), nil},
		{"nil only", retry.Observers(nil, nil), nil},
		{"one", retry.Observers(named("a")), []string{"a"}},
		{"in order", retry.Observers(named("a"), named("b"), named("c")), []string{"a", "b", "c"}},
		{"nil among them", retry.Observers(nil, named("a"), nil, named("b"), nil), []string{"a", "b"}},
		{"one in another", retry.Observers(named("a"), retry.Observers(named("b"), nil), named("c")), []string{"a", "b", "c"}},
		{"one twice", retry.Observers(named("a"), named("a")), []string{"a", "a"}},
	}
	for _, tt := range tests {
		told = nil
		require.NotNil(t, tt.o, tt.name)
		tt.o.Observe(t.Context(), retry.Event{Attempt: 7})
		assert.Equal(t, tt.want, told, tt.name)
	}
}

// TestObserverCancels checks a call whose context the Observer ends.
func TestObserverCancels(t *testing.T) {
	t.Parallel()
	errCause := errors.New("enough")
	canceled := &retry.Error{
		Attempts: 1, Stop: retry.StopCanceled, Err: errBoom, Cause: errCause,
		State: retry.State{Failures: 1, First: firstAttempt},
	}
	tests := map[string]struct {
		outcome, err error
		want         []string // the timeline
	}{
		"before a wait":    {errBoom, canceled, []string{"1: boom: retry in 2s", "1: gave up (canceled): boom"}},
		"at a success":     {nil, nil, []string{"1: succeeded"}},
		"at a final error": {errFinalMark, errFinalMark, []string{"1: gave up (final): bad request"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			c, events := retrytest.NewClock(firstAttempt), &retrytest.Recorder{}
			hook := retry.ObserverFunc(func(context.Context, retry.Event) { cancel(errCause) })
			p := &retry.Policy{Jitter: retry.NoJitter, Clock: c, Observer: retry.Observers(hook, events)}
			assert.Equal(t, tt.err, p.Execute(ctx, retrytest.Script(tt.outcome).Run))
			events.Expect(t, tt.want...)
			assert.Empty(t, c.Sleeps())
		})
	}
}

// counter is an Observer that counts the waits.
type counter struct {
	retry.ObserverFunc

	waits atomic.Int32
}

func (c *counter) Wait(string) func() {
	c.waits.Add(1)
	return func() { c.waits.Add(-1) }
}

// TestWaits counts the calls that wait, on a clock that stands still.
func TestWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{ObserverFunc: func(context.Context, retry.Event) {}}
		clock := &testkit.Stuck{Over: make(chan time.Time)}
		p := &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(time.Nanosecond), Clock: clock, Observer: retry.Observers(nil, c, c.ObserverFunc)}
		ctx, cancel := context.WithCancel(t.Context())
		run := func(ctx context.Context) { _ = p.Execute(ctx, func(context.Context) error { return errBoom }) }
		loop := func(ctx context.Context) {
			for call := (&retry.Call{Policy: p}); call.Next(ctx); {
				call.End(errBoom)
			}
		}
		for range 10 {
			go run(t.Context())
			go loop(ctx)
		}
		synctest.Wait()
		assert.EqualValues(t, 20, c.waits.Load())
		cancel()
		synctest.Wait()
		assert.EqualValues(t, 10, c.waits.Load())
		close(clock.Over)
		synctest.Wait()
		assert.Zero(t, c.waits.Load())

		clock.Panics.Store(true)
		assert.Panics(t, func() { run(t.Context()) })
		assert.Zero(t, c.waits.Load())
		job := &retryjob.Stored{Policy: p}
		require.Equal(t, retryjob.Again, job.Attempt(t.Context(), func(context.Context) error { return errBoom }))
		assert.Zero(t, c.waits.Load(), "it waits elsewhere")
		assert.Nil(t, retry.Observers().(interface{ Wait(policy string) func() }).Wait(""))
	})
}
