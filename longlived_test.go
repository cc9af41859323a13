package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// Loops that are to go on for ever, polls, and limits of a whole call.

func TestMarkProgressStartsANewCount(t *testing.T) {
	t.Parallel()
	wrapped := fmt.Errorf("wrapped: %w", retry.MarkProgress(errBoom))
	for name, err := range map[string]error{
		"plain":            retry.MarkProgress(errBoom),
		"wrapped":          wrapped,
		"beneath a mark":   retry.MarkRetryable(wrapped),
		"above a mark":     retry.MarkProgress(retry.MarkRetryable(errBoom)),
		"in a join":        errors.Join(errBoom, wrapped),
		"as a verdict":     retry.Mark(errBoom, retry.Verdict{Class: retry.Retryable, Progress: true}),
		"of a known error": retry.MarkProgress(errRefused),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &retry.Policy{MaxElapsed: time.Hour}
			now := firstAttempt.Add(2 * time.Hour)
			d := p.Next(retry.State{Failures: 2, RateLimited: 1, Pending: 4, First: firstAttempt, Key: "k"}, err, now)
			require.True(t, d.Retry, "%v", d.Stop)
			assert.True(t, d.Verdict.Progress)
			assert.Equal(t, retry.State{Failures: 1, First: now, Key: "k"}, d.State)
		})
	}
	require.NoError(t, retry.MarkProgress(nil))
	require.EqualError(t, retry.MarkProgress(errBoom), "boom")
	assert.ErrorIs(t, retry.MarkProgress(errBoom), errBoom)
}

// A mark of progress says nothing about whether to retry.
func TestMarkProgressIsNoVerdict(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{Classifier: retry.On(retry.Final, errBoom)}
	for _, err := range []error{
		retry.MarkProgress(errBoom), retry.MarkProgress(retry.MarkFinal(errRefused)), retry.MarkFinal(retry.MarkProgress(errRefused)),
	} {
		d := p.Next(retry.State{}, err, firstAttempt)
		assert.Equal(t, retry.StopFinal, d.Stop)
		assert.True(t, d.Verdict.Progress)
	}
	d := (&retry.Policy{MaxAttempts: 1}).Next(retry.State{}, retry.MarkProgress(errBoom), firstAttempt)
	assert.Equal(t, retry.StopAttempts, d.Stop, "no retry is no retry")
	assert.False(t, retry.Classify(errRefused).Progress)
}

// A loop that reports progress on every failure still waits.
func TestMarkProgressOnEveryFailureWaits(t *testing.T) {
	t.Parallel()
	clock := newCountingClock()
	p := &retry.Policy{Jitter: retry.NoJitter, Clock: clock}
	calls := 0
	err := p.Execute(t.Context(), func(context.Context) error {
		if calls++; calls == 100 {
			return nil
		}
		return retry.MarkProgress(errBoom)
	})
	require.NoError(t, err)
	require.Len(t, clock.waited, 99)
	for _, d := range clock.waited {
		assert.Equal(t, 2*time.Second, d)
	}
}

// The README's loop: 1 s, 2 s, 4 s … up to 30 s, and from the start again after a
// healthy minute.
func TestResetAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := &retry.Policy{
			MaxAttempts: retry.Unlimited,
			Backoff:     retry.Exponential{Initial: time.Second},
			Jitter:      retry.NoJitter,
			ResetAfter:  time.Minute,
		}
		lived := []time.Duration{0, 0, 0, 0, 0, 0, 0, time.Minute - 1, time.Minute, 0, 0, time.Hour, 0}
		want := seconds(1, 2, 4, 8, 16, 30, 30, 30, 1, 2, 4, 1, 2)
		var waits []time.Duration
		ended := time.Now()
		n := 0
		err := p.Execute(ctx, func(context.Context) error {
			if n > 0 {
				waits = append(waits, time.Since(ended))
			}
			if n == len(lived) {
				cancel()
				return errBoom
			}
			time.Sleep(lived[n])
			n++
			ended = time.Now()
			return errBoom
		})
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, want, waits)
	})
}

// A clock that jumps back ends no count, and one that jumps ahead looks like a long life.
func TestResetAfterWithAClockThatJumps(t *testing.T) {
	t.Parallel()
	for jump, want := range map[time.Duration]int{-time.Hour: 2, time.Hour: 1} {
		clock := newCountingClock()
		p := &retry.Policy{ResetAfter: time.Minute, Clock: clock}
		call := retry.Call{Policy: p}
		for range 2 {
			require.True(t, call.Begin(t.Context()))
			clock.now = clock.now.Add(jump)
			require.True(t, call.End(errBoom).Retry)
		}
		assert.Equal(t, want, call.State.Failures)
	}
}

func TestTimeoutInterruptsAnAttempt(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]*retry.Policy{
		"alone":                  {Timeout: 10 * time.Second},
		"with a longer attempt":  {Timeout: 10 * time.Second, AttemptTimeout: time.Minute},
		"with a shorter attempt": {Timeout: 10 * time.Second, AttemptTimeout: 4 * time.Second, Backoff: retry.Constant(0)},
		"after some waits":       {Timeout: 10 * time.Second, Backoff: retry.Constant(time.Second), MaxAttempts: retry.Unlimited},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				calls := 0
				err := p.Execute(t.Context(), func(ctx context.Context) error {
					if calls++; calls < 3 && p.MaxAttempts == retry.Unlimited {
						return errBoom
					}
					<-ctx.Done()
					return retry.MarkFinal(ctx.Err()) // whatever it says
				})
				if p.AttemptTimeout == 4*time.Second {
					require.ErrorIs(t, err, context.DeadlineExceeded, "marked")
					assert.Equal(t, 4*time.Second, time.Since(start))
					return
				}
				e := peerError(t, err)
				assert.Equal(t, retry.StopTimeout, e.Stop)
				require.ErrorIs(t, err, retry.ErrTimeout)
				assert.True(t, e.Timeout())
				require.NoError(t, t.Context().Err())
				assert.Equal(t, 10*time.Second, time.Since(start))
			})
		})
	}
}

// No wait is begun that would end when the time is up.
func TestTimeoutIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for timeout, attempts := range map[time.Duration]int{1: 1, time.Second: 1, time.Second + 1: 2, 3 * time.Second: 2, 3*time.Second + 1: 3} {
		p := twice(retrytest.NewClock(firstAttempt))
		p.Timeout = timeout
		e := peerError(t, p.Execute(t.Context(), func(context.Context) error { return errBoom }))
		assert.Equal(t, attempts, e.Attempts, "%v", timeout)
		assert.Equal(t, attempts < 3, e.Stop == retry.StopTimeout, "%v", timeout)
	}
}

func TestTimeoutOfAStoredJob(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{Timeout: time.Minute, Jitter: retry.NoJitter}
	s := retry.State{Failures: 1, First: firstAttempt}
	_, exhausted := p.Exhausted(s, firstAttempt.Add(time.Minute-1))
	assert.False(t, exhausted)
	d, exhausted := p.Exhausted(s, firstAttempt.Add(time.Minute))
	require.True(t, exhausted)
	require.ErrorIs(t, d.Err, retry.ErrTimeout)
	require.EqualError(t, d.Err, "failed after 1 attempt (timed out)")

	assert.True(t, p.Next(s, errBoom, firstAttempt.Add(56*time.Second-1)).Retry)
	assert.Equal(t, retry.StopTimeout, p.Next(s, errBoom, firstAttempt.Add(56*time.Second)).Stop)
	assert.Equal(t, retry.StopTimeout, p.Next(s, retry.MarkFinal(errBoom), firstAttempt.Add(time.Minute)).Stop)
	s.First = time.Time{}
	assert.True(t, p.Next(s, errBoom, firstAttempt.Add(time.Hour)).Retry, "nobody knows when it began")
}

// An attempt that would begin too late, because its turn has come late, is not begun.
func TestTimeoutBeforeTheAttempt(t *testing.T) {
	t.Parallel()
	var events retrytest.Recorder
	clock := newCountingClock()
	call := retry.Call{
		Policy: &retry.Policy{Timeout: time.Minute, Clock: clock, Observer: &events},
		State:  retry.State{Failures: 1, First: firstAttempt}, Last: errBoom,
	}
	clock.now = firstAttempt.Add(time.Minute)
	assert.False(t, call.Begin(t.Context()))
	require.EqualError(t, call.Err(), "failed after 1 attempt (timed out): boom")
	assert.False(t, call.Begin(t.Context()))
	require.Len(t, events.Events(), 1)
	assert.Equal(t, retry.StopTimeout, events.Events()[0].Stop)
}

func TestTimeoutLateSuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &retry.Policy{Timeout: time.Second}
		require.NoError(t, p.Execute(t.Context(), func(context.Context) error {
			time.Sleep(time.Minute)
			return nil
		}))
	})
}

// Polls do not use up the attempts of real errors, and real errors not those of polls.
func TestPending(t *testing.T) {
	t.Parallel()
	errNotReady := errors.New("not ready")
	var script []error
	for range 50 {
		script = append(script, retry.MarkPending(errNotReady))
	}
	script = append(script, errBoom, retry.MarkPending(errNotReady), errBoom, retry.MarkPending(errNotReady), nil)
	clock := newCountingClock()
	var events retrytest.Recorder
	p := &retry.Policy{
		Jitter:    retry.NoJitter,
		Overrides: map[string]retry.Override{"pending": {Backoff: retry.Constant(5 * time.Second)}},
		Budget:    &retry.Budget{Reserve: 2},
		Observer:  &events, Clock: clock,
	}
	n := 0
	require.NoError(t, p.Execute(t.Context(), func(context.Context) error { n++; return script[n-1] }))
	assert.Equal(t, len(script), n)
	want := make([]time.Duration, 50)
	for i := range want {
		want[i] = 5 * time.Second
	}
	assert.Equal(t, append(want, seconds(2, 5, 4, 5)...), clock.waited)
	assert.Equal(t, retry.Pending, events.Events()[0].Verdict.Class)
	assert.Equal(t, len(script), events.Events()[len(events.Events())-1].Attempt)

	// In a table.
	s := retry.State{First: firstAttempt}
	for i, err := range script[:len(script)-1] {
		d := p.Next(s, err, firstAttempt)
		require.True(t, d.Retry, "%d", i)
		assert.Equal(t, err == errBoom, d.Counted)
		s = throughText(t, throughJSON(t, d.State))
	}
	assert.Equal(t, retry.State{Failures: 2, Pending: 52, First: firstAttempt}, s)
}

func throughText(t *testing.T, s retry.State) (back retry.State) {
	t.Helper()
	text, err := s.MarshalText()
	require.NoError(t, err)
	require.NoError(t, back.UnmarshalText(text))
	return back
}

func throughJSON(t *testing.T, s retry.State) (back retry.State) {
	t.Helper()
	data, err := s.MarshalJSON()
	require.NoError(t, err)
	require.NoError(t, back.UnmarshalJSON(data))
	return back
}

func TestPendingHasAnEnd(t *testing.T) {
	t.Parallel()
	errNotReady := retry.MarkPending(errors.New("not ready"))
	poll := map[string]retry.Override{"pending": {Backoff: retry.Constant(5 * time.Second), MaxAttempts: 7}}
	tests := []struct {
		name  string
		p     retry.Policy
		calls int
		stop  retry.StopReason
	}{
		{"by a limit of its own", retry.Policy{Overrides: poll}, 7, retry.StopAttempts},
		{"by Timeout", retry.Policy{Timeout: time.Minute, Backoff: retry.Constant(10 * time.Second)}, 6, retry.StopTimeout},
		{"by MaxElapsed", retry.Policy{MaxElapsed: time.Minute, Backoff: retry.Constant(10 * time.Second)}, 7, retry.StopElapsed},
		{"by a hint", retry.Policy{MaxRetryAfter: time.Nanosecond}, 1, retry.StopRetryAfter},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := tt.p
			p.Jitter, p.Clock = retry.NoJitter, newCountingClock()
			err := errNotReady
			if tt.stop == retry.StopRetryAfter {
				err = retry.Mark(errBoom, retry.Verdict{Class: retry.Pending, NotApplied: true, After: time.Second})
			}
			e := peerError(t, p.Execute(t.Context(), func(context.Context) error { return err }))
			assert.Equal(t, tt.stop, e.Stop)
			assert.Equal(t, tt.calls, e.Attempts)
		})
	}
	// Without any limit it goes on until the context ends.
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		calls := 0
		err := (&retry.Policy{MaxAttempts: 2}).Execute(ctx, func(context.Context) error { calls++; return errNotReady })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Greater(t, calls, 1000)
		assert.Less(t, calls, 20_000, "it waits")
	})
}

// An exact wait is the wait itself: no bound, no spread, no backoff; but within limits.
func TestExact(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{0, 1, time.Millisecond, 59 * time.Second, time.Minute} {
		for _, u := range []word{0, 1 << 63, ^word(0)} {
			p := &retry.Policy{Rand: u, Backoff: retry.Constant(time.Hour)}
			for _, class := range []retry.Class{retry.Unknown, retry.Retryable, retry.RateLimited, retry.Pending} {
				v := retry.Verdict{Class: class, After: d, Exact: true}
				got := p.Decide(retry.State{}, v, firstAttempt)
				require.True(t, got.Retry)
				assert.Equal(t, d, got.Delay)
				assert.Equal(t, class, got.Verdict.Class)
			}
		}
	}
	v := retry.Verdict{Class: retry.Retryable, After: time.Minute + 1, Exact: true}
	assert.Equal(t, retry.StopRetryAfter, (&retry.Policy{}).Decide(retry.State{}, v, firstAttempt).Stop)
	v.After = time.Minute
	assert.Equal(t, retry.StopAttempts, (&retry.Policy{}).Decide(retry.State{Failures: 2}, v, firstAttempt).Stop)
	p := &retry.Policy{Timeout: time.Minute}
	assert.Equal(t, retry.StopTimeout, p.Decide(retry.State{First: firstAttempt}, v, firstAttempt).Stop)
}

// A ported backoff that says stop by a negative delay does not become a hot loop.
func TestBackoffThatSaysStop(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{
		MaxAttempts: retry.Unlimited,
		Backoff:     backoffFunc(func(n int) time.Duration { return time.Duration(2-n) * time.Second }),
		Jitter:      retry.NoJitter,
		Clock:       newCountingClock(),
	}
	for _, err := range []error{errBoom, retry.MarkRateLimited(errBoom, time.Millisecond)} {
		e := peerError(t, p.Execute(t.Context(), func(context.Context) error { return err }))
		assert.Equal(t, retry.StopBackoff, e.Stop)
		assert.Equal(t, 3, e.Attempts)
		require.ErrorIs(t, e, retry.ErrBackoffStopped)
		require.EqualError(t, e, "failed after 3 attempts (stopped by the backoff): boom")
	}
	assert.Zero(t, p.Delay(retry.State{Failures: 3}))
	exact := p.Decide(retry.State{Failures: 9}, retry.Verdict{Class: retry.Retryable, Exact: true}, firstAttempt)
	assert.True(t, exact.Retry, "an exact wait asks no backoff")
}

// breaker is a throttle of somebody else's.
type breaker struct {
	successes, asked int
	open             bool
}

func (b *breaker) Deposit(time.Time) { b.successes++ }

func (b *breaker) TryWithdraw(time.Time) bool {
	b.asked++
	return !b.open
}

func TestThrottleOfOnesOwn(t *testing.T) {
	t.Parallel()
	b := &breaker{}
	p := &retry.Policy{Budget: b, Backoff: retry.Constant(0)}
	fn, _ := peerFail(errBoom)
	require.ErrorIs(t, p.Execute(t.Context(), fn), retry.ErrAttemptsExhausted)
	assert.Equal(t, 2, b.asked)
	require.NoError(t, p.Execute(t.Context(), succeed))
	assert.Equal(t, 1, b.successes)
	b.open = true
	require.ErrorIs(t, p.Execute(t.Context(), fn), retry.ErrBudgetExhausted)

	var none *retry.Budget
	p.Budget = none
	require.ErrorIs(t, p.Execute(t.Context(), fn), retry.ErrAttemptsExhausted, "a nil *Budget is none")
	require.NoError(t, p.Execute(t.Context(), succeed))
	require.NoError(t, p.Validate())

	p.Budget = panicking{}
	assert.PanicsWithValue(t, "ouch", func() { _ = p.Execute(t.Context(), fn) })
	assert.PanicsWithValue(t, "ouch", func() { _ = p.Execute(t.Context(), succeed) })
}

type panicking struct{}

func (panicking) Deposit(time.Time) { panic("ouch") }

func (panicking) TryWithdraw(time.Time) bool { panic("ouch") }

// tracer is an Observer that sees attempts.
type tracer struct {
	retrytest.Recorder
	log []string
}

type spanKey struct{}

func (tr *tracer) Attempt(ctx context.Context, n int) (context.Context, func(error)) {
	tr.log = append(tr.log, fmt.Sprint("begin ", n))
	return context.WithValue(ctx, spanKey{}, n), func(err error) {
		tr.log = append(tr.log, fmt.Sprintf("end %d: %v", n, err))
	}
}

func (tr *tracer) Observe(ctx context.Context, e retry.Event) {
	tr.log = append(tr.log, fmt.Sprint(e.Kind, " ", e.Attempt))
	tr.Recorder.Observe(ctx, e)
}

func TestObserverOfAttempts(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{0, time.Hour} {
		var inner, outer tracer
		p := &retry.Policy{
			Backoff: retry.Constant(0), AttemptTimeout: timeout,
			Observer: retry.Observers(&outer, nil, retry.ObserverFunc(func(context.Context, retry.Event) {}), &inner),
		}
		n := 0
		err := p.Execute(t.Context(), func(ctx context.Context) error {
			n++
			assert.Equal(t, n, ctx.Value(spanKey{}))
			_, limited := ctx.Deadline()
			assert.Equal(t, timeout > 0, limited)
			if n == 3 {
				return nil
			}
			return errBoom
		})
		require.NoError(t, err)
		want := []string{
			"begin 1", "end 1: boom", "retrying 1", "begin 2", "end 2: boom", "retrying 2", "begin 3", "end 3: <nil>", "succeeded 3",
		}
		assert.Equal(t, want, outer.log)
		assert.Equal(t, want, inner.log)

		var panicked tracer
		p.Observer = &panicked
		assert.Panics(t, func() { _ = p.Execute(t.Context(), func(context.Context) error { panic("ouch") }) })
		assert.Equal(t, []string{"begin 1", "end 1: retry: worker lost"}, panicked.log)
	}
}

// An Observer may have nothing to say about an attempt.
type shyTracer struct{ retry.ObserverFunc }

func (shyTracer) Attempt(context.Context, int) (context.Context, func(error)) { return nil, nil }

func TestObserverOfAttemptsThatSaysNothing(t *testing.T) {
	t.Parallel()
	ignore := shyTracer{func(context.Context, retry.Event) {}}
	for _, o := range []retry.Observer{ignore, retry.Observers(ignore, ignore)} {
		p := &retry.Policy{Observer: o}
		require.NoError(t, p.Execute(t.Context(), func(ctx context.Context) error {
			assert.Equal(t, t.Context(), ctx)
			return nil
		}))
	}
}
