package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// word is a source of jitter that always returns the same word.
type word uint64

func (w word) Uint64() uint64 { return uint64(w) }

// backoffFunc is a Backoff of a user.
type backoffFunc func(n int) time.Duration

func (f backoffFunc) Delay(n int) time.Duration { return f(n) }

var retryable = retry.Verdict{Class: retry.Retryable}

// decided returns the decision about the next failure after so many.
func decided(p *retry.Policy, failures int, v retry.Verdict) retry.Decision {
	return p.Decide(retry.State{Failures: failures}, v, firstAttempt)
}

// TestPolicyDefaults has one row for each line of the table of defaults: a
// policy, and the effect of its zero fields.
func TestPolicyDefaults(t *testing.T) {
	t.Parallel()
	const s = time.Second
	tests := []struct {
		name   string
		policy retry.Policy
		lo, hi []time.Duration // of the first retries
	}{
		{"backoff", retry.Policy{}, seconds(0, 0, 0, 0, 0, 0), seconds(2, 4, 8, 16, 30, 30)},
		{"backoff, no jitter", retry.Policy{Jitter: retry.NoJitter}, seconds(2, 4, 8, 16, 30, 30), seconds(2, 4, 8, 16, 30, 30)},
		{"max delay negative", retry.Policy{MaxDelay: -1}, seconds(0, 0, 0, 0, 0, 0), seconds(2, 4, 8, 16, 30, 30)},
		{"max delay set", retry.Policy{MaxDelay: 5 * s}, seconds(0, 0, 0), seconds(2, 4, 5)},
		{"max delay below the first", retry.Policy{MaxDelay: s}, seconds(0, 0), seconds(1, 1)},
		{"long first delay", retry.Policy{Backoff: retry.Exponential{Initial: 40 * s}}, seconds(0, 0), seconds(40, 40)},
		{"long first linear delay", retry.Policy{Backoff: retry.Linear{Initial: 50 * s}}, seconds(0, 0), seconds(50, 50)},
		{"long first fibonacci delay", retry.Policy{Backoff: retry.Fibonacci{Initial: 60 * s}}, seconds(0, 0), seconds(60, 60)},
		{"long first custom delay", retry.Policy{Backoff: backoffFunc(func(int) time.Duration { return 70 * s })}, seconds(0, 0), seconds(70, 70)},
		{"short first custom delay", retry.Policy{Backoff: backoffFunc(func(n int) time.Duration { return time.Duration(n) * 20 * s })}, seconds(0, 0), seconds(20, 30)},
		{"constant", retry.Policy{Backoff: retry.Constant(100 * s)}, seconds(90, 90), seconds(110, 110)},
		{"constant 0", retry.Policy{Backoff: retry.Constant(0)}, seconds(0, 0), seconds(0, 0)},
		{"constant negative", retry.Policy{Backoff: retry.Constant(-1)}, seconds(1.8, 1.8), seconds(2.2, 2.2)},
		{"constant with a cap", retry.Policy{Backoff: retry.Constant(100 * s), MaxDelay: 200 * s}, seconds(90), seconds(110)},
		{"constant with a jitter", retry.Policy{Backoff: retry.Constant(100 * s), Jitter: retry.FullJitter}, seconds(0), seconds(100)},
		{"schedule", retry.Policy{Backoff: retry.Schedule{10 * s, 100 * s, s}}, seconds(9, 90, 0.9, 0.9), seconds(11, 110, 1.1, 1.1)},
		{"schedule with a default", retry.Policy{Backoff: retry.Schedule{s, -1}}, seconds(0.9, 1.8), seconds(1.1, 2.2)},
		{"empty schedule", retry.Policy{Backoff: retry.Schedule{}}, seconds(0, 0, 0, 0, 0), seconds(2, 4, 8, 16, 30)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for i := range tt.hi {
				lo, hi := tt.policy.Bounds(i + 1)
				assert.Equal(t, tt.lo[i], lo, "shortest wait of retry %d", i+1)
				assert.Equal(t, tt.hi[i], hi, "longest wait of retry %d", i+1)
			}
		})
	}
}

// TestPolicyNil checks that a nil policy is the zero policy in every method that
// has a pointer receiver.
func TestPolicyNil(t *testing.T) {
	t.Parallel()
	var none *retry.Policy
	zero := &retry.Policy{}
	s := retry.State{Failures: 1, Key: "job"}
	assert.Equal(t, zero.Delay(s), none.Delay(s))
	assert.Equal(t, zero.Decide(s, retryable, firstAttempt), none.Decide(s, retryable, firstAttempt))
	assert.Equal(t, zero.Next(s, errRefused, firstAttempt), none.Next(s, errRefused, firstAttempt))
	assert.Equal(t, decideInCall(zero, t.Context(), s, retryable, firstAttempt),
		decideInCall(none, t.Context(), s, retryable, firstAttempt))
	assert.Equal(t, zero.Classify(errRefused), none.Classify(errRefused))
	for n := range 10 {
		lo, hi := zero.Bounds(n)
		nilLo, nilHi := none.Bounds(n)
		assert.Equal(t, [2]time.Duration{lo, hi}, [2]time.Duration{nilLo, nilHi})
	}
	_, exhausted := none.Exhausted(retry.State{Failures: 3}, firstAttempt)
	assert.True(t, exhausted)
	assert.NoError(t, none.Validate())
}

// TestPolicyDelayDrawsAsOften checks that Delay draws as many random words as
// Decide, so that a simulation may use either.
func TestPolicyDelayDrawsAsOften(t *testing.T) {
	t.Parallel()
	for _, b := range []retry.Backoff{nil, retry.Constant(0), retry.Constant(1), retry.Schedule{0, time.Second, 0}} {
		for _, j := range []retry.Jitter{nil, retry.FullJitter, retry.NoJitter, retry.PlusMinus(time.Second)} {
			var drawn [2]int
			for failures := 1; failures <= 4; failures++ {
				words := &countingRand{}
				p := &retry.Policy{MaxAttempts: 9, Backoff: b, Jitter: j, Rand: words}
				p.Delay(retry.State{Failures: failures})
				drawn[0] += words.n
				words.n = 0
				decided(p, failures-1, retryable)
				drawn[1] += words.n
			}
			assert.Equal(t, drawn[1], drawn[0], "%v, %v", b, j)
		}
	}
}

type countingRand struct{ n int }

func (c *countingRand) Uint64() uint64 { c.n++; return 0 }

// TestPolicyForeignJitter checks the same for a Jitter, and its arguments.
func TestPolicyForeignJitter(t *testing.T) {
	t.Parallel()
	for _, bad := range []time.Duration{math.MinInt64, -1, 0, time.Second, time.Hour, longestWait} {
		var gotDelay, gotLimit time.Duration
		var gotWord uint64
		p := &retry.Policy{
			Backoff:  retry.Constant(time.Minute),
			MaxDelay: 10 * time.Second,
			Jitter: jitterFunc(func(delay, limit time.Duration, u uint64) time.Duration {
				gotDelay, gotLimit, gotWord = delay, limit, u
				return bad
			}),
			Rand: word(42),
		}
		want := min(max(bad, 0), 10*time.Second)
		assert.Equal(t, want, p.Delay(retry.State{Failures: 1}))
		assert.Equal(t, want, decided(p, 0, retryable).Delay)
		assert.Equal(t, 10*time.Second, gotDelay, "capped before the jitter")
		assert.Equal(t, 10*time.Second, gotLimit)
		assert.Equal(t, uint64(42), gotWord)
		lo, hi := p.Bounds(1)
		assert.Equal(t, want, lo)
		assert.Equal(t, want, hi)
	}
}

// TestPolicyIsNotChanged checks that nothing that reads a policy writes into it.
func TestPolicyIsNotChanged(t *testing.T) {
	t.Parallel()
	schedule := retry.Schedule{3 * time.Second, -1, time.Second}
	overrides := map[string]retry.Override{"timeout": {MaxAttempts: 2, Backoff: schedule}, "final": {}}
	p := retry.Policy{MaxDelay: -1, Backoff: schedule, Overrides: overrides}
	before := fmt.Sprintf("%#v %#v", schedule, overrides)
	copied := p

	_ = p.String()
	_ = p.Validate()
	_, _ = p.MarshalJSON()
	p.Bounds(2)
	p.Delay(retry.State{Failures: 2})
	decided(&p, 1, retry.Verdict{Category: "timeout"})
	p.Next(retry.State{}, errRefused, firstAttempt)
	p.Exhausted(retry.State{Failures: 3}, firstAttempt)

	assert.Equal(t, before, fmt.Sprintf("%#v %#v", schedule, overrides))
	assert.Equal(t, copied, p)
}

// Loops that go on forever, polls, and limits of a whole call.

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

// breaker is a Throttle of another library.
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
	fn, _ := testkit.Failing(errBoom)
	require.ErrorIs(t, p.Execute(t.Context(), fn), retry.StopAttempts)
	assert.Equal(t, 2, b.asked)
	require.NoError(t, p.Execute(t.Context(), succeed))
	assert.Equal(t, 1, b.successes)
	b.open = true
	require.ErrorIs(t, p.Execute(t.Context(), fn), retry.StopBudget)

	var none *retry.Budget
	p.Budget = none
	require.ErrorIs(t, p.Execute(t.Context(), fn), retry.StopAttempts, "a nil *Budget is none")
	require.NoError(t, p.Execute(t.Context(), succeed))
	require.NoError(t, p.Validate())

	p.Budget = panicking{}
	assert.PanicsWithValue(t, "ouch", func() { _ = p.Execute(t.Context(), fn) })
	assert.PanicsWithValue(t, "ouch", func() { _ = p.Execute(t.Context(), succeed) })
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
			e := testkit.As[*retry.Error](t, p.Execute(t.Context(), func(context.Context) error { return err }))
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

// Polls do not use up the attempts of real errors, and real errors do not use up the
// attempts of polls.
func TestPending(t *testing.T) {
	t.Parallel()
	errNotReady := errors.New("not ready")
	var script []error
	for range 50 {
		script = append(script, retry.MarkPending(errNotReady))
	}
	for range 3 { // never in a row
		script = append(script, errBoom, retry.MarkPending(errNotReady))
	}
	script = append(script, nil)
	clock := newCountingClock()
	var events retrytest.Recorder
	p := &retry.Policy{
		Jitter:    retry.NoJitter,
		Overrides: map[string]retry.Override{"pending": {Backoff: retry.Constant(5 * time.Second)}},
		Budget:    &retry.Budget{Reserve: 3},
		Observer:  &events, Clock: clock,
	}
	n := 0
	require.NoError(t, p.Execute(t.Context(), func(context.Context) error { n++; return script[n-1] }))
	assert.Equal(t, len(script), n)
	want := make([]time.Duration, 50)
	for i := range want {
		want[i] = 5 * time.Second
	}
	assert.Equal(t, append(want, seconds(2, 5, 2, 5, 2, 5)...), clock.waited)
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
	assert.Equal(t, retry.State{Pending: 56, First: firstAttempt}, s)
	d := p.Next(retry.State{Failures: 2}, retry.MarkNotStarted(errBoom), firstAttempt)
	assert.Equal(t, 2, d.State.Failures, "no server has answered")
	d = p.Next(retry.State{Failures: math.MaxInt, Pending: 1}, retry.MarkPending(errBoom), firstAttempt)
	assert.Equal(t, math.MaxInt, d.State.Pending)
}

func TestTimeoutOfAStoredJob(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{Timeout: time.Minute, Jitter: retry.NoJitter}
	s := retry.State{Failures: 1, First: firstAttempt}
	_, exhausted := p.Exhausted(s, firstAttempt.Add(time.Minute-1))
	assert.False(t, exhausted)
	d, exhausted := p.Exhausted(s, firstAttempt.Add(time.Minute))
	require.True(t, exhausted)
	require.ErrorIs(t, d.Err, retry.StopTimeout)
	require.EqualError(t, d.Err, "failed after 1 attempt (timed out)")

	assert.True(t, p.Next(s, errBoom, firstAttempt.Add(56*time.Second-1)).Retry)
	assert.Equal(t, retry.StopTimeout, p.Next(s, errBoom, firstAttempt.Add(56*time.Second)).Stop)
	assert.Equal(t, retry.StopTimeout, p.Next(s, retry.MarkFinal(errBoom), firstAttempt.Add(time.Minute)).Stop)
	s.First = time.Time{}
	assert.True(t, p.Next(s, errBoom, firstAttempt.Add(time.Hour)).Retry, "nobody knows when it began")
}

// A ported backoff that stops by a negative delay does not become a hot loop.
func TestBackoffThatSaysStop(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{
		MaxAttempts: retry.Unlimited,
		Backoff:     backoffFunc(func(n int) time.Duration { return time.Duration(2-n) * time.Second }),
		Jitter:      retry.NoJitter,
		Clock:       newCountingClock(),
	}
	for _, err := range []error{errBoom, retry.MarkRateLimited(errBoom, time.Millisecond)} {
		e := testkit.As[*retry.Error](t, p.Execute(t.Context(), func(context.Context) error { return err }))
		assert.Equal(t, retry.StopBackoff, e.Stop)
		assert.Equal(t, 3, e.Attempts)
		require.ErrorIs(t, e, retry.StopBackoff)
		require.EqualError(t, e, "failed after 3 attempts (stopped by the backoff): boom")
	}
	assert.Zero(t, p.Delay(retry.State{Failures: 3}))
	exact := p.Decide(retry.State{Failures: 9}, retry.Verdict{Class: retry.Retryable, Exact: true}, firstAttempt)
	assert.True(t, exact.Retry, "an exact wait asks no backoff")
}

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
