package promises_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// everyWay are policies that take every way through the loop: each has
// something else that has to happen around an attempt.
func everyWay() map[string]*retry.Policy {
	return map[string]*retry.Policy{
		"nil":             nil,
		"zero":            {},
		"unlimited":       {MaxAttempts: retry.Unlimited},
		"attempt timeout": {AttemptTimeout: time.Hour},
		"max elapsed":     {MaxElapsed: time.Hour},
		"observer":        {Observer: retry.ObserverFunc(func(context.Context, retry.Event) {})},
		"budget":          {Budget: &retry.Budget{}},
		"classifier":      {Classifier: retry.On(retry.Retryable, testkit.ErrPeer)},
		"no delay":        {Backoff: retry.Constant(0)},
	}
}

// T-06.
func TestNoSleepPastDeadline(t *testing.T) {
	t.Parallel()
	const deadline = 300 * time.Millisecond
	waits := func(d time.Duration) *retry.Policy {
		return &retry.Policy{Backoff: retry.Constant(d), Jitter: retry.NoJitter, MaxAttempts: 2}
	}
	attemptTimeout, observed := *waits(10 * time.Second), *waits(10 * time.Second)
	attemptTimeout.AttemptTimeout = time.Hour
	observed.Observer = retry.Observers()
	tests := []struct {
		name  string
		p     *retry.Policy
		err   error
		calls int
	}{
		{"a long delay", waits(10 * time.Second), testkit.ErrPeer, 1},
		{"with an attempt timeout", &attemptTimeout, testkit.ErrPeer, 1},
		{"with an observer", &observed, testkit.ErrPeer, 1},
		{"a delay to the deadline", waits(deadline), testkit.ErrPeer, 1},
		{"a delay to just before the deadline", waits(deadline - 1), testkit.ErrPeer, 2},
		{"a hint", waits(0), retry.MarkRateLimited(testkit.ErrPeer, 10*time.Second), 1},
		{"a hint to the deadline", waits(0), retry.MarkRateLimited(testkit.ErrPeer, deadline), 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				defer cancel()
				start := time.Now()
				fn, calls := testkit.Failing(tt.err)
				err := tt.p.Execute(ctx, fn)
				assert.Equal(t, tt.calls, *calls)
				assert.ErrorIs(t, err, testkit.ErrPeer)
				if tt.calls == 2 {
					assert.ErrorIs(t, err, retry.StopAttempts)
					assert.Equal(t, deadline-1, time.Since(start))
					return
				}
				assert.Zero(t, time.Since(start))
				require.NoError(t, ctx.Err(), "the context has not ended")
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, retry.StopDeadline, testkit.As[*retry.Error](t, err).Stop)
				assert.ErrorContains(t, err, "deadline")

				d := decided(tt.p, ctx, tt.err)
				assert.False(t, d.Retry)
				assert.Equal(t, retry.StopDeadline, d.Stop)
			})
		})
	}
}

// T-07.
func TestDeadContextNoCall(t *testing.T) {
	t.Parallel()
	cause := errors.New("shut down")
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	expired, cancelExpired := context.WithDeadline(t.Context(), time.Unix(1, 0))
	t.Cleanup(cancelExpired)
	for name, p := range everyWay() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, ctx := range []context.Context{canceled, expired} {
				fn, calls := testkit.Failing(nil)
				err := p.Execute(ctx, fn)
				_, doErr := retry.Do(ctx, p, func(ctx context.Context) (int, error) { return 1, fn(ctx) })
				assert.Zero(t, *calls)
				assert.Equal(t, err, doErr)
				e := testkit.As[*retry.Error](t, err)
				assert.Zero(t, e.Attempts)
				assert.NoError(t, e.Err)
				assert.ErrorIs(t, err, ctx.Err())
				assert.ErrorIs(t, err, context.Cause(ctx))
				assert.ErrorContains(t, err, "not started")
			}
		})
	}
}

// peerRiggedClock ends its context at the very moment when a wait is over.
type peerRiggedClock struct {
	cancel context.CancelFunc
	over   chan time.Time
}

func (c *peerRiggedClock) Now() time.Time { return time.Unix(0, 0) }

func (c *peerRiggedClock) After(time.Duration) <-chan time.Time {
	c.cancel()
	c.over <- time.Unix(0, 0)
	return c.over
}

// T-08.
func TestNoCallAfterCancel(t *testing.T) {
	t.Parallel()
	const runs = 10_000
	ignore := func(context.Context, retry.Event) {}
	tests := []struct {
		name string
		// policy returns a policy and the operation to run under it, one of
		// which cancels.
		policy func(cancel context.CancelFunc) (retry.Policy, func())
	}{
		{"in fn", func(cancel context.CancelFunc) (retry.Policy, func()) {
			return retry.Policy{Backoff: retry.Constant(0)}, cancel
		}},
		{"in fn with an attempt timeout", func(cancel context.CancelFunc) (retry.Policy, func()) {
			return retry.Policy{Backoff: retry.Constant(0), AttemptTimeout: time.Hour}, cancel
		}},
		{"in fn with an observer", func(cancel context.CancelFunc) (retry.Policy, func()) {
			return retry.Policy{Backoff: retry.Constant(0), Observer: retry.ObserverFunc(ignore)}, cancel
		}},
		{"in the observer", func(cancel context.CancelFunc) (retry.Policy, func()) {
			return retry.Policy{Backoff: retry.Constant(0), Observer: retry.ObserverFunc(func(context.Context, retry.Event) { cancel() })}, func() {}
		}},
		{"in the observer before a wait", func(cancel context.CancelFunc) (retry.Policy, func()) {
			return retry.Policy{Backoff: retry.Constant(1), Observer: retry.ObserverFunc(func(context.Context, retry.Event) { cancel() })}, func() {}
		}},
		{"in the classifier", func(cancel context.CancelFunc) (retry.Policy, func()) {
			return retry.Policy{Backoff: retry.Constant(0), Classifier: func(error) retry.Verdict { cancel(); return retry.Verdict{Class: retry.Retryable} }}, func() {}
		}},
		{"at the end of the wait", func(cancel context.CancelFunc) (retry.Policy, func()) {
			return retry.Policy{Backoff: retry.Constant(time.Second), Clock: &peerRiggedClock{cancel, make(chan time.Time, 1)}}, func() {}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, attempts := range []int{0, retry.Unlimited} {
				late := 0
				for range runs / 2 {
					ctx, cancel := context.WithCancel(t.Context())
					p, during := tt.policy(cancel)
					p.MaxAttempts = attempts
					_ = p.Execute(ctx, func(context.Context) error {
						if ctx.Err() != nil {
							late++
						}
						during()
						return testkit.ErrPeer
					})
					require.Error(t, ctx.Err())
				}
				assert.Zero(t, late, "calls of a canceled operation")
			}
		})
	}
	t.Run("timer and cancellation ready together", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			late := 0
			for range runs {
				parent, cancel := context.WithCancel(t.Context())
				ctx := &peerRiggedContext{Context: parent, cancel: cancel}
				p := &retry.Policy{
					Backoff:  retry.Constant(time.Second),
					Jitter:   retry.NoJitter,
					Observer: retry.ObserverFunc(func(context.Context, retry.Event) { ctx.armed = true }),
				}
				err := p.Execute(ctx, func(context.Context) error {
					if parent.Err() != nil {
						late++
					}
					return testkit.ErrPeer
				})
				require.Error(t, err)
				require.Error(t, parent.Err())
			}
			assert.Zero(t, late, "calls of a canceled operation")
		})
	})
}

// peerRiggedContext ends when it is waited for after it was armed, but not
// before a timer of a second that is waited for beside it has fired.
type peerRiggedContext struct {
	context.Context
	cancel context.CancelFunc
	armed  bool
}

func (c *peerRiggedContext) Done() <-chan struct{} {
	if c.armed {
		c.armed = false
		time.Sleep(2 * time.Second)
		c.cancel()
	}
	return c.Context.Done()
}

// T-11.
func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	t.Run("fn gets the context", func(t *testing.T) {
		t.Parallel()
		ctx := context.WithValue(t.Context(), testkit.Key{}, "value")
		for name, p := range everyWay() {
			err := p.Execute(ctx, func(ctx context.Context) error {
				assert.Equal(t, "value", ctx.Value(testkit.Key{}), name)
				return nil
			})
			assert.NoError(t, err, name)
		}
	})

	// Whatever a hung attempt makes of its end, it was a timeout.
	ways := map[string]func(ctx context.Context) error{
		"its context's error":    func(ctx context.Context) error { return ctx.Err() },
		"its context's cause":    context.Cause,
		"a wrapped error":        func(ctx context.Context) error { return fmt.Errorf("call: %w", ctx.Err()) },
		"another error":          func(context.Context) error { return testkit.ErrPeer },
		"an error that is final": func(context.Context) error { return context.Canceled },
	}
	for name, end := range ways {
		t.Run("a hung attempt returns "+name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var verdicts []retry.Verdict
				p := &retry.Policy{
					AttemptTimeout: time.Second,
					Backoff:        retry.Constant(0),
					Observer: retry.ObserverFunc(func(_ context.Context, e retry.Event) {
						verdicts = append(verdicts, e.Verdict)
					}),
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				start, calls := time.Now(), 0
				err := p.Execute(ctx, func(ctx context.Context) error {
					calls++
					<-ctx.Done()
					return end(ctx)
				})
				assert.Equal(t, 3, calls)
				assert.Equal(t, 3*time.Second, time.Since(start))
				assert.Equal(t, retry.StopAttempts, testkit.As[*retry.Error](t, err).Stop)
				for _, v := range verdicts {
					assert.Equal(t, retry.Verdict{Class: retry.Retryable, Category: "timeout"}, v)
				}
			})
		})
	}
	t.Run("a late success", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := &retry.Policy{AttemptTimeout: time.Second}
			assert.NoError(t, p.Execute(t.Context(), func(context.Context) error {
				time.Sleep(time.Minute)
				return nil
			}))
		})
	})
	t.Run("a failure within the time", func(t *testing.T) {
		t.Parallel()
		p := &retry.Policy{AttemptTimeout: time.Hour}
		fn, calls := testkit.Failing(context.Canceled)
		assert.Equal(t, context.Canceled, p.Execute(t.Context(), fn))
		assert.Equal(t, 1, *calls)
	})
	t.Run("the caller's context ends first", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			p := &retry.Policy{AttemptTimeout: time.Minute, Backoff: retry.Constant(0)}
			calls := 0
			err := p.Execute(ctx, func(ctx context.Context) error {
				calls++
				<-ctx.Done()
				return ctx.Err()
			})
			assert.Equal(t, 1, calls)
			assert.Equal(t, retry.StopDeadline, testkit.As[*retry.Error](t, err).Stop)
		})
	})
}

// T-59.
func TestNothingIsRetryableAfterTheContext(t *testing.T) {
	t.Parallel()
	errs := map[string]error{
		"unknown":             testkit.ErrPeer,
		"marked retryable":    retry.MarkRetryable(testkit.ErrPeer),
		"marked rate limited": retry.MarkRateLimited(testkit.ErrPeer, 1),
		"marked final":        retry.MarkFinal(testkit.ErrPeer),
		"deadline exceeded":   context.DeadlineExceeded,
		"canceled":            context.Canceled,
		"timeout":             os.ErrDeadlineExceeded,
		"net":                 &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded},
		"inner deadline":      &retry.Error{Stop: retry.StopDeadline, Err: testkit.ErrPeer},
		"lost":                retry.ErrLost,
	}
	for name, opErr := range errs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for name, p := range everyWay() {
				ctx, cancel := context.WithCancel(t.Context())
				calls := 0
				err := p.Execute(ctx, func(context.Context) error {
					calls++
					cancel()
					return opErr
				})
				assert.Equal(t, 1, calls, name)
				require.ErrorAs(t, err, new(*retry.Error), name)
				var e *retry.Error
				errors.As(err, &e)
				assert.Equal(t, retry.StopCanceled, e.Stop, name)
				assert.Equal(t, opErr, e.Err, name)
				assert.ErrorIs(t, err, context.Canceled, name)

				d := decided(p, ctx, opErr)
				assert.False(t, d.Retry, name)
				assert.Equal(t, retry.StopCanceled, d.Stop, name)
			}
		})
	}
}

// T-60.
func TestTheShorterLimitCounts(t *testing.T) {
	t.Parallel()
	const second = time.Second
	tests := []struct {
		name              string
		elapsed, deadline time.Duration
		calls             int
		stop              retry.StopReason
	}{
		{"elapsed first", 5 * second, 10 * second, 3, retry.StopElapsed},
		{"deadline first", 10 * second, 5 * second, 3, retry.StopDeadline},
		{"elapsed much shorter", second, time.Hour, 1, retry.StopElapsed},
		{"deadline much shorter", time.Hour, second, 1, retry.StopDeadline},
		{"no deadline", 5 * second, 0, 3, retry.StopElapsed},
		{"no elapsed", 0, 5 * second, 3, retry.StopDeadline},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tt.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.deadline)
					defer cancel()
				}
				p := &retry.Policy{
					MaxAttempts: retry.Unlimited,
					MaxElapsed:  tt.elapsed,
					Backoff:     retry.Constant(2 * second),
					Jitter:      retry.NoJitter,
				}
				start := time.Now()
				fn, calls := testkit.Failing(testkit.ErrPeer)
				err := p.Execute(ctx, fn)
				assert.Equal(t, tt.calls, *calls)
				assert.Equal(t, tt.stop, testkit.As[*retry.Error](t, err).Stop)
				assert.Equal(t, time.Duration(tt.calls-1)*2*second, time.Since(start))
			})
		})
	}
	attempts := []struct {
		name              string
		timeout, deadline time.Duration
	}{
		{"attempt timeout first", second, time.Hour},
		{"deadline before the attempt timeout", time.Hour, second},
	}
	for _, tt := range attempts {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
				defer cancel()
				p := &retry.Policy{AttemptTimeout: tt.timeout}
				assert.NoError(t, p.Execute(ctx, func(ctx context.Context) error {
					deadline, ok := ctx.Deadline()
					assert.True(t, ok)
					assert.Equal(t, second, time.Until(deadline))
					return nil
				}))
			})
		})
	}
}

// T-24.
func TestNoSleepAfterTheLastAttempt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		attempts int
		err      error
		want     time.Duration
	}{
		{"three attempts", 3, testkit.ErrPeer, 2 * time.Minute},
		{"one attempt", 1, testkit.ErrPeer, 0},
		{"final", 3, retry.MarkFinal(testkit.ErrPeer), 0},
		{"hinted", 2, retry.MarkRateLimited(testkit.ErrPeer, time.Minute), time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &retry.Policy{MaxAttempts: tt.attempts, Backoff: retry.Constant(time.Minute), Jitter: retry.NoJitter, Rand: constantWord(0)}
				start := time.Now()
				fn, _ := testkit.Failing(tt.err)
				err := p.Execute(t.Context(), fn)
				assert.ErrorIs(t, err, testkit.ErrPeer)
				assert.Equal(t, tt.want, time.Since(start))
				var e *retry.Error
				if errors.As(err, &e) {
					assert.Equal(t, tt.want, e.Waited)
				}
			})
		})
	}
}

// peerForeign is a context of a type that package context does not know, for
// which it starts a goroutine per child that is not canceled.
type peerForeign struct{ context.Context }

func (c peerForeign) Done() <-chan struct{} { return c.Context.Done() }

func (c peerForeign) Value(any) any { return nil }

// T-29.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	type operation func(ctx context.Context, cancel context.CancelFunc, attempt int) error
	ends := []struct {
		name string
		p    retry.Policy
		fn   operation
	}{
		{"success", retry.Policy{}, func(context.Context, context.CancelFunc, int) error { return nil }},
		{"success after waits", retry.Policy{}, func(_ context.Context, _ context.CancelFunc, attempt int) error {
			if attempt == 3 {
				return nil
			}
			return testkit.ErrPeer
		}},
		{"attempts", retry.Policy{}, func(context.Context, context.CancelFunc, int) error { return testkit.ErrPeer }},
		{"final", retry.Policy{}, func(context.Context, context.CancelFunc, int) error { return retry.MarkFinal(testkit.ErrPeer) }},
		{"canceled in fn", retry.Policy{}, func(_ context.Context, cancel context.CancelFunc, _ int) error { cancel(); return testkit.ErrPeer }},
		{"canceled in a wait", retry.Policy{Backoff: retry.Constant(time.Hour)}, func(_ context.Context, cancel context.CancelFunc, _ int) error {
			time.AfterFunc(time.Minute, cancel)
			return testkit.ErrPeer
		}},
		{"hung attempts", retry.Policy{}, func(ctx context.Context, _ context.CancelFunc, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		}},
		{"panic", retry.Policy{}, func(context.Context, context.CancelFunc, int) error { panic("boom") }},
		{"goexit", retry.Policy{}, func(context.Context, context.CancelFunc, int) error { runtime.Goexit(); return nil }},
	}
	for _, tt := range ends {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// A bubble fails if it ends with goroutines left in it. Nobody
			// cancels the caller's context here but the operation.
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background()) // t.Context() is canceled at the end
				p := tt.p
				p.AttemptTimeout = 2 * time.Hour
				var attempts []context.Context
				testkit.Isolated(func() {
					_ = p.Execute(peerForeign{ctx}, func(ctx context.Context) error {
						attempts = append(attempts, ctx)
						return tt.fn(ctx, cancel, len(attempts))
					})
				})
				assert.NotEmpty(t, attempts)
				for _, attempt := range attempts {
					assert.Error(t, attempt.Err(), "the context of an attempt lives on, and its timer")
				}
			})
		})
	}
	t.Run("no goroutine while it waits", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			for _, timeout := range []time.Duration{0, time.Minute} {
				go func() {
					p := &retry.Policy{Backoff: retry.Constant(time.Hour), AttemptTimeout: timeout}
					_ = p.Execute(ctx, func(context.Context) error { return testkit.ErrPeer })
				}()
			}
			synctest.Wait()
			all := make([]byte, 1<<22)
			all = all[:runtime.Stack(all, true)]
			assert.Contains(t, string(all), "created by github.com/seed-5ff3c98e/retry/internal/test/promises_test.")
			assert.NotContains(t, string(all), "created by github.com/seed-5ff3c98e/retry.")
			cancel()
		})
	})
}

// T-02.
func TestNoHiddenElapsedLimit(t *testing.T) {
	t.Parallel()
	const attempts = 10
	tests := []struct {
		name string
		p    retry.Policy
		took time.Duration // by an attempt
		err  error
	}{
		{"long attempts", retry.Policy{}, 20 * time.Minute, testkit.ErrPeer},
		{"long waits", retry.Policy{Backoff: retry.Constant(24 * time.Hour)}, 0, testkit.ErrPeer},
		{"long hints", retry.Policy{MaxRetryAfter: time.Hour}, 0, retry.MarkRateLimited(testkit.ErrPeer, 30*time.Minute)},
		{"negative limit", retry.Policy{MaxElapsed: -1}, time.Hour, testkit.ErrPeer},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, calls := tt.p, 0
				p.MaxAttempts = attempts
				err := p.Execute(t.Context(), func(context.Context) error {
					calls++
					time.Sleep(tt.took)
					return tt.err
				})
				assert.Equal(t, attempts, calls)
				assert.ErrorIs(t, err, retry.StopAttempts)
			})
			begun := time.Unix(0, 0)
			if tt.p.MaxElapsed == 0 {
				d := tt.p.Next(retry.State{First: begun}, tt.err, begun.AddDate(100, 0, 0))
				assert.True(t, d.Retry, "a century later")
			}
		})
	}
}

// T-03.
func TestElapsedCountsFromTheFirstAttempt(t *testing.T) {
	t.Parallel()
	const second = time.Second
	tests := []struct {
		name  string
		took  time.Duration // by an attempt
		calls int
	}{
		{"short attempts", 0, 6},
		{"an attempt starts at the limit", 4 * second, 2},
		{"the first attempt takes longer", 6 * second, 1},
		{"attempts count", 1 * second, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var last retry.Event
				p := &retry.Policy{
					MaxAttempts: retry.Unlimited,
					MaxElapsed:  5 * second,
					Backoff:     retry.Constant(second),
					Jitter:      retry.NoJitter,
					Observer:    retry.ObserverFunc(func(_ context.Context, e retry.Event) { last = e }),
				}
				start, calls := time.Now(), 0
				err := p.Execute(t.Context(), func(context.Context) error {
					assert.LessOrEqual(t, time.Since(start), 5*second)
					calls++
					time.Sleep(tt.took)
					return testkit.ErrPeer
				})
				assert.Equal(t, tt.calls, calls)
				assert.ErrorIs(t, err, retry.StopElapsed)
				assert.Equal(t, time.Since(start), last.Elapsed)

				// A stored job is decided alike.
				s, now := retry.State{First: start}, start
				for n := 1; ; n++ {
					now = now.Add(tt.took)
					d := p.Next(s, testkit.ErrPeer, now)
					if !d.Retry {
						assert.Equal(t, tt.calls, n)
						assert.Equal(t, retry.StopElapsed, d.Stop)
						break
					}
					s, now = d.State, d.At
				}
			})
		})
	}
}

// peerNoClock is a clock that must not be asked.
type peerNoClock struct{}

func (peerNoClock) Now() time.Time { panic("the clock was read") }

func (peerNoClock) After(time.Duration) <-chan time.Time { panic("a timer was started") }

// T-30.
func TestNothingStartsAtConstruction(t *testing.T) {
	t.Parallel()
	t.Run("limits are those of a call", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := &retry.Policy{
				MaxAttempts:    retry.Unlimited,
				MaxElapsed:     10 * time.Second,
				AttemptTimeout: time.Minute,
				Backoff:        retry.Constant(3 * time.Second),
				Jitter:         retry.NoJitter,
				Budget:         &retry.Budget{Reserve: 100},
			}
			require.NoError(t, p.Validate())
			for range 3 {
				time.Sleep(time.Hour)
				fn, calls := testkit.Failing(testkit.ErrPeer)
				assert.ErrorIs(t, p.Execute(t.Context(), fn), retry.StopElapsed)
				assert.Equal(t, 4, *calls)
			}
		})
	})
	t.Run("the clock is not read", func(t *testing.T) {
		t.Parallel()
		p := retry.Policy{MaxElapsed: time.Hour, AttemptTimeout: time.Hour, Budget: &retry.Budget{}, Clock: peerNoClock{}}
		assert.NotPanics(t, func() {
			_ = p.Validate()
			_ = p.String()
			_, _ = json.Marshal(p)
			_, _ = p.Bounds(1)
			_ = p.Delay(retry.State{Failures: 1})
			_ = p.Classify(testkit.ErrPeer)
			_ = p.Next(retry.State{}, testkit.ErrPeer, time.Unix(0, 0))
			_ = p.Decide(retry.State{}, retry.Verdict{}, time.Unix(0, 0))
			_, _ = p.Exhausted(retry.State{}, time.Unix(0, 0))
		})
	})
}

// T-69.
func TestElapsedChecksTheRealDelay(t *testing.T) {
	t.Parallel()
	const limit = 5 * time.Second
	begun := time.Unix(1000, 0)
	tests := []struct {
		name    string
		backoff time.Duration
		jitter  retry.Jitter
		word    constantWord
		hint    time.Duration
		want    time.Duration // 0 means stop
	}{
		{"hint within", time.Second, retry.NoJitter, 0, 3 * time.Second, 3 * time.Second},
		{"hint beyond, backoff within", time.Second, retry.NoJitter, 0, 10 * time.Second, 0},
		{"hint within, backoff beyond", 10 * time.Second, retry.NoJitter, 0, 3 * time.Second, 3 * time.Second},
		{"hint to the limit", time.Second, retry.NoJitter, 0, limit, limit},
		{"spread cut at the limit", time.Second, retry.NoJitter, ^constantWord(0), limit - 1, limit},
		{"jitter within", 10 * time.Second, retry.FullJitter, 1 << 60, 0, 625 * time.Millisecond},
		{"jitter beyond", 10 * time.Second, retry.FullJitter, 3 << 62, 0, 0},
		{"backoff to the limit", limit, retry.NoJitter, 0, 0, limit},
		{"backoff beyond", limit + 1, retry.NoJitter, 0, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := retry.Policy{
				MaxAttempts: 2, MaxElapsed: limit, Backoff: retry.Constant(tt.backoff), Jitter: tt.jitter, Rand: tt.word,
			}
			v := retry.Verdict{Class: retry.Retryable, After: tt.hint}
			d := p.Decide(retry.State{First: begun}, v, begun)
			if tt.want == 0 {
				assert.Equal(t, retry.StopElapsed, d.Stop)
				assert.Greater(t, d.Delay, limit)
			} else {
				require.True(t, d.Retry)
				assert.InDelta(t, tt.want, d.Delay, 1)
				assert.LessOrEqual(t, d.Delay, limit)
			}

			// The loop sleeps what was checked.
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := p.Execute(t.Context(), func(context.Context) error { return retry.Mark(testkit.ErrPeer, v) })
				e := testkit.As[*retry.Error](t, err)
				assert.Equal(t, time.Since(start), e.Waited)
				if tt.want == 0 {
					assert.Zero(t, e.Waited)
					assert.Equal(t, retry.StopElapsed, e.Stop)
				} else {
					assert.Equal(t, d.Delay, e.Waited)
				}
			})
		})
	}
}

// T-44.
func TestCauseIsReported(t *testing.T) {
	t.Parallel()
	cause := errors.New("the user went away")
	check := func(t *testing.T, err error, stop retry.StopReason, end error) {
		t.Helper()
		e := testkit.As[*retry.Error](t, err)
		assert.Equal(t, stop, e.Stop)
		assert.Equal(t, cause, e.Cause)
		assert.ErrorIs(t, err, cause)
		assert.ErrorIs(t, err, end)
		assert.ErrorContains(t, err, cause.Error())
	}
	t.Run("before the first attempt", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		fn, _ := testkit.Failing(testkit.ErrPeer)
		check(t, new(retry.Policy).Execute(ctx, fn), retry.StopCanceled, context.Canceled)
	})
	t.Run("during an attempt", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		err := new(retry.Policy).Execute(ctx, func(context.Context) error { cancel(cause); return testkit.ErrPeer })
		check(t, err, retry.StopCanceled, context.Canceled)
		assert.ErrorIs(t, err, testkit.ErrPeer)
	})
	t.Run("during a wait", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Minute, func() { cancel(cause) })
			p := &retry.Policy{Backoff: retry.Constant(time.Hour)}
			fn, _ := testkit.Failing(testkit.ErrPeer)
			err := p.Execute(ctx, fn)
			check(t, err, retry.StopCanceled, context.Canceled)
			assert.ErrorIs(t, err, testkit.ErrPeer)
		})
	})
	t.Run("deadline", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, cause)
			defer cancel()
			err := new(retry.Policy).Execute(ctx, func(ctx context.Context) error { <-ctx.Done(); return testkit.ErrPeer })
			check(t, err, retry.StopDeadline, context.DeadlineExceeded)
			assert.ErrorIs(t, err, testkit.ErrPeer)
		})
	})
}

// T-46.
func TestHooksMayUseThePolicy(t *testing.T) {
	t.Parallel()
	// A lock that is held around a callback would block this for ever.
	var p retry.Policy
	depth, inner := 0, 0
	again := func(ctx context.Context) {
		if depth > 0 {
			return
		}
		depth++
		defer func() { depth-- }()
		calls := 0
		assert.NoError(t, p.Execute(ctx, func(context.Context) error {
			if calls++; calls == 1 {
				return testkit.ErrPeer
			}
			return nil
		}))
		assert.Equal(t, 2, calls)
		inner++
	}
	p = retry.Policy{
		MaxElapsed: time.Hour,
		Backoff:    peerHook{func() { again(t.Context()) }},
		Jitter:     peerHook{func() { again(t.Context()) }},
		Classifier: func(error) retry.Verdict { again(t.Context()); return retry.Verdict{} },
		Budget:     &retry.Budget{Reserve: 1000},
		Observer:   retry.ObserverFunc(func(ctx context.Context, _ retry.Event) { again(ctx) }),
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		fn, calls := testkit.Failing(testkit.ErrPeer)
		assert.ErrorIs(t, p.Execute(t.Context(), fn), retry.StopAttempts)
		assert.Equal(t, 3, *calls)
		assert.Positive(t, inner)
	}()
	select {
	case <-over:
	case <-time.After(10 * time.Second):
		require.Fail(t, "the call is blocked")
	}
}

// peerHook is a backoff and a jitter that calls a function.
type peerHook struct{ call func() }

func (h peerHook) Delay(int) time.Duration {
	h.call()
	return 1
}

func (h peerHook) Apply(delay, _ time.Duration, _ uint64) time.Duration {
	h.call()
	return delay
}

// T-47.
func TestHooksGetTheContext(t *testing.T) {
	t.Parallel()
	var seen []retry.EventKind
	observer := retry.ObserverFunc(func(ctx context.Context, e retry.Event) {
		if assert.NotNil(t, ctx) {
			assert.Equal(t, "value", ctx.Value(testkit.Key{}), e.Kind)
		}
		seen = append(seen, e.Kind)
	})
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), testkit.Key{}, "value"))
	p := &retry.Policy{Backoff: retry.Constant(0), AttemptTimeout: time.Hour, Observer: retry.Observers(observer, nil)}
	calls := 0
	require.NoError(t, p.Execute(ctx, func(context.Context) error {
		if calls++; calls == 1 {
			return testkit.ErrPeer
		}
		return nil
	}))
	assert.Error(t, p.Execute(ctx, func(context.Context) error { return retry.MarkFinal(testkit.ErrPeer) }))
	assert.Error(t, p.Execute(ctx, func(context.Context) error { cancel(); return testkit.ErrPeer }))
	assert.Error(t, p.Execute(ctx, func(context.Context) error { return nil }))
	assert.Equal(t, []retry.EventKind{retry.Retrying, retry.Succeeded, retry.GaveUp, retry.GaveUp, retry.GaveUp}, seen)
}

// decided returns what a Call decides about a failure, if its context has become ctx
// while the attempt was made.
func decided(p *retry.Policy, ctx context.Context, err error) retry.Decision { //nolint:revive // p is the receiver
	late := lateContext{ctx, make(chan struct{})}
	call := retry.Call{Policy: p}
	call.Begin(late)
	if ctx.Err() != nil {
		close(late.done)
	}
	return call.End(err)
}

// lateContext ends when done is closed.
type lateContext struct {
	context.Context
	done chan struct{}
}

func (c lateContext) Done() <-chan struct{} { return c.done }
