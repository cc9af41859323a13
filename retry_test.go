package retry_test

import (
	"context"
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
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func TestExecuteSuccess(t *testing.T) {
	t.Parallel()
	for want := 1; want <= 3; want++ {
		for name, p := range everyWay() {
			t.Run(fmt.Sprintf("attempt %d, %s", want, name), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					calls := 0
					v, err := retry.Do(t.Context(), p, func(context.Context) (string, error) {
						if calls++; calls < want {
							return "not yet", errBoom
						}
						return "here", nil
					})
					assert.NoError(t, err)
					assert.Equal(t, "here", v)
					assert.Equal(t, want, calls)
				})
			})
		}
	}
}

// TestExecuteLateSuccess checks that a success counts even if the context ended
// meanwhile.
func TestExecuteLateSuccess(t *testing.T) {
	t.Parallel()
	for name, p := range everyWay() {
		ctx, cancel := context.WithCancel(t.Context())
		v, err := retry.Do(ctx, p, func(context.Context) (int, error) {
			cancel()
			return 42, nil
		})
		assert.NoError(t, err, name)
		assert.Equal(t, 42, v, name)
	}
}

// TestDoReturnsTheLastValue checks the value that is returned with an error.
func TestDoReturnsTheLastValue(t *testing.T) {
	t.Parallel()
	type result struct {
		v   int
		err error
	}
	dead, kill := context.WithCancel(t.Context())
	kill()
	tests := []struct {
		name    string
		ctx     context.Context
		p       *retry.Policy
		results []result
		want    int
		stop    retry.StopReason
	}{
		{"attempts", t.Context(), nil, []result{{1, errBoom}, {2, errBoom}, {3, errBoom}}, 3, retry.StopAttempts},
		{"a zero at last", t.Context(), nil, []result{{1, errBoom}, {2, errBoom}, {0, errBoom}}, 0, retry.StopAttempts},
		{"final", t.Context(), nil, []result{{1, errBoom}, {2, errFinalMark}}, 2, retry.StopFinal},
		{"not started", dead, nil, nil, 0, retry.StopCanceled},
		{"no retry", t.Context(), &retry.Policy{MaxAttempts: 1}, []result{{7, errBoom}}, 7, retry.StopAttempts},
		{"a long hint", t.Context(), nil, []result{{5, retry.MarkRateLimited(errBoom, time.Hour)}}, 5, retry.StopRetryAfter},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := retry.Policy{}
			if tt.p != nil {
				p = *tt.p
			}
			p.Clock = newCountingClock()
			calls := 0
			v, err := retry.Do(tt.ctx, &p, func(context.Context) (int, error) {
				calls++
				return tt.results[calls-1].v, tt.results[calls-1].err
			})
			assert.Equal(t, tt.want, v)
			assert.Len(t, tt.results, calls)
			if tt.stop == retry.StopFinal {
				assert.Equal(t, tt.results[calls-1].err, err)
				return
			}
			assert.Equal(t, tt.stop, testkit.As[*retry.Error](t, err).Stop)
		})
	}
}

func TestExecuteNilFunc(t *testing.T) {
	t.Parallel()
	dead, kill := context.WithCancel(t.Context())
	kill()
	for name, p := range everyWay() {
		for _, ctx := range []context.Context{t.Context(), dead, nil} {
			assert.EqualError(t, p.Execute(ctx, nil), "retry: fn is nil", name)
			v, err := retry.Do[int](ctx, p, nil)
			assert.EqualError(t, err, "retry: fn is nil", name)
			assert.Zero(t, v)
		}
	}
	p := &retry.Policy{Observer: retry.ObserverFunc(func(context.Context, retry.Event) { t.Error("there was no call") })}
	assert.Error(t, p.Execute(t.Context(), nil))
}

func TestExecuteNilContext(t *testing.T) {
	t.Parallel()
	var none context.Context
	for name, p := range everyWay() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				v, err := retry.Do(none, p, func(ctx context.Context) (int, error) {
					if !assert.NotNil(t, ctx) {
						return 0, errFinalMark
					}
					assert.NoError(t, ctx.Err())
					if calls++; calls == 1 {
						return 0, errBoom
					}
					return calls, nil
				})
				assert.NoError(t, err)
				assert.Equal(t, 2, v)
			})
		})
	}
}

func TestExecuteNilPolicy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p *retry.Policy
		var at []time.Time
		err := p.Execute(t.Context(), failing(func() { at = append(at, time.Now()) }))
		require.Len(t, at, 3)
		assert.LessOrEqual(t, at[1].Sub(at[0]), 2*time.Second)
		assert.LessOrEqual(t, at[2].Sub(at[1]), 4*time.Second)
		assert.Equal(t, &retry.Error{
			Attempts: 3, Waited: at[2].Sub(at[0]), Stop: retry.StopAttempts, Err: errBoom, State: retry.State{Failures: 3},
		}, err)
	})
}

// TestExecuteAttemptTimeout checks the class of a failure after the timeout of
// the attempt, on a clock with AttemptContext.
func TestExecuteAttemptTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 5 * time.Second
	timedOut := retry.Verdict{Class: retry.Retryable, Category: "timeout"}
	always := func(v retry.Verdict) retry.Classifier { return func(error) retry.Verdict { return v } }
	tests := []struct {
		name       string
		took       time.Duration
		err        error // nil is the error of the attempt's context
		classifier retry.Classifier
		want       retry.Verdict
	}{
		{"its context's error", time.Minute, nil, nil, timedOut},
		{"an unknown error", time.Minute, errBoom, nil, timedOut},
		{"an error that would be final", time.Minute, context.Canceled, nil, timedOut},
		{"an inner policy that gave up", time.Minute, &retry.Error{Stop: retry.StopAttempts, Err: errBoom}, nil, timedOut},
		{"exactly at the timeout", timeout, errBoom, nil, timedOut},
		{"a mark", time.Minute, errFinalMark, nil, retry.Verdict{Class: retry.Final}},
		{"a mark that is wrapped", time.Minute, fmt.Errorf("x: %w", retry.MarkRetryable(errBoom)), nil, provedRetryable},
		{"a classifier", time.Minute, nil, retry.On(retry.Final, context.DeadlineExceeded), retry.Verdict{Class: retry.Final}},
		{"a classifier without a class", time.Minute, nil, always(retry.Verdict{Category: "mine"}), retry.Verdict{Category: "mine"}},
		{"a classifier that abstains", time.Minute, nil, always(retry.Verdict{}), timedOut},
		{"a mark before a classifier", time.Minute, errFinalMark, always(retryable), retry.Verdict{Class: retry.Final}},
		{"in time", timeout - 1, errBoom, nil, retry.Verdict{}},
		{"in time, a context's error", timeout - 1, context.Canceled, nil, retry.Verdict{Class: retry.Final, Category: "canceled"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, patient := range []bool{false, true} {
				c, events := retrytest.NewClock(firstAttempt), &retrytest.Recorder{}
				p := &retry.Policy{
					AttemptTimeout: timeout, Backoff: retry.Constant(0), Classifier: tt.classifier, Clock: c, Observer: events,
				}
				var want error
				err := p.Execute(t.Context(), func(ctx context.Context) error {
					deadline, ok := ctx.Deadline()
					assert.True(t, ok)
					assert.Equal(t, timeout, deadline.Sub(c.Now()))
					if patient {
						c.Advance(tt.took) // ignores its context
					} else {
						_ = c.AdvanceContext(ctx, tt.took)
					}
					if want = tt.err; want == nil {
						want = ctx.Err()
					}
					return want
				})
				took := tt.took
				if !patient {
					took = min(took, timeout)
				}
				for _, e := range events.Events() {
					assert.Equal(t, tt.want, e.Verdict)
				}
				if tt.want.Class == retry.Final {
					assertSameError(t, want, err, "as it is")
					assert.Equal(t, firstAttempt.Add(took), c.Now())
					continue
				}
				assert.Equal(t, &retry.Error{
					Attempts: 3, Stop: retry.StopAttempts, Err: want, State: retry.State{Failures: 3, First: firstAttempt},
				}, err)
				assert.Equal(t, firstAttempt.Add(3*took), c.Now())
			}
		})
	}
	t.Run("a late success", func(t *testing.T) {
		t.Parallel()
		c := retrytest.NewClock(firstAttempt)
		p := &retry.Policy{AttemptTimeout: timeout, Clock: c}
		assert.NoError(t, p.Execute(t.Context(), func(ctx context.Context) error {
			c.Advance(time.Hour)
			assert.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
			return nil
		}))
	})
	t.Run("of an operation that is not idempotent", func(t *testing.T) {
		t.Parallel()
		c := retrytest.NewClock(firstAttempt)
		p := &retry.Policy{AttemptTimeout: timeout, NonIdempotent: true, Clock: c}
		err := p.Execute(t.Context(), func(ctx context.Context) error { return c.AdvanceContext(ctx, time.Hour) })
		assert.Equal(t, retry.StopMaybeApplied, testkit.As[*retry.Error](t, err).Stop)
	})
	t.Run("together with the caller's deadline", func(t *testing.T) {
		t.Parallel()
		c := retrytest.NewClock(firstAttempt)
		ctx, cancel := c.WithTimeout(t.Context(), timeout)
		defer cancel()
		p := &retry.Policy{AttemptTimeout: timeout, Clock: c}
		err := p.Execute(ctx, func(ctx context.Context) error { return c.AdvanceContext(ctx, time.Hour) })
		e := testkit.As[*retry.Error](t, err)
		assert.Equal(t, 1, e.Attempts)
		assert.Equal(t, retry.StopDeadline, e.Stop)
		assert.Equal(t, context.DeadlineExceeded, e.Cause)
	})
	t.Run("a context that is canceled from inside", func(t *testing.T) {
		t.Parallel()
		// Without a timeout, the attempt's own failure counts.
		p := &retry.Policy{AttemptTimeout: time.Hour, Backoff: retry.Constant(0)}
		err := p.Execute(t.Context(), func(ctx context.Context) error {
			child, cancel := context.WithCancel(ctx)
			cancel()
			return child.Err()
		})
		assert.Equal(t, context.Canceled, err)
	})
}

// TestExecuteContextEnds checks the whole error of a call whose context ends, by
// when and how it does.
func TestExecuteContextEnds(t *testing.T) {
	t.Parallel()
	const s = time.Second
	errCause := errors.New("the user went away")
	tests := []struct {
		name string
		// end has the context end on this clock, at once or later. The policy
		// is still to be run.
		end  func(c *retrytest.Clock, p *retry.Policy, cancel func())
		at   int // the attempt that cancels; 0 means none
		want retry.Error
		text string
	}{
		{
			"before the first attempt",
			func(_ *retrytest.Clock, _ *retry.Policy, cancel func()) { cancel() }, 0,
			retry.Error{},
			"task not started: context canceled: the user went away",
		},
		{
			"in the first attempt",
			nil, 1,
			retry.Error{Attempts: 1, Err: errBoom},
			"task failed after 1 attempt (context canceled: the user went away): boom",
		},
		{
			"in a later attempt",
			nil, 3,
			retry.Error{Attempts: 3, Waited: 6 * s, Err: errBoom},
			"task failed after 3 attempts (context canceled: the user went away): boom",
		},
		{
			"in the first wait",
			func(c *retrytest.Clock, _ *retry.Policy, cancel func()) { c.At(s, cancel) }, 0,
			retry.Error{Attempts: 1, Err: errBoom},
			"task failed after 1 attempt (context canceled: the user went away): boom",
		},
		{
			"in a later wait",
			func(c *retrytest.Clock, _ *retry.Policy, cancel func()) { c.At(5*s, cancel) }, 0,
			retry.Error{Attempts: 2, Waited: 2 * s, Err: errBoom},
			"task failed after 2 attempts (context canceled: the user went away): boom",
		},
		{
			"at the end of a wait",
			func(c *retrytest.Clock, _ *retry.Policy, cancel func()) { c.At(2*s, cancel) }, 0,
			retry.Error{Attempts: 1, Err: errBoom},
			"task failed after 1 attempt (context canceled: the user went away): boom",
		},
		{
			"in the observer",
			func(_ *retrytest.Clock, p *retry.Policy, cancel func()) {
				p.Observer = retry.ObserverFunc(func(context.Context, retry.Event) { cancel() })
			}, 0,
			retry.Error{Attempts: 1, Err: errBoom},
			"task failed after 1 attempt (context canceled: the user went away): boom",
		},
		{
			"in the classifier",
			func(_ *retrytest.Clock, p *retry.Policy, cancel func()) {
				p.Classifier = func(error) retry.Verdict { cancel(); return retryable }
			}, 0,
			retry.Error{Attempts: 1, Err: errBoom},
			"task failed after 1 attempt (context canceled: the user went away): boom",
		},
		{
			"in the backoff",
			func(_ *retrytest.Clock, p *retry.Policy, cancel func()) {
				p.Backoff = backoffFunc(func(int) time.Duration { cancel(); return s })
			}, 0,
			retry.Error{Attempts: 1, Err: errBoom},
			"task failed after 1 attempt (context canceled: the user went away): boom",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := retrytest.NewClock(firstAttempt)
			p := &retry.Policy{Name: "task", MaxAttempts: 9, Jitter: retry.NoJitter, Clock: c}
			ctx, cancel := context.WithCancelCause(t.Context())
			if tt.end != nil {
				tt.end(c, p, func() { cancel(errCause) })
			}
			calls := 0
			err := p.Execute(ctx, failing(func() {
				if calls++; calls == tt.at {
					cancel(errCause)
				}
			}))
			want := tt.want
			want.Policy, want.Stop, want.Cause = "task", retry.StopCanceled, errCause
			want.State.Failures = want.Attempts
			if p.Observer != nil {
				want.State.First = firstAttempt
			}
			assert.Equal(t, &want, err)
			assert.Equal(t, want.Attempts, calls)
			assert.EqualError(t, err, tt.text)
		})
	}
}

// TestExecuteFinalBeforeTheContextEnds checks that an error which was judged
// before the context ended does not change.
func TestExecuteFinalBeforeTheContextEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(cancel func()) retry.Policy{
		"in the classifier": func(cancel func()) retry.Policy {
			return retry.Policy{Classifier: func(error) retry.Verdict { cancel(); return retry.Verdict{Class: retry.Final} }}
		},
		"in the observer": func(cancel func()) retry.Policy {
			return retry.Policy{
				Classifier: retry.On(retry.Final, errBoom),
				Observer:   retry.ObserverFunc(func(context.Context, retry.Event) { cancel() }),
			}
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		p := end(cancel)
		assert.Equal(t, errBoom, p.Execute(ctx, failing(nil)), name)
		assert.Error(t, ctx.Err(), name)
	}
}

// TestExecuteDeadlines checks the whole error of a call whose deadline passes,
// and of one that ends before a deadline that cannot be met.
func TestExecuteDeadlines(t *testing.T) {
	t.Parallel()
	const s = time.Second
	errCause := errors.New("too slow")
	tests := []struct {
		name string
		room time.Duration
		took time.Duration // by an attempt
		hint time.Duration
		want retry.Error
		text string
	}{
		{
			"passed before the first attempt", -s, 0, 0,
			retry.Error{Cause: errCause},
			"task not started: context deadline exceeded: too slow",
		},
		{
			"passes in the first attempt", 5*s - 1, 5 * s, 0,
			retry.Error{Attempts: 1, Err: errBoom, Cause: errCause},
			"task failed after 1 attempt (context deadline exceeded: too slow): boom",
		},
		{
			"passes in the second attempt", 4 * s, s + 1, 0,
			retry.Error{Attempts: 2, Waited: 2 * s, Err: errBoom, Cause: errCause},
			"task failed after 2 attempts (context deadline exceeded: too slow): boom",
		},
		{
			"lies ahead of the first wait", 2 * s, 0, 0,
			retry.Error{Attempts: 1, Err: errBoom},
			"task failed after 1 attempt (next attempt would miss the context's deadline): boom",
		},
		{
			"lies ahead of the second wait", 6*s + 2, 1, 0,
			retry.Error{Attempts: 2, Waited: 2 * s, Err: errBoom},
			"task failed after 2 attempts (next attempt would miss the context's deadline): boom",
		},
		{
			"lies ahead of a hint", 10 * s, 0, 30 * s,
			retry.Error{Attempts: 1, RetryAfter: 30 * s},
			"task failed after 1 attempt (next attempt would miss the context's deadline): boom",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), tt.room, errCause)
				defer cancel()
				want := tt.want
				failure := errBoom
				if tt.hint > 0 {
					failure = retry.MarkRateLimited(errBoom, tt.hint)
					want.Err = failure
				}
				p := &retry.Policy{Name: "task", MaxAttempts: 9, Jitter: retry.NoJitter}
				start := time.Now()
				calls := 0
				err := p.Execute(ctx, func(context.Context) error {
					calls++
					time.Sleep(tt.took)
					return failure
				})
				want.Policy, want.Stop, want.State.Failures = "task", retry.StopDeadline, want.Attempts
				assert.Equal(t, &want, err)
				assert.EqualError(t, err, tt.text)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, want.Attempts, calls)
				assert.Equal(t, time.Duration(calls)*tt.took+want.Waited, time.Since(start), "no wait in vain")
			})
		})
	}
}

// TestExecuteErrorsOfOtherContexts checks that the error of another context
// does not count as the end of the caller's context.
func TestExecuteErrorsOfOtherContexts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &retry.Policy{Backoff: retry.Constant(0)}
		calls := 0
		err := p.Execute(t.Context(), func(ctx context.Context) error {
			calls++
			inner, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			<-inner.Done()
			return inner.Err()
		})
		assert.Equal(t, &retry.Error{
			Attempts: 3, Stop: retry.StopAttempts, Err: context.DeadlineExceeded, State: retry.State{Failures: 3},
		}, err)
		assert.Equal(t, 3, calls)
		assert.Equal(t, context.Canceled, p.Execute(t.Context(), func(context.Context) error { return context.Canceled }))
	})
}

// TestExecuteAllocsPerWait checks that a call makes one timer, whatever the
// number of its waits. Not parallel, because allocations are counted for the
// whole process.
func TestExecuteAllocsPerWait(t *testing.T) { //nolint:paralleltest // see above
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	allocs := func(attempts int) float64 {
		p := &retry.Policy{MaxAttempts: attempts, Backoff: retry.Constant(1), Jitter: retry.NoJitter}
		return testing.AllocsPerRun(50, func() { _ = p.Execute(ctx, fail) })
	}
	none, one, many := allocs(1), allocs(2), allocs(40)
	assert.Greater(t, one, none)
	assert.Equal(t, one, many)
}

func TestExecuteUnlimited(t *testing.T) {
	t.Parallel()
	const attempts = 100_000
	for name, p := range map[string]*retry.Policy{
		"plain":    {},
		"observer": {Observer: retry.Observers()},
		"elapsed":  {MaxElapsed: time.Hour, Clock: newCountingClock()},
		"override": {Overrides: map[string]retry.Override{"unknown": {MaxAttempts: retry.Unlimited}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.Backoff = retry.Constant(0)
			if p.Overrides == nil {
				p.MaxAttempts = retry.Unlimited
			}
			calls := 0
			assert.NoError(t, p.Execute(t.Context(), func(context.Context) error {
				if calls++; calls < attempts {
					return errBoom
				}
				return nil
			}))
			assert.Equal(t, attempts, calls)
		})
	}
}

// TestExecuteLongWaits checks a call of more than 10 hours.
func TestExecuteLongWaits(t *testing.T) {
	t.Parallel()
	const h = time.Hour
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 48*h)
		defer cancel()
		p := &retry.Policy{
			MaxAttempts:   5,
			MaxElapsed:    24 * h,
			Backoff:       retry.Schedule{h, 3 * h, 10 * h},
			Jitter:        retry.NoJitter,
			MaxRetryAfter: 4 * h,
			Rand:          word(0),
		}
		start := time.Now()
		var at []time.Duration
		err := p.Execute(ctx, func(context.Context) error {
			at = append(at, time.Since(start))
			if len(at) == 4 {
				return retry.MarkRateLimited(errBoom, 4*h)
			}
			return errBoom
		})
		assert.Equal(t, []time.Duration{0, h, 4 * h, 14 * h, 18 * h}, at)
		assert.Equal(t, &retry.Error{
			Attempts: 5, Waited: 18 * h, Stop: retry.StopAttempts, Err: errBoom,
			State: retry.State{Failures: 5, First: start},
		}, err)
	})
}

// TestExecuteCountsFreeAttempts checks that Attempts are the calls that were
// made, whether they cost one or not.
func TestExecuteCountsFreeAttempts(t *testing.T) {
	t.Parallel()
	limited := retry.MarkRateLimited(errBoom, time.Second)
	op := retrytest.Script(limited, errBoom, limited, limited, errBoom)
	p := &retry.Policy{FreeRateLimits: 2, Jitter: retry.NoJitter, Rand: word(0), Clock: retrytest.NewClock(firstAttempt)}
	err := p.Execute(t.Context(), op.Run)
	// Waits of 1s for a free one, 2s, 1s for a free one, and 1s for one that is not.
	assert.Equal(t, &retry.Error{
		Attempts: 5, Waited: 5 * time.Second, Stop: retry.StopAttempts, Err: errBoom,
		State: retry.State{Failures: 3, RateLimited: 2},
	}, err)
}

// TestExecuteAsksNobodyAfterTheContext checks that a failure is not classified
// once the context is done.
func TestExecuteAsksNobodyAfterTheContext(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{0, time.Hour} {
		for at := 1; at <= 3; at++ {
			asked, calls := map[string]int{}, 0
			ctx, cancel := context.WithCancel(t.Context())
			p := &retry.Policy{
				MaxAttempts:    9,
				AttemptTimeout: timeout,
				Classifier:     func(error) retry.Verdict { asked["classifier"]++; return retry.Verdict{} },
				Backoff:        backoffFunc(func(int) time.Duration { asked["backoff"]++; return 1 }),
				MaxDelay:       time.Hour,
				Jitter: jitterFunc(func(time.Duration, time.Duration, uint64) time.Duration {
					asked["jitter"]++
					return 0
				}),
				Budget: &retry.Budget{Reserve: 9},
			}
			err := p.Execute(ctx, failing(func() {
				if calls++; calls == at {
					cancel()
				}
			}))
			assert.Equal(t, retry.StopCanceled, testkit.As[*retry.Error](t, err).Stop)
			assert.Equal(t, at, calls)
			for _, who := range []string{"classifier", "backoff", "jitter"} {
				assert.Equal(t, at-1, asked[who], "%s, canceled in attempt %d", who, at)
			}
			assert.Equal(t, 9-(at-1), testkit.Drain(p.Budget, time.Now()), "the budget")
		}
	}
}

// TestExecuteReadsOfTheClock checks how often the clock is read: at most once
// for a failure, and never when nothing needs the time.
func TestExecuteReadsOfTheClock(t *testing.T) {
	t.Parallel()
	observer := retry.ObserverFunc(func(context.Context, retry.Event) {})
	final := retry.On(retry.Final, errBoom)
	tests := []struct {
		name     string
		p        retry.Policy
		deadline bool
		success  int // reads of a call that succeeds at once
		later    int // of one that succeeds at its third attempt
		failure  int // of one that fails three times
	}{
		{"nothing", retry.Policy{}, false, 0, 0, 0},
		{"waits", retry.Policy{Backoff: retry.Constant(time.Second)}, false, 0, 0, 0},
		{"a final error", retry.Policy{Classifier: final}, false, 0, 0, 0},
		{"an attempt timeout", retry.Policy{AttemptTimeout: time.Hour}, false, 0, 0, 0},
		{"overrides", retry.Policy{Overrides: map[string]retry.Override{"unknown": {MaxAttempts: 3}}}, false, 0, 0, 0},
		{"no limit of time", retry.Policy{MaxElapsed: -1}, false, 0, 0, 0},
		{"a deadline", retry.Policy{}, true, 0, 2, 3},
		{"a budget", retry.Policy{Budget: &retry.Budget{Reserve: 100}}, false, 1, 3, 3},
		{"a limit of time", retry.Policy{MaxElapsed: time.Hour}, false, 1, 3, 4},
		{"an observer", retry.Policy{Observer: observer}, false, 2, 4, 4},
		{"an observer of a final error", retry.Policy{Observer: observer, Classifier: final}, false, 2, 2, 2},
		{
			"everything",
			retry.Policy{MaxElapsed: time.Hour, Observer: observer, Budget: &retry.Budget{Reserve: 100}, AttemptTimeout: time.Hour},
			true, 2, 4, 4,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run := func(succeeds int) int {
				c := newCountingClock()
				ctx := t.Context()
				if tt.deadline {
					ctx = untilContext{ctx, c.now.Add(time.Hour)}
				}
				p := tt.p
				p.Clock = c
				calls := 0
				_ = p.Execute(ctx, func(context.Context) error {
					if calls++; calls == succeeds {
						return nil
					}
					return errBoom
				})
				return c.reads
			}
			assert.Equal(t, tt.success, run(1))
			assert.Equal(t, tt.later, run(3))
			assert.Equal(t, tt.failure, run(0))
		})
	}
	t.Run("an end of the context", func(t *testing.T) {
		t.Parallel()
		for _, tt := range []struct {
			p    retry.Policy
			want int
		}{{retry.Policy{}, 0}, {retry.Policy{Budget: &retry.Budget{}}, 0}, {retry.Policy{MaxElapsed: 1}, 1}, {retry.Policy{Observer: observer}, 2}} {
			c := newCountingClock()
			p := tt.p
			p.Clock = c
			ctx, cancel := context.WithCancel(t.Context())
			assert.Error(t, p.Execute(ctx, failing(cancel)))
			assert.Equal(t, tt.want, c.reads)
		}
	})
}

// TestExecuteMaxElapsedIncludesTheFirstAttempt checks where the time counts
// from.
func TestExecuteMaxElapsedIncludesTheFirstAttempt(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]int{4 * time.Second: 2, 4*time.Second + 1: 1} {
		c := retrytest.NewClock(firstAttempt)
		p := &retry.Policy{MaxElapsed: 5 * time.Second, Backoff: retry.Constant(time.Second), Jitter: retry.NoJitter, Clock: c}
		op := retrytest.Script(errBoom, errBoom, errBoom)
		err := p.Execute(t.Context(), c.Taking(took, op.Run))
		assert.Equal(t, want, op.Calls())
		assert.Equal(t, retry.StopElapsed, testkit.As[*retry.Error](t, err).Stop)
	}
}

// TestExecuteSettlesWithTheBudget checks the deposits and withdrawals of a
// call.
func TestExecuteSettlesWithTheBudget(t *testing.T) {
	t.Parallel()
	const reserve = 10
	tests := []struct {
		name   string
		script []error
		left   int
	}{
		{"success at once", []error{nil}, reserve + 1},
		{"success after two retries", []error{errBoom, errBoom, nil}, reserve - 2 + 1},
		{"failure after two retries", []error{errBoom, errBoom, errBoom}, reserve - 2},
		{"final at once", []error{errFinalMark}, reserve},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newCountingClock()
			p := &retry.Policy{Backoff: retry.Constant(0), Budget: &retry.Budget{Ratio: 1, Reserve: reserve}, Clock: c}
			_ = p.Execute(t.Context(), retrytest.Script(tt.script...).Run)
			assert.Equal(t, tt.left, testkit.Drain(p.Budget, c.now))
		})
	}
	t.Run("an empty one", func(t *testing.T) {
		t.Parallel()
		for _, backoff := range []retry.Constant{0, 1} {
			c := newCountingClock()
			p := &retry.Policy{Backoff: backoff * retry.Constant(time.Minute), Jitter: retry.NoJitter, Budget: &retry.Budget{Reserve: 1}, Clock: c}
			err := p.Execute(t.Context(), failing(nil))
			wait := time.Duration(backoff) * time.Minute
			assert.Equal(t, &retry.Error{
				Attempts: 2, Waited: wait, Stop: retry.StopBudget, RetryAfter: wait, Err: errBoom, State: retry.State{Failures: 2},
			}, err)
			assert.Equal(t, firstAttempt.Add(wait), c.now, "refused before the wait")
		}
	})
}

// TestExecutePanics checks that a panic and a Goexit in fn pass through to the
// caller.
func TestExecutePanics(t *testing.T) {
	t.Parallel()
	for name, p := range everyWay() {
		for at := 1; at <= 2; at++ {
			calls := 0
			run := func(end func()) error {
				calls = 0
				q := retry.Policy{}
				if p != nil {
					q = *p
				}
				q.Clock = newCountingClock()
				return q.Execute(t.Context(), failing(func() {
					if calls++; calls == at {
						end()
					}
				}))
			}
			assert.PanicsWithValue(t, "boom", func() { _ = run(func() { panic("boom") }) }, name)
			assert.Equal(t, at, calls, name)

			exited := make(chan bool)
			go func() {
				returned := false
				defer func() { exited <- !returned }()
				_ = run(runtime.Goexit)
				returned = true
			}()
			assert.True(t, <-exited, name)
			assert.Equal(t, at, calls, name)
		}
	}
}

// everyWay has policies that cover all paths through the loop: each needs other
// work around an attempt.
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

// TestNonIdempotentTrusts checks on what a repetition of an operation that is not
// idempotent may rest: a mark, or the policy's Classifier. What an errno or an answer says
// is about one step of the operation, and there may have been others before it.
func TestNonIdempotentTrusts(t *testing.T) {
	t.Parallel()
	for _, tt := range errnoRows {
		for _, errno := range tt.unix {
			for _, step := range []string{"dial", "write", "read"} {
				err := &net.OpError{Op: step, Net: "tcp", Err: os.NewSyscallError(step, errno)}
				assertRepeats(t, false, nil, err)
				assertRepeats(t, step == "dial" && tt.want.Class != retry.Final, retry.Classify, err)
				assertRepeats(t, true, nil, retry.MarkRetryable(err))
			}
		}
	}
	for _, answer := range []error{saysStatusCodeError(says(429)), saysSQLStateError(says("40001"))} {
		assertRepeats(t, false, nil, answer)
		assertRepeats(t, true, retry.Classify, answer)
	}
	assertRepeats(t, false, retry.On(retry.Retryable, errBoom), errBoom)
	proof := func(error) retry.Verdict { return canRetry("") }
	assertRepeats(t, true, proof, errBoom)
}

// assertRepeats checks whether an operation that is not idempotent is repeated after err,
// by every driver of the root package.
func assertRepeats(t *testing.T, want bool, classifier retry.Classifier, err error) {
	t.Helper()
	p := &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0), NonIdempotent: true, Classifier: classifier}
	fn, calls := testkit.Failing(err)
	_ = p.Execute(context.Background(), fn)
	assert.Equal(t, want, *calls == 2, "Execute, %#v", err)

	assert.Equal(t, want, p.Next(retry.State{}, err, time.Time{}).Retry, "Next, %#v", err)
	assert.Equal(t, want, p.Decide(retry.State{}, p.Classify(err), time.Time{}).Retry, "Decide, %#v", err)

	call := retry.Call{Policy: p}
	require.True(t, call.Next(context.Background()))
	assert.Equal(t, want, call.End(err).Retry, "Call, %#v", err)

	if classifier == nil { // the driver of a protocol answers for what it says
		call = retry.Call{Policy: p, Protocol: func(error) retry.Verdict { return canRetry("") }}
		require.True(t, call.Next(context.Background()))
		assert.True(t, call.End(err).Retry, "a Call with Classify, %#v", err)
	}
}
