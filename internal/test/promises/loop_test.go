package promises_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// A wait that the deadline would cut short is not begun.
func TestNoSleepPastDeadline(t *testing.T) {
	t.Parallel()
	for wait, calls := range map[time.Duration]int{time.Minute: 1, time.Second: 1, time.Second - 1: 2} {
		for _, hint := range []time.Duration{0, wait} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				p := exact(wait)
				c := playUnder(ctx, p, func(context.Context, int) error {
					return retry.Mark(testkit.ErrPeer, retry.Verdict{Class: retry.Retryable, After: hint})
				})
				assert.Equal(t, calls, c.calls)
				assert.Equal(t, retry.StopDeadline, c.Stop)
				assert.NoError(t, ctx.Err(), "the context has not ended")
				assert.ErrorIs(t, c.err, context.DeadlineExceeded)
				assert.ErrorIs(t, c.err, testkit.ErrPeer)
			})
		}
	}
}

// Under a dead context nothing is called.
func TestDeadContextNoCall(t *testing.T) {
	t.Parallel()
	cause := errors.New("shut down")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for name, p := range everyWay() {
		c := playUnder(ctx, p, func(context.Context, int) error { return nil })
		assert.Zero(t, c.calls, name)
		assert.Zero(t, c.Attempts, name)
		assert.ErrorIs(t, c.err, cause, name)
		assert.ErrorIs(t, c.err, context.Canceled, name)
	}
}

// riggedClock ends a context at the very moment when a wait is over.
type riggedClock struct {
	cancel context.CancelFunc
	over   chan time.Time
}

func (c riggedClock) Now() time.Time { return epoch }

func (c riggedClock) After(time.Duration) <-chan time.Time {
	c.cancel()
	c.over <- epoch
	return c.over
}

// After a cancellation nothing is called, wherever it comes from.
func TestNoCallAfterCancel(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]func(context.CancelFunc) *retry.Policy{
		"observer": func(cancel context.CancelFunc) *retry.Policy {
			return &retry.Policy{Backoff: retry.Constant(0), Observer: retry.ObserverFunc(func(context.Context, retry.Event) { cancel() })}
		},
		"classifier": func(cancel context.CancelFunc) *retry.Policy {
			return &retry.Policy{Backoff: retry.Constant(0), Classifier: func(error) retry.Verdict { cancel(); return retry.Verdict{Class: retry.Retryable} }}
		},
		"end of the wait": func(cancel context.CancelFunc) *retry.Policy {
			return &retry.Policy{Clock: riggedClock{cancel, make(chan time.Time, 1)}}
		},
	} {
		for range 1000 { // a select that is ready for both is a coin
			ctx, cancel := context.WithCancel(t.Context())
			fn, calls := testkit.Failing(testkit.ErrPeer)
			assert.ErrorIs(t, p(cancel).Execute(ctx, fn), context.Canceled)
			assert.Equal(t, 1, *calls, name)
		}
	}
}

// An attempt that hangs ends after AttemptTimeout and is retried, whatever it makes of its end.
func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	for _, err := range []error{testkit.ErrPeer, context.Canceled, context.DeadlineExceeded} {
		p := &retry.Policy{AttemptTimeout: time.Second, Backoff: retry.Constant(0)}
		c := play(t, p, func(ctx context.Context, _ int, _ context.CancelCauseFunc) error {
			<-ctx.Done()
			return err
		})
		assert.Equal(t, 3, c.calls, "%v", err)
		assert.Equal(t, 3*time.Second, c.took)
		assert.Equal(t, retry.StopAttempts, c.Stop)
	}
}

// The context of the caller is asked before the error.
func TestNothingIsRetryableAfterTheContext(t *testing.T) {
	t.Parallel()
	for name, p := range everyWay() {
		for _, err := range []error{testkit.ErrPeer, retry.MarkRetryable(testkit.ErrPeer), context.DeadlineExceeded, retry.MarkFinal(testkit.ErrPeer)} {
			c := play(t, p, func(_ context.Context, _ int, end context.CancelCauseFunc) error {
				end(nil)
				return err
			})
			assert.Equal(t, 1, c.calls, "%s: %v", name, err)
			assert.Equal(t, retry.StopCanceled, c.Stop, "%s: %v", name, err)
			assert.Equal(t, err, c.Err, name)
		}
	}
}

// Of MaxElapsed and the deadline of the context, the earlier one counts.
func TestTheShorterLimitCounts(t *testing.T) {
	t.Parallel()
	for elapsed, stop := range map[time.Duration]retry.StopReason{5 * time.Second: retry.StopElapsed, time.Hour: retry.StopDeadline} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			p := exact(2 * time.Second)
			p.MaxAttempts, p.MaxElapsed = retry.Unlimited, elapsed
			c := playUnder(ctx, p, func(context.Context, int) error { return testkit.ErrPeer })
			assert.Equal(t, stop, c.Stop)
			assert.Equal(t, min(elapsed, 9*time.Second).Truncate(2*time.Second), c.took)
		})
	}
}

// After the last attempt nobody waits.
func TestNoSleepAfterTheLastAttempt(t *testing.T) {
	t.Parallel()
	c := play(t, exact(time.Minute), always(testkit.ErrPeer))
	assert.Equal(t, 2*time.Minute, c.took)
	assert.Equal(t, 2*time.Minute, c.Waited)
	c = play(t, exact(time.Minute), always(retry.MarkFinal(testkit.ErrPeer)))
	assert.Zero(t, c.took)
}

// No timer, goroutine or context is left, however the operation ends. A bubble fails if it ends
// with goroutines in it.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func() error{
		"success": func() error { return nil }, "failure": func() error { return testkit.ErrPeer },
		"panic": func() error { panic("boom") }, "goexit": func() error { runtime.Goexit(); return nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var last context.Context
			testkit.Isolated(func() {
				p := &retry.Policy{AttemptTimeout: time.Hour, Backoff: retry.Constant(2 * time.Hour)}
				_ = p.Execute(struct{ context.Context }{ctx}, func(ctx context.Context) error {
					last = ctx //nolint:fatcontext // to see its end
					return end()
				})
			})
			assert.Error(t, last.Err(), "%s: the context of the attempt lives on", name)
		})
	}
}

// A limit that nobody has set does not end a call.
func TestNoHiddenElapsedLimit(t *testing.T) {
	t.Parallel()
	p := exact(24 * time.Hour)
	p.MaxAttempts = 50
	c := play(t, p, func(context.Context, int, context.CancelCauseFunc) error {
		time.Sleep(time.Hour)
		return testkit.ErrPeer
	})
	assert.Equal(t, 50, c.calls)
	assert.True(t, p.Next(retry.State{First: epoch}, testkit.ErrPeer, epoch.AddDate(100, 0, 0)).Retry)
}

// MaxElapsed counts from the start of the first attempt, for a stored job too.
func TestElapsedCountsFromTheFirstAttempt(t *testing.T) {
	t.Parallel()
	for took, calls := range map[time.Duration]int{0: 6, time.Second: 3, 4 * time.Second: 2, 6 * time.Second: 1} {
		p := exact(time.Second)
		p.MaxAttempts, p.MaxElapsed = retry.Unlimited, 5*time.Second
		c := play(t, p, func(context.Context, int, context.CancelCauseFunc) error {
			time.Sleep(took)
			return testkit.ErrPeer
		})
		assert.Equal(t, calls, c.calls, "attempts that take %v", took)
		assert.Equal(t, retry.StopElapsed, c.Stop)
		s, n := retry.State{First: epoch}, 1
		for now := epoch.Add(took); ; n++ {
			d := p.Next(s, testkit.ErrPeer, now)
			if s, now = d.State, d.At.Add(took); !d.Retry {
				break
			}
		}
		assert.Equal(t, calls, n, "stored attempts that take %v", took)
	}
}

// noClock is a clock that must not be asked.
type noClock struct{}

func (noClock) Now() time.Time { panic("the clock was read") }

func (noClock) After(time.Duration) <-chan time.Time { panic("a timer was started") }

// A limit is that of a call: nothing starts when the policy is made or looked at.
func TestNothingStartsAtConstruction(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{MaxElapsed: time.Second, AttemptTimeout: time.Hour, Budget: &retry.Budget{}, Clock: noClock{}}
	assert.NotPanics(t, func() {
		_, _ = p.Validate(), p.String()
		_, _ = json.Marshal(p)
		_, _ = p.Bounds(1)
		_ = p.Next(retry.State{Failures: 1}, testkit.ErrPeer, epoch)
		_, _ = p.Exhausted(retry.State{}, epoch)
	})
	limited := exact(3 * time.Second)
	limited.MaxElapsed, limited.MaxAttempts = 10*time.Second, retry.Unlimited
	synctest.Test(t, func(t *testing.T) {
		for range 2 {
			time.Sleep(time.Hour)
			assert.Equal(t, 4, playUnder(t.Context(), limited, func(context.Context, int) error { return testkit.ErrPeer }).calls)
		}
	})
}

// What is compared with MaxElapsed is the wait that is made: with its jitter, and the hint.
func TestElapsedChecksTheRealDelay(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		backoff, hint time.Duration
		word          word
		retry         bool
	}{
		{time.Second, 3 * time.Second, 0, true},
		{time.Second, 10 * time.Second, 0, false},
		{10 * time.Second, 3 * time.Second, 0, true},
		{time.Second, 5*time.Second - 1, ^word(0), true},
		{10 * time.Second, 0, 1 << 60, true},
		{10 * time.Second, 0, 3 << 62, false},
	} {
		p := retry.Policy{MaxElapsed: 5 * time.Second, Backoff: retry.Constant(tt.backoff), Jitter: retry.FullJitter, Rand: tt.word}
		d := p.Decide(retry.State{First: epoch}, retry.Verdict{Class: retry.Retryable, After: tt.hint}, epoch)
		assert.Equal(t, tt.retry, d.Retry, "%+v", tt)
		assert.Equal(t, tt.retry, d.Delay <= 5*time.Second, "%+v", tt)
	}
}

// The cause of a cancellation is reported, beside the last error.
func TestCauseIsReported(t *testing.T) {
	t.Parallel()
	cause := errors.New("the user went away")
	for _, after := range []time.Duration{0, time.Minute} { // during the attempt, and during a wait
		c := play(t, exact(time.Hour), func(_ context.Context, _ int, end context.CancelCauseFunc) error {
			if after == 0 {
				end(cause)
			}
			time.AfterFunc(after, func() { end(cause) })
			return testkit.ErrPeer
		})
		assert.Equal(t, retry.StopCanceled, c.Stop)
		assert.Equal(t, cause, c.Cause)
		assert.Equal(t, after, c.took)
		for _, target := range []error{cause, context.Canceled, testkit.ErrPeer} {
			assert.ErrorIs(t, c.err, target)
		}
	}
}

// hook is a backoff and a jitter that call a function.
type hook func()

func (h hook) Delay(int) time.Duration { h(); return 1 }

func (h hook) Apply(delay, _ time.Duration, _ uint64) time.Duration { h(); return delay }

// Callbacks may use the policy: no lock is held around them.
func TestHooksMayUseThePolicy(t *testing.T) {
	t.Parallel()
	var p retry.Policy
	inner, depth := 0, 0
	again := func() {
		if depth++; depth == 1 {
			_ = p.Execute(context.Background(), func(context.Context) error { return testkit.ErrPeer })
			inner++
		}
		depth--
	}
	p = retry.Policy{
		Backoff: hook(again), Jitter: hook(again), Budget: &retry.Budget{Reserve: 1000},
		Classifier: func(error) retry.Verdict { again(); return retry.Verdict{} },
		Observer:   retry.ObserverFunc(func(context.Context, retry.Event) { again() }),
	}
	c := play(t, &p, always(testkit.ErrPeer)) // a bubble whose goroutines are all blocked fails
	assert.Equal(t, 3, c.calls)
	assert.Positive(t, inner)
}

// The Observer gets the context of the caller, with its values.
func TestHooksGetTheContext(t *testing.T) {
	t.Parallel()
	var seen []any
	p := &retry.Policy{Backoff: retry.Constant(0), AttemptTimeout: time.Hour}
	p.Observer = retry.ObserverFunc(func(ctx context.Context, _ retry.Event) { seen = append(seen, ctx.Value(testkit.Key{})) })
	fn, _ := testkit.Failing(testkit.ErrPeer)
	assert.Error(t, p.Execute(context.WithValue(t.Context(), testkit.Key{}, 7), fn))
	assert.Equal(t, []any{7, 7, 7}, seen)
}
