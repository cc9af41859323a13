package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// countingClock is a Clock with only the two required methods. A wait on it is
// over at once, and advances it.
type countingClock struct {
	now    time.Time
	reads  int
	waited []time.Duration
	before func(d time.Duration) // is called before a wait, if it is there
}

func newCountingClock() *countingClock { return &countingClock{now: firstAttempt} }

func (c *countingClock) Now() time.Time {
	c.reads++
	return c.now
}

func (c *countingClock) After(d time.Duration) <-chan time.Time {
	if c.before != nil {
		c.before(d)
	}
	c.waited = append(c.waited, d)
	c.now = c.now.Add(d)
	over := make(chan time.Time, 1)
	over <- c.now
	return over
}

// sleepyClock prefers SleepContext, and says so.
type sleepyClock struct {
	countingClock
	slept []time.Duration
	err   error // the result of a sleep
}

func (c *sleepyClock) SleepContext(_ context.Context, d time.Duration) error {
	c.slept = append(c.slept, d)
	if c.err == nil {
		c.now = c.now.Add(d)
	}
	return c.err
}

// twice is a policy for three attempts with waits of 1s and 2s.
func twice(c retry.Clock) *retry.Policy {
	return &retry.Policy{Backoff: retry.Exponential{Initial: time.Second}, Jitter: retry.NoJitter, Clock: c}
}

// TestClockSystemTimerIsFresh checks that a timer that is used again does not
// bring an end of an earlier wait with it.
func TestClockSystemTimerIsFresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &retry.Policy{MaxAttempts: 6, Backoff: retry.Schedule{time.Hour, 1, 0, time.Minute, time.Second}, Jitter: retry.NoJitter}
		start := time.Now()
		var at []time.Duration
		_ = p.Execute(t.Context(), func(context.Context) error {
			at = append(at, time.Since(start))
			time.Sleep(3 * time.Hour) // the timer of an earlier wait would have fired
			return errBoom
		})
		const h = time.Hour
		assert.Equal(t, []time.Duration{0, 4 * h, 7*h + 1, 10*h + 1, 13*h + 1 + time.Minute, 16*h + 1 + time.Minute + time.Second}, at)
	})
}

func TestClockTwoMethodsAreEnough(t *testing.T) {
	t.Parallel()
	c := newCountingClock()
	err := twice(c).Execute(t.Context(), failing(nil))
	assert.Equal(t, seconds(1, 2), c.waited)
	assert.Equal(t, 3*time.Second, testkit.As[*retry.Error](t, err).Waited)
	assert.Zero(t, c.reads, "nothing needs the time")
}

// failing returns an operation that fails with errBoom, and calls fn before if
// that is not nil.
func failing(fn func()) func(context.Context) error {
	return func(context.Context) error {
		if fn != nil {
			fn()
		}
		return errBoom
	}
}

// The clock is one of another library, which stands still until it is moved.
func TestClockThatStandsStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.NewMock()
		p := twice(c)
		p.MaxElapsed = time.Minute
		calls := 0
		over := make(chan error, 1)
		go func() { over <- p.Execute(t.Context(), failing(func() { calls++ })) }()
		for _, step := range []struct {
			d     time.Duration
			calls int
		}{{0, 1}, {time.Second - 1, 1}, {1, 2}, {time.Second, 2}, {time.Second - 1, 2}, {1, 3}} {
			synctest.Wait() // until the wait is registered
			c.Add(step.d)
			synctest.Wait()
			assert.Equal(t, step.calls, calls)
		}
		assert.Equal(t, 3*time.Second, testkit.As[*retry.Error](t, <-over).Waited)
	})
}

// TestClockIsNotAskedToWaitForNothing checks that no clock is asked for a wait
// of 0: mocks have panicked and hung on it.
func TestClockIsNotAskedToWaitForNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		p    retry.Policy
		err  error
		want []time.Duration
	}{
		{"no delay", retry.Policy{Backoff: retry.Constant(0)}, errBoom, nil},
		{"some without a delay", retry.Policy{Backoff: retry.Schedule{0, 5, 0, 7}}, errBoom, []time.Duration{5, 7, 7}},
		{"jitter down to nothing", retry.Policy{Jitter: retry.FullJitter, Rand: word(0)}, errBoom, nil},
		{
			"jitter below nothing",
			retry.Policy{Jitter: jitterFunc(func(time.Duration, time.Duration, uint64) time.Duration { return -1 })},
			errBoom, nil,
		},
		{"a negative hint", retry.Policy{Backoff: retry.Constant(0)}, retry.MarkRateLimited(errBoom, -time.Hour), nil},
		{"the shortest hint", retry.Policy{Backoff: retry.Constant(0)}, retry.MarkRateLimited(errBoom, 1), []time.Duration{1, 1, 1, 1, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := tt.p
			p.MaxAttempts = 6
			if p.Jitter == nil {
				p.Jitter = retry.NoJitter
			}
			plain, sleepy := newCountingClock(), &sleepyClock{}
			for _, c := range []retry.Clock{plain, sleepy} {
				p.Clock = c
				e := testkit.As[*retry.Error](t, p.Execute(t.Context(), func(context.Context) error { return tt.err }))
				assert.Equal(t, 6, e.Attempts)
			}
			assert.Equal(t, tt.want, plain.waited)
			assert.Equal(t, tt.want, sleepy.slept)
			assert.Empty(t, sleepy.waited, "After is not for a clock that sleeps")
		})
	}
}

func TestClockSleepContextIsPreferred(t *testing.T) {
	t.Parallel()
	t.Run("a sleep to the end", func(t *testing.T) {
		t.Parallel()
		c := &sleepyClock{}
		err := twice(c).Execute(t.Context(), failing(nil))
		assert.Equal(t, seconds(1, 2), c.slept)
		assert.Empty(t, c.waited)
		assert.Equal(t, 3*time.Second, testkit.As[*retry.Error](t, err).Waited)
	})
	t.Run("it gets the context", func(t *testing.T) {
		t.Parallel()
		c := retrytest.NewClock(firstAttempt)
		ctx, cancel := context.WithCancel(t.Context())
		c.At(2*time.Second, cancel)
		calls := 0
		err := twice(c).Execute(ctx, failing(func() { calls++ }))
		assert.Equal(t, 2, calls)
		assert.Equal(t, time.Second, testkit.As[*retry.Error](t, err).Waited)
		assert.Equal(t, firstAttempt.Add(2*time.Second), c.Now(), "the sleep ended with the context")
	})
	t.Run("a sleep that gives up", func(t *testing.T) {
		t.Parallel()
		c := &sleepyClock{err: errors.New("no sleep tonight")}
		err := twice(c).Execute(t.Context(), failing(nil))
		e := testkit.As[*retry.Error](t, err)
		assert.Equal(t, 3, e.Attempts, "the context is what counts")
		assert.Equal(t, retry.StopAttempts, e.Stop)
		assert.Zero(t, e.Waited)
	})
}

// attemptClock makes the contexts of attempts itself.
type attemptClock struct {
	countingClock
	parents  []context.Context
	timeouts []time.Duration
	canceled int
}

func (c *attemptClock) AttemptContext(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	c.parents, c.timeouts = append(c.parents, ctx), append(c.timeouts, d)
	child, cancel := context.WithCancel(context.WithValue(ctx, testkit.Key{}, len(c.timeouts)))
	return child, func() { c.canceled++; cancel() }
}

func TestClockAttemptContextIsPreferred(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		fn    func() error
		calls int
	}{
		{"failures", func() error { return errBoom }, 3},
		{"success", func() error { return nil }, 1},
		{"a panic", func() error { panic("boom") }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := &attemptClock{}
			p := twice(c)
			p.AttemptTimeout = 7 * time.Second
			ctx := t.Context()
			calls := 0
			testkit.Isolated(func() {
				_ = p.Execute(ctx, func(got context.Context) error {
					calls++
					assert.Equal(t, calls, got.Value(testkit.Key{}), "a context for every attempt")
					assert.Equal(t, calls-1, c.canceled, "that of the attempt before is released")
					return tt.fn()
				})
			})
			require.Equal(t, tt.calls, calls)
			assert.Len(t, c.timeouts, calls)
			assert.Equal(t, calls, c.canceled)
			for i := range calls {
				assert.Equal(t, 7*time.Second, c.timeouts[i])
				assert.Equal(t, ctx, c.parents[i])
			}
		})
	}
	t.Run("no timeout", func(t *testing.T) {
		t.Parallel()
		for _, timeout := range []time.Duration{0, -1} {
			c := &attemptClock{}
			p := twice(c)
			p.AttemptTimeout = timeout
			assert.Error(t, p.Execute(t.Context(), func(got context.Context) error {
				assert.Equal(t, t.Context(), got)
				return errBoom
			}))
			assert.Empty(t, c.timeouts)
		}
	})
}

// TestClockWithoutAttemptContext checks that the system's clock governs the
// timeout of attempts where the policy's cannot.
func TestClockWithoutAttemptContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCountingClock()
		p := twice(c)
		p.AttemptTimeout = 5 * time.Second
		start := time.Now()
		err := p.Execute(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return errBoom
		})
		assert.Equal(t, 15*time.Second, time.Since(start), "three attempts, and no waits")
		assert.Equal(t, 3, testkit.As[*retry.Error](t, err).Attempts)
		assert.Equal(t, seconds(1, 2), c.waited)
	})
}

// untilContext has a deadline that it does not keep.
type untilContext struct {
	context.Context
	deadline time.Time
}

func (c untilContext) Deadline() (time.Time, bool) { return c.deadline, true }

// The methods for drivers of users.
func TestDriverClock(t *testing.T) {
	t.Parallel()
	clock := &retrytest.Clock{}
	p := &retry.Policy{Clock: clock, AttemptTimeout: time.Minute}
	start := p.Now()
	require.NoError(t, p.Sleep(t.Context(), time.Hour))
	assert.Equal(t, start.Add(time.Hour), p.Now())
	require.NoError(t, p.Sleep(t.Context(), 0))
	require.NoError(t, p.Sleep(t.Context(), -1))

	call := retry.Call{Policy: p}
	require.True(t, call.Begin(t.Context()))
	defer call.Abort()
	ctx := call.Context()
	require.ErrorIs(t, p.Sleep(ctx, time.Hour), context.DeadlineExceeded)
	assert.Equal(t, start.Add(time.Hour+time.Minute), p.Now())
	require.ErrorIs(t, p.Sleep(ctx, 0), context.DeadlineExceeded, "done already")

	errStop := errors.New("stop")
	canceled, stop := context.WithCancelCause(t.Context())
	stop(errStop)
	assert.Equal(t, errStop, p.Sleep(canceled, time.Second))

	var none *retry.Policy
	before := time.Now()
	var background context.Context
	require.NoError(t, none.Sleep(background, time.Microsecond), "nil is context.Background")
	assert.False(t, none.Now().Before(before))
}

// asleep is how long the machine of these tests sleeps.
const asleep = 8 * time.Hour

// laptopClock is the clock of a machine that sleeps in the middle of every wait. Now stands
// still meanwhile, as the monotonic clock does by which Go measures; wall goes on.
type laptopClock struct {
	sleepyClock
	wall time.Time
}

func (c *laptopClock) SleepContext(ctx context.Context, d time.Duration) error {
	c.wall = c.wall.Add(asleep + d)
	return c.sleepyClock.SleepContext(ctx, d)
}

// The wait of a call stands still while the machine sleeps, and no limit counts the sleep.
func TestCallOnASleepingMachine(t *testing.T) {
	t.Parallel()
	c := &laptopClock{wall: firstAttempt}
	c.now = firstAttempt
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Hour))
	defer cancel()
	p := &retry.Policy{
		MaxAttempts: 4, MaxElapsed: time.Minute, Timeout: time.Minute, Backoff: retry.Constant(10 * time.Second),
		Jitter: retry.NoJitter, Clock: c,
	}
	var at []time.Duration // since the start, as the machine has run
	err := p.Execute(ctx, func(context.Context) error {
		at = append(at, c.now.Sub(firstAttempt))
		return retry.MarkRateLimited(errBoom, 15*time.Second)
	})
	require.ErrorIs(t, err, retry.StopAttempts)
	assert.Equal(t, []time.Duration{15 * time.Second, 15 * time.Second, 15 * time.Second}, c.slept)
	assert.Equal(t, []time.Duration{0, 15 * time.Second, 30 * time.Second, 45 * time.Second}, at)
	assert.Equal(t, 3*asleep+45*time.Second, c.wall.Sub(firstAttempt))
}

// A stored job goes by the wall clock: it is due when the machine wakes, and its limits of
// time count the sleep.
func TestStoredJobOnASleepingMachine(t *testing.T) {
	t.Parallel()
	fail := errors.New("unavailable")
	for limit, again := range map[time.Duration]bool{0: true, 2 * asleep: true, asleep: false} {
		for _, p := range []*retry.Policy{
			{MaxAttempts: 4, Backoff: retry.Constant(10 * time.Second), MaxElapsed: limit},
			{MaxAttempts: 4, Backoff: retry.Constant(10 * time.Second), Timeout: limit},
		} {
			first := p.Next(retry.State{First: firstAttempt}, fail, firstAttempt)
			require.True(t, first.Retry)
			awake := firstAttempt.Add(asleep + time.Second)
			assert.False(t, first.At.After(awake), "it is due at once")
			assert.Equal(t, again, p.Next(first.State, fail, awake).Retry, "%v", limit)
		}
	}
}
