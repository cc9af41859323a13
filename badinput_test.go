package retry_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// What a careless or unlucky caller may hand over: each has an outcome that is
// documented, and none hangs or spins.

// patience is the number of calls after which an operation counts as spinning.
const patience = 1000

// bounded returns an operation that always fails with err, and its number of
// calls. It ends the test when there are too many.
func bounded(t *testing.T, err error) (fn func(context.Context) error, calls *int) {
	t.Helper()
	calls = new(int)
	return func(context.Context) error {
		*calls++
		require.Less(t, *calls, patience, "the call spins")
		return err
	}, calls
}

func TestBadInputZeroPolicy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		fn, calls := bounded(t, errBoom)
		err := (&retry.Policy{}).Execute(t.Context(), fn)
		took := time.Since(start)
		assert.Equal(t, 3, *calls)
		assert.LessOrEqual(t, took, 6*time.Second)
		assert.Equal(t, &retry.Error{Attempts: 3, Waited: took, Stop: retry.StopAttempts, Err: errBoom}, err)
		assert.Equal(t, "failed after 3 attempts: boom", err.Error())
	})
}

func TestBadInputNilPolicy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p *retry.Policy
		fn, calls := bounded(t, errBoom)
		_, err := retry.Do(t.Context(), p, func(ctx context.Context) (int, error) { return 0, fn(ctx) })
		assert.Equal(t, 3, *calls)
		assert.ErrorIs(t, err, retry.ErrAttemptsExhausted)

		s, now := retry.State{}, time.Now()
		for attempt := 1; attempt <= 3; attempt++ {
			_, exhausted := p.Exhausted(s, now)
			require.False(t, exhausted)
			d := p.Next(s, errBoom, now)
			assert.Equal(t, attempt < 3, d.Retry)
			assert.Equal(t, d.Stop, decideInCall(p, t.Context(), s, p.Classify(errBoom), now).Stop)
			s, now = d.State, now.Add(d.Delay)
		}
		_, exhausted := p.Exhausted(s, now)
		assert.True(t, exhausted)
	})
}

// nothingSet is a policy of which every number is out of range, and of which no
// more is to be expected than of the zero one.
func nothingSet() *retry.Policy {
	nan := math.NaN()
	return &retry.Policy{
		MaxAttempts:    -1,
		MaxElapsed:     math.MinInt64,
		AttemptTimeout: -time.Second,
		Backoff:        retry.Exponential{Initial: -time.Second, Multiplier: nan},
		MaxDelay:       math.MinInt64,
		MaxRetryAfter:  -time.Second,
		FreeRateLimits: math.MinInt,
		Overrides:      map[string]retry.Override{"unknown": {MaxAttempts: math.MinInt, MaxDelay: -1}, "": {MaxAttempts: 99}},
		Budget:         &retry.Budget{Ratio: nan, TTL: -1, Reserve: 0},
	}
}

func TestBadInputNegativeFields(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := nothingSet()
		require.Error(t, p.Validate())
		p.Jitter = retry.NoJitter
		start := time.Now()
		fn, calls := bounded(t, errBoom)
		err := p.Execute(t.Context(), fn)
		assert.Equal(t, 3, *calls)
		assert.Equal(t, 6*time.Second, time.Since(start))
		assert.ErrorIs(t, err, retry.ErrAttemptsExhausted)

		d := p.Next(retry.State{First: start.Add(-time.Hour)}, retry.MarkRateLimited(errBoom, time.Minute), start)
		assert.True(t, d.Retry)
		assert.True(t, d.Counted)
		assert.Equal(t, retry.StopRetryAfter, p.Next(retry.State{}, retry.MarkRateLimited(errBoom, time.Minute+1), start).Stop)
	})
}

func TestBadInputNaN(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	tests := []struct {
		name    string
		backoff retry.Backoff
		jitter  retry.Jitter
		want    []time.Duration
	}{
		{"multiplier NaN", retry.Exponential{Multiplier: nan}, retry.NoJitter, seconds(2, 4)},
		{"multiplier -Inf", retry.Exponential{Multiplier: -inf}, retry.NoJitter, seconds(2, 4)},
		{"multiplier +Inf", retry.Exponential{Multiplier: inf}, retry.NoJitter, seconds(2, 30)},
		{"fraction NaN", nil, retry.Proportional(nan), seconds(2, 4)},
		{"fraction -Inf", nil, retry.Proportional(-inf), seconds(2, 4)},
		{"negative spread", nil, retry.PlusMinus(math.MinInt64), seconds(2, 4)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newCountingClock()
			p := &retry.Policy{Backoff: tt.backoff, Jitter: tt.jitter, Clock: c}
			fn, calls := bounded(t, errBoom)
			assert.ErrorIs(t, p.Execute(t.Context(), fn), retry.ErrAttemptsExhausted)
			assert.Equal(t, 3, *calls)
			assert.Equal(t, tt.want, c.waited)
		})
	}
}

func TestBadInputMarkOfNil(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]func(error) error{
		"final":        retry.MarkFinal,
		"retryable":    retry.MarkRetryable,
		"rate limited": func(err error) error { return retry.MarkRateLimited(err, time.Hour) },
		"any":          func(err error) error { return retry.Mark(err, retry.Verdict{Class: retry.Final}) },
	} {
		calls := 0
		assert.NoError(t, (&retry.Policy{}).Execute(t.Context(), func(context.Context) error {
			calls++
			return mark(nil)
		}), name)
		assert.Equal(t, 1, calls, name)
	}
}

func TestBadInputTypedNil(t *testing.T) {
	t.Parallel()
	for _, typedNil := range []error{(*peerTypedNil)(nil), (*retry.Error)(nil), (*endlessError)(nil)} {
		fn, calls := bounded(t, typedNil)
		err := (&retry.Policy{Clock: newCountingClock()}).Execute(t.Context(), fn)
		assert.Equal(t, 3, *calls, "an error that nobody knows is a failure, and no success")
		e := peerError(t, err)
		assert.Equal(t, retry.StopAttempts, e.Stop)
		assertSameError(t, typedNil, e.Err, "typed nil")
		assert.NotPanics(t, func() { _ = err.Error() })
		d := (&retry.Policy{}).Next(retry.State{}, typedNil, firstAttempt)
		assert.True(t, d.Retry)
		assert.Zero(t, d.Verdict)
	}
}

func TestBadInputPanickingMethods(t *testing.T) {
	t.Parallel()
	for _, observer := range []retry.Observer{nil, &retrytest.Recorder{}} {
		fn, calls := bounded(t, throwingError{})
		err := (&retry.Policy{Clock: newCountingClock(), Observer: observer}).Execute(t.Context(), fn)
		assert.Equal(t, 3, *calls)
		assert.Equal(t, &retry.Error{Attempts: 3, Waited: err.(*retry.Error).Waited, Stop: retry.StopAttempts, Err: throwingError{}}, err)
		assert.NotPanics(t, func() { _ = err.Error() })
	}
}

func TestBadInputEndlessChains(t *testing.T) {
	t.Parallel()
	for name, endless := range map[string]error{
		"chain":   &endlessError{},
		"growing": growingError(0),
		"tree":    &branchingError{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn, calls := bounded(t, endless)
			err := (&retry.Policy{Clock: newCountingClock()}).Execute(t.Context(), fn)
			assert.Equal(t, 3, *calls, "unknown, and so retried")
			e, ok := err.(*retry.Error)
			require.True(t, ok)
			assert.Equal(t, retry.StopAttempts, e.Stop)
			assertSameError(t, endless, e.Err, "%s", name)
			assert.NotEmpty(t, err.Error())

			fn, calls = bounded(t, retry.MarkFinal(endless))
			assert.Error(t, (&retry.Policy{}).Execute(t.Context(), fn))
			assert.Equal(t, 1, *calls, "a mark around it is heard")
		})
	}
}

// TestBadInputPanickingHooks checks that a panic in what the caller brought
// passes through, and leaves no context of an attempt behind.
func TestBadInputPanickingHooks(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		set  func(p *retry.Policy)
	}{
		{"classifier", func(p *retry.Policy) { p.Classifier = func(error) retry.Verdict { panic("boom") } }},
		{"backoff", func(p *retry.Policy) { p.Backoff = backoffFunc(func(int) time.Duration { panic("boom") }) }},
		{"jitter", func(p *retry.Policy) {
			p.Jitter = jitterFunc(func(time.Duration, time.Duration, uint64) time.Duration { panic("boom") })
		}},
		{"observer", func(p *retry.Policy) {
			p.Observer = retry.ObserverFunc(func(context.Context, retry.Event) { panic("boom") })
		}},
		{"clock", func(p *retry.Policy) {
			c := newCountingClock()
			c.before = func(time.Duration) { panic("boom") }
			p.Clock = c
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := &retry.Policy{AttemptTimeout: time.Hour}
			tt.set(p)
			var attempts []context.Context
			assert.PanicsWithValue(t, "boom", func() {
				_ = p.Execute(t.Context(), func(ctx context.Context) error {
					attempts = append(attempts, ctx)
					return errBoom
				})
			})
			require.Len(t, attempts, 1)
			assert.Error(t, attempts[0].Err())
		})
	}
}

// TestBadInputJumpingClock checks clocks that are set while a call is under way:
// it neither ends early nor goes on for ever.
func TestBadInputJumpingClock(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	tests := []struct {
		name  string
		p     retry.Policy
		jumps []time.Duration // in the attempts; 0 in further ones
		calls int
		stop  retry.StopReason
	}{
		{"back", retry.Policy{MaxElapsed: hour}, []time.Duration{-24 * hour}, 5, retry.StopAttempts},
		{"back, and back again", retry.Policy{MaxElapsed: hour}, []time.Duration{0, -24 * hour, 0, -24 * hour}, 5, retry.StopAttempts},
		{"forward", retry.Policy{MaxElapsed: hour}, []time.Duration{0, 24 * hour}, 2, retry.StopElapsed},
		{"back, and forward again", retry.Policy{MaxElapsed: hour}, []time.Duration{-24 * hour, 24 * hour}, 5, retry.StopAttempts},
		{"forward, and back again", retry.Policy{MaxElapsed: 48 * hour}, []time.Duration{24 * hour, -24 * hour}, 5, retry.StopAttempts},
		{"to the end of time", retry.Policy{MaxElapsed: hour}, []time.Duration{math.MaxInt64}, 1, retry.StopElapsed},
		{"to the beginning of time", retry.Policy{MaxElapsed: hour}, []time.Duration{math.MinInt64}, 5, retry.StopAttempts},
		{"without a limit", retry.Policy{}, []time.Duration{math.MaxInt64, math.MinInt64}, 5, retry.StopAttempts},
		{"with a budget", retry.Policy{Budget: &retry.Budget{Reserve: 3}}, []time.Duration{-hour, hour, math.MinInt64, math.MaxInt64}, 4, retry.StopBudget},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newCountingClock()
			p := tt.p
			p.MaxAttempts, p.Backoff, p.Jitter, p.Clock = 5, retry.Constant(time.Second), retry.NoJitter, c
			fn, calls := bounded(t, errBoom)
			err := p.Execute(t.Context(), func(ctx context.Context) error {
				if *calls < len(tt.jumps) {
					c.now = c.now.Add(tt.jumps[*calls])
				}
				return fn(ctx)
			})
			e := peerError(t, err)
			assert.Equal(t, tt.calls, *calls)
			assert.Equal(t, tt.stop, e.Stop)
			assert.Equal(t, time.Duration(tt.calls-1)*time.Second, e.Waited, "the waits are what they were to be")
		})
	}
}

// TestBadInputJumpingTable checks the same for a stored job, of which every
// attempt may run on another machine with a clock of its own.
func TestBadInputJumpingTable(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{MaxAttempts: 6, MaxElapsed: time.Hour, Backoff: retry.Constant(time.Second), Jitter: retry.NoJitter}
	tests := []struct {
		name  string
		jumps []time.Duration
		calls int
		stop  retry.StopReason
	}{
		{"none", nil, 6, retry.StopAttempts},
		{"back", []time.Duration{0, -24 * time.Hour, 0, -24 * time.Hour}, 6, retry.StopAttempts},
		{"forward", []time.Duration{0, 24 * time.Hour}, 2, retry.StopElapsed},
		{"both ways", []time.Duration{-time.Hour, time.Hour, -time.Hour, time.Hour}, 6, retry.StopAttempts},
		{"to the ends of time", []time.Duration{math.MinInt64, math.MaxInt64}, 6, retry.StopAttempts},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, now := retry.State{First: firstAttempt}, firstAttempt
			for n := 1; ; n++ {
				require.Less(t, n, patience, "the job has no end")
				if n <= len(tt.jumps) {
					now = now.Add(tt.jumps[n-1])
				}
				d := p.Next(s, errBoom, now)
				require.False(t, d.Retry && d.At.Before(now.Round(0)), "a retry in the past")
				require.Equal(t, n, d.State.Failures)
				require.Equal(t, firstAttempt, d.State.First, "the beginning does not move")
				if !d.Retry {
					assert.Equal(t, tt.calls, n)
					assert.Equal(t, tt.stop, d.Stop)
					_, exhausted := p.Exhausted(d.State, now)
					assert.True(t, exhausted)
					return
				}
				s, now = d.State, d.At
			}
		})
	}
}

func TestBadInputDoneContext(t *testing.T) {
	t.Parallel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancelExpired := context.WithTimeout(t.Context(), -time.Hour)
	t.Cleanup(cancelExpired)
	for _, tt := range []struct {
		ctx  context.Context
		want retry.Error
		text string
	}{
		{canceled, retry.Error{Stop: retry.StopCanceled, Cause: context.Canceled}, "not started: context canceled"},
		{expired, retry.Error{Stop: retry.StopDeadline, Cause: context.DeadlineExceeded}, "not started: context deadline exceeded"},
	} {
		for name, p := range peerOneByOne() {
			err := p.Execute(tt.ctx, func(context.Context) error {
				t.Error("an attempt under a context that is done")
				return nil
			})
			assert.Equal(t, &tt.want, err, name)
			assert.EqualError(t, err, tt.text)
		}
	}
}

func TestBadInputDeadlineEqualsDelay(t *testing.T) {
	t.Parallel()
	const delay = 5 * time.Second
	for room, want := range map[time.Duration]int{delay - 1: 1, delay: 1, delay + 1: 2} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), room)
			defer cancel()
			start := time.Now()
			fn, calls := bounded(t, errBoom)
			p := &retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(delay), Jitter: retry.NoJitter}
			err := p.Execute(ctx, fn)
			assert.Equal(t, want, *calls, "%v before the deadline", room)
			e := peerError(t, err)
			assert.Equal(t, retry.StopDeadline, e.Stop)
			assert.NoError(t, e.Cause, "the context has not ended")
			assert.Equal(t, time.Duration(want-1)*delay, time.Since(start))
		})
	}
}

// TestBadInputEndlessWaits checks that the sum of waits does not wrap around.
func TestBadInputEndlessWaits(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{Backoff: retry.Constant(math.MaxInt64), Jitter: retry.NoJitter, Clock: newCountingClock()}
	e := peerError(t, p.Execute(t.Context(), failing(nil)))
	assert.Equal(t, 3, e.Attempts)
	assert.Equal(t, time.Duration(math.MaxInt64), e.Waited)
}

// deafClock has a channel that never fires.
type deafClock struct{ countingClock }

func (*deafClock) After(time.Duration) <-chan time.Time { return nil }

// hastyClock has a channel that is always ready.
type hastyClock struct{ countingClock }

func (*hastyClock) After(time.Duration) <-chan time.Time {
	over := make(chan time.Time)
	close(over)
	return over
}

func TestBadInputBrokenClocks(t *testing.T) {
	t.Parallel()
	t.Run("a wait without end ends with the context", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Hour, cancel)
			fn, calls := bounded(t, errBoom)
			err := (&retry.Policy{Clock: &deafClock{}}).Execute(ctx, fn)
			assert.Equal(t, &retry.Error{Attempts: 1, Stop: retry.StopCanceled, Err: errBoom, Cause: context.Canceled}, err)
			assert.Equal(t, 1, *calls)
		})
	})
	t.Run("waits that are over at once end with the attempts", func(t *testing.T) {
		t.Parallel()
		fn, calls := bounded(t, errBoom)
		err := (&retry.Policy{MaxAttempts: 7, Clock: &hastyClock{}}).Execute(t.Context(), fn)
		assert.ErrorIs(t, err, retry.ErrAttemptsExhausted)
		assert.Equal(t, 7, *calls)
	})
	t.Run("a clock that starts at the zero time", func(t *testing.T) {
		t.Parallel()
		c := &countingClock{}
		p := &retry.Policy{MaxAttempts: 5, MaxElapsed: time.Hour, Backoff: retry.Constant(time.Minute), Jitter: retry.NoJitter, Clock: c}
		fn, calls := bounded(t, errBoom)
		assert.ErrorIs(t, p.Execute(t.Context(), fn), retry.ErrAttemptsExhausted)
		assert.Equal(t, 5, *calls)
	})
}

// TestBadInputUnlimitedWithoutWaits checks that a policy which spins because it
// was told so ends with the context.
func TestBadInputUnlimitedWithoutWaits(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(0)}
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err := p.Execute(ctx, failing(func() {
		if calls++; calls == 10*patience {
			cancel()
		}
	}))
	assert.Equal(t, &retry.Error{Attempts: 10 * patience, Stop: retry.StopCanceled, Err: errBoom, Cause: context.Canceled}, err)
}

// TestBadInputUnknownClass checks that a class of another version is none.
func TestBadInputUnknownClass(t *testing.T) {
	t.Parallel()
	for _, class := range []retry.Class{retry.Pending + 1, 200, 255} {
		p := &retry.Policy{Clock: newCountingClock(), Classifier: func(error) retry.Verdict { return retry.Verdict{Class: class} }}
		fn, calls := bounded(t, errBoom)
		assert.ErrorIs(t, p.Execute(t.Context(), fn), retry.ErrAttemptsExhausted)
		assert.Equal(t, 3, *calls)
		d := p.Next(retry.State{}, retry.Mark(errBoom, retry.Verdict{Class: class}), firstAttempt)
		assert.True(t, d.Retry)
		assert.Equal(t, retry.Unknown, d.Verdict.Class)
	}
}

// TestBadInputAttemptsDoNotOverflow checks the count of a job that has failed
// more often than can be counted.
func TestBadInputAttemptsDoNotOverflow(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{}
	for _, s := range []retry.State{
		{Failures: math.MaxInt, RateLimited: math.MaxInt},
		{Failures: math.MaxInt, RateLimited: 1},
		{Failures: math.MaxInt - 1, RateLimited: 2},
	} {
		var e *retry.Error
		require.ErrorAs(t, p.Next(s, errBoom, firstAttempt).Err, &e)
		assert.Positive(t, e.Attempts, "%+v", s)
		d, exhausted := p.Exhausted(s, firstAttempt)
		require.True(t, exhausted)
		require.ErrorAs(t, d.Err, &e)
		assert.Positive(t, e.Attempts, "%+v", s)
	}
}
