package retry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
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
	for _, tt := range []struct {
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
	} {
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

type panicking struct{}

func (panicking) Deposit(time.Time) { panic("ouch") }

func (panicking) TryWithdraw(time.Time) bool { panic("ouch") }

func TestObserverOfAttempts(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{0, time.Hour} {
		var inner, outer testkit.Tracer
		p := &retry.Policy{
			Backoff: retry.Constant(0), AttemptTimeout: timeout,
			Observer: retry.Observers(outer.Observer(), nil, &retry.Observer{Event: func(context.Context, retry.Event) {}}, inner.Observer()),
		}
		n := 0
		err := p.Execute(t.Context(), func(ctx context.Context) error {
			n++
			assert.Equal(t, n, ctx.Value(testkit.Key{}))
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
		assert.Equal(t, want, outer.Log)
		assert.Equal(t, want, inner.Log)

		var panicked testkit.Tracer
		p.Observer = panicked.Observer()
		assert.Panics(t, func() { _ = p.Execute(t.Context(), func(context.Context) error { panic("ouch") }) })
		assert.Equal(t, []string{"begin 1", "end 1: retry: worker lost"}, panicked.Log)
	}
}

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
		Policy: &retry.Policy{Timeout: time.Minute, Clock: clock, Observer: events.Observer()},
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

// slow is an operation that fails after d, or when its context ends. It notes how long its
// attempts last.
func slow(clock *retrytest.Clock, d time.Duration, lasted *[]time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		began := clock.Now()
		_ = clock.AdvanceContext(ctx, d)
		*lasted = append(*lasted, clock.Now().Sub(began))
		return errBoom
	}
}

// How long the attempts may last, exactly, where each of them takes up to an hour.
func TestEqualShare(t *testing.T) {
	t.Parallel()
	const s, h = time.Second, time.Hour
	none := retry.Constant(0)
	for _, tt := range []struct {
		name     string
		policy   retry.Policy
		deadline time.Duration // of the context
		takes    time.Duration // an attempt that is not interrupted; 0 is an hour
		want     []time.Duration
	}{
		{"of Timeout", retry.Policy{Timeout: 9 * s, Backoff: none}, 0, 0, []time.Duration{3 * s, 3 * s, 3 * s}},
		{"of the deadline", retry.Policy{Backoff: none}, 9 * s, 0, []time.Duration{3 * s, 3 * s, 3 * s}},
		{"of Timeout, which is sooner", retry.Policy{Timeout: 6 * s, Backoff: none}, 9 * s, 0, []time.Duration{2 * s, 2 * s, 2 * s}},
		{"of the deadline, which is sooner", retry.Policy{Timeout: 9 * s, Backoff: none}, 6 * s, 0, []time.Duration{2 * s, 2 * s, 2 * s}},
		{"rounded down", retry.Policy{Timeout: 10, Backoff: none}, 0, 0, []time.Duration{3, 3, 4}},
		{"of less than a nanosecond each", retry.Policy{Timeout: 2, Backoff: none}, 0, 0, []time.Duration{1, 1}},
		{"the only attempt", retry.Policy{Timeout: 9 * s, MaxAttempts: 1}, 0, 0, []time.Duration{9 * s}},
		{"waits shorten the rest", retry.Policy{Timeout: 9 * s, Backoff: retry.Constant(s)}, 0, 0, []time.Duration{3 * s, 2500 * time.Millisecond, 1500 * time.Millisecond}},
		{"a wait is too long", retry.Policy{Timeout: 9 * s, Backoff: retry.Constant(6 * s)}, 0, 0, []time.Duration{3 * s}},
		{"an attempt leaves time to the others", retry.Policy{Timeout: 12 * s, Backoff: none}, 0, 4500 * time.Millisecond, []time.Duration{4 * s, 4 * s, 4 * s}},
		{"attempts in time", retry.Policy{Timeout: 12 * s, Backoff: none}, 0, s, []time.Duration{s, s, s}},
		{"no limit", retry.Policy{Backoff: none}, 0, 0, []time.Duration{h, h, h}},
		{"of unlimited attempts", retry.Policy{MaxAttempts: retry.Unlimited, Backoff: none}, h + s, 0, []time.Duration{h, s}},
		{
			"more by an Override",
			retry.Policy{MaxAttempts: 2, Timeout: 16 * s, Backoff: none, Overrides: map[string]retry.Override{"timeout": {MaxAttempts: 4}}},
			0, 0,
			[]time.Duration{8 * s, 8 * s},
		},
		{
			"more by an Override, after failures in time",
			retry.Policy{MaxAttempts: 2, Timeout: 10 * s, Backoff: none, Overrides: map[string]retry.Override{"unknown": {MaxAttempts: 4}}},
			0, s,
			[]time.Duration{s, s, s, s},
		},
		{
			"any number by an Override",
			retry.Policy{MaxAttempts: 1, Timeout: h + s, Backoff: none, Overrides: map[string]retry.Override{"unknown": {MaxAttempts: retry.Unlimited}}},
			0, 0,
			[]time.Duration{h, s},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			clock := &retrytest.Clock{}
			p := tt.policy
			p.AttemptTimeout, p.Clock, p.Jitter = retry.EqualShare, clock, retry.NoJitter
			ctx := t.Context()
			if tt.deadline > 0 {
				var cancel context.CancelFunc
				ctx, cancel = clock.WithDeadline(ctx, clock.Now().Add(tt.deadline))
				defer cancel()
			}
			takes := tt.takes
			if takes == 0 {
				takes = h
			}
			var lasted []time.Duration
			require.Error(t, p.Execute(ctx, slow(clock, takes, &lasted)))
			assert.Equal(t, tt.want, lasted)
		})
	}
}

// All attempts take place, and together they take exactly the time left, whatever the
// numbers are, if there are no waits. With waits they never take more.
func TestEqualShareFits(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(30, 6))
	for range 2000 {
		clock := &retrytest.Clock{}
		left := time.Duration(1 + r.Int64N(int64(time.Hour)))
		p := &retry.Policy{
			MaxAttempts: 1 + r.IntN(20), AttemptTimeout: retry.EqualShare, Backoff: retry.Constant(0), Clock: clock,
		}
		left = max(left, time.Duration(p.MaxAttempts))
		if waits := r.IntN(2) == 0; waits {
			p.Backoff = retry.Constant(r.Int64N(int64(left)))
		}
		ctx, cancel := clock.WithDeadline(t.Context(), clock.Now().Add(left))
		if r.IntN(2) == 0 {
			cancel()
			ctx, p.Timeout = t.Context(), left
		}
		start := clock.Now()
		var lasted []time.Duration
		require.Error(t, p.Execute(ctx, slow(clock, math.MaxInt64, &lasted)))
		cancel()
		took := clock.Now().Sub(start)
		if p.Backoff == retry.Constant(0) {
			require.Len(t, lasted, p.MaxAttempts, "%v of %v", p, left)
			require.Equal(t, left, took, "%v of %v", p, left)
			require.LessOrEqual(t, lasted[len(lasted)-1]-lasted[0], time.Duration(p.MaxAttempts), "nearly equal: %v of %v", p, left)
		}
		require.LessOrEqual(t, took, left, "%v of %v", p, left)
		require.NotContains(t, lasted, time.Duration(0), "%v of %v", p, left)
	}
}

// A stored job divides the Timeout that its State began, and no deadline of a worker.
func TestEqualShareOfAStoredJob(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{0, time.Minute} {
		clock := retrytest.NewClock(firstAttempt.Add(20 * time.Second))
		p := &retry.Policy{AttemptTimeout: retry.EqualShare, Timeout: timeout, Clock: clock}
		ctx, cancel := clock.WithDeadline(t.Context(), clock.Now().Add(time.Hour))
		defer cancel()
		var lasted []time.Duration
		job := retryjob.Stored{Policy: p, State: retry.State{Failures: 1, First: firstAttempt}}
		assert.Equal(t, retryjob.Again, job.Attempt(ctx, slow(clock, 30*time.Minute, &lasted)))
		want := 30 * time.Minute
		if timeout > 0 {
			want = 20 * time.Second // 40 s and two attempts
		}
		assert.Equal(t, []time.Duration{want}, lasted)
	}
}

func TestEqualShareAsData(t *testing.T) {
	t.Parallel()
	p := retry.Policy{AttemptTimeout: retry.EqualShare, Timeout: time.Minute}
	require.NoError(t, p.Validate())
	assert.Equal(t, "3 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s; attempts share the time left; timeout 1m0s", p.String())
	data := testkit.Must(json.Marshal(p))(t)
	assert.JSONEq(t, `{"attempt_timeout":"equal_share","timeout":"1m0s"}`, string(data))
	var read retry.Policy
	require.NoError(t, json.Unmarshal(data, &read))
	assert.Equal(t, p, read)

	require.ErrorContains(t, json.Unmarshal([]byte(`{"attempt_timeout":"share"}`), &read),
		`attempt_timeout: "share": must be a duration like "1m30s", or a number of seconds`)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"attempt_timeout":"-2562047h47m16.854775808s"}`), &read), "must not be negative")
	require.ErrorContains(t, json.Unmarshal([]byte(`{"timeout":"equal_share"}`), &read), "timeout: ")
	p.MaxAttempts = retry.Unlimited
	require.EqualError(t, p.Validate(), "retry: invalid policy: "+
		"attempt_timeout: equal_share: has no share of unlimited attempts; set max_attempts")
}

func TestPolicyString(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for _, tt := range []struct {
		policy retry.Policy
		want   string
	}{
		{retry.Policy{}, "3 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s"},
		{
			retry.Policy{Backoff: retry.Exponential{Initial: 1687500 * time.Microsecond}, Jitter: retry.Proportional(0.5)},
			"3 attempts, 1.6875s ×2 ≤30s, ±50% jitter: waits 844ms–2.53s, 1.69s–5.06s",
		},
		{retry.Policy{Name: "payments"}, "payments: 3 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s"},
		{retry.Policy{MaxAttempts: 1}, "1 attempt"},
		{retry.Policy{MaxAttempts: 1, MaxElapsed: time.Minute, Name: "once"}, "once: 1 attempt within 1m0s"},
		{retry.Policy{MaxAttempts: 2}, "2 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s"},
		{retry.Policy{MaxAttempts: -7}, "3 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s"},
		{retry.Policy{MaxAttempts: 6}, "6 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s, 0–8s, 0–16s, 0–30s"},
		{retry.Policy{MaxAttempts: 7}, "7 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s, 0–8s, 0–16s, 0–30s, …"},
		{
			retry.Policy{MaxAttempts: retry.Unlimited, MaxElapsed: time.Hour},
			"unlimited attempts within 1h0m0s, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s, 0–8s, 0–16s, 0–30s, …",
		},
		{
			retry.Policy{Backoff: retry.Exponential{Initial: 100 * ms, Multiplier: 3}, MaxDelay: s, Jitter: retry.EqualJitter, MaxAttempts: 5},
			"5 attempts, 100ms ×3 ≤1s, equal jitter: waits 50ms–100ms, 150ms–300ms, 450ms–900ms, 500ms–1s",
		},
		{retry.Policy{Backoff: retry.Linear{Initial: s, Step: 500 * ms}, Jitter: retry.NoJitter}, "3 attempts, 1s +500ms ≤30s, no jitter: waits 1s, 1.5s"},
		{
			retry.Policy{Backoff: retry.Fibonacci{Initial: s}, Jitter: retry.PlusMinus(2 * s), MaxAttempts: 5},
			"5 attempts, fibonacci 1s ≤30s, ±2s jitter: waits 0–3s, 0–3s, 0–4s, 1s–5s",
		},
		{retry.Policy{Backoff: retry.Constant(10 * s)}, "3 attempts, constant 10s, ±10% jitter: waits 9s–11s, 9s–11s"},
		{retry.Policy{Backoff: retry.Constant(10 * s), MaxDelay: 20 * s}, "3 attempts, constant 10s ≤20s, ±10% jitter: waits 9s–11s, 9s–11s"},
		{retry.Policy{Backoff: retry.Constant(0)}, "3 attempts, constant 0s, ±10% jitter: waits 0s, 0s"},
		{
			retry.Policy{Backoff: retry.Schedule{s, 5 * s, 30 * s}, MaxAttempts: 4},
			"4 attempts, schedule 1s, 5s, 30s, ±10% jitter: waits 900ms–1.1s, 4.5s–5.5s, 27s–33s",
		},
		{retry.Policy{Backoff: retry.Schedule{}}, "3 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s"},
		{retry.Policy{Backoff: retry.Exponential{Initial: time.Hour}}, "3 attempts, 1h0m0s ×2 ≤1h0m0s, full jitter: waits 0–1h0m0s, 0–1h0m0s"},
		{retry.Policy{MaxAttempts: 2, MaxDelay: s}, "2 attempts, 2s ×2 ≤1s, full jitter: waits 0–1s"},
		{ // all settings
			retry.Policy{
				Name: "task", MaxAttempts: 2, MaxElapsed: time.Hour, AttemptTimeout: 10 * s, Timeout: time.Minute,
				ResetAfter: 30 * s, MaxRetryAfter: 2 * time.Minute, FreeRateLimits: 9, NonIdempotent: true,
				Overrides: map[string]retry.Override{
					"unknown": {MaxAttempts: 1},
					"busy":    {MaxAttempts: 5, Backoff: retry.Constant(s), MaxDelay: s, Jitter: retry.NoJitter},
					"a":       {},
				},
			},
			"task: 2 attempts within 1h0m0s, 2s ×2 ≤30s, full jitter: waits 0–2s; attempt timeout 10s; timeout 1m0s; " +
				"reset after 30s; hints ≤2m0s; 9 free rate limits; only what is not applied; a: as the policy; " +
				"busy: 5 attempts, constant 1s, ≤1s, no jitter; unknown: 1 attempt",
		},
	} {
		t.Run(tt.want, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, tt.policy.String())
			assert.Equal(t, tt.want, fmt.Sprint(tt.policy), "printed by value")
			assert.Equal(t, tt.want, fmt.Sprint(&tt.policy), "printed by pointer")
		})
	}
}

// TestPolicyStringOfAnything checks that no setting makes the text panic or run on.
func TestPolicyStringOfAnything(t *testing.T) {
	t.Parallel()
	for _, b := range manyBackoffs() {
		for _, j := range manyJitters() {
			s := retry.Policy{Backoff: b, Jitter: j, MaxAttempts: retry.Unlimited, MaxElapsed: -1, MaxDelay: -1}.String()
			if len(s) > 1000 {
				t.Fatalf("%d bytes: %s", len(s), s)
			}
		}
	}
	custom := retry.Policy{Backoff: constantOfUser{}, Jitter: jitterOfUser{}}
	assert.Equal(t, "3 attempts, {} ≤30s, {}: waits 1s, 1s", custom.String())
}

// constantOfUser and jitterOfUser are implementations without a text.
type constantOfUser struct{}

func (constantOfUser) Delay(int) time.Duration { return time.Second }

type jitterOfUser struct{}

func (jitterOfUser) Apply(d, _ time.Duration, _ uint64) time.Duration { return d }

// A key that can only be a misspelled class would be a category that no failure has.
func TestValidateMisspelledClass(t *testing.T) {
	t.Parallel()
	const rest = `, or "unknown", "retryable", "rate_limited", "pending", or a category`
	for key, class := range map[string]string{
		"ratelimited": "rate_limited", "RateLimited": "rate_limited", "RATE_LIMITED": "rate_limited",
		"rate-limited": "rate_limited", "rate limited": "rate_limited", "rate_limitted": "rate_limited",
		"Unknown": "unknown", "UNKNOWN": "unknown", "unknow": "unknown", "unknonw": "unknown",
		"Retryable": "retryable", "retriable": "retryable", "retrayble": "retryable", "retryable ": "retryable",
		"Pending": "pending", "pendign": "pending", "pendi\nng": "pending",
	} {
		p := &retry.Policy{Overrides: map[string]retry.Override{key: {MaxAttempts: 1}}}
		want := "retry: invalid policy: overrides: " + strconv.Quote(key) + ": is no class; write " + strconv.Quote(class) + rest
		require.EqualError(t, p.Validate(), want)
		text, err := json.Marshal(map[string]any{"overrides": map[string]any{key: map[string]any{"max_attempts": 1}}})
		require.NoError(t, err)
		require.EqualError(t, json.Unmarshal(text, new(retry.Policy)), want)
	}
	for _, key := range []string{"Final", "FINAL", "fianl"} {
		p := &retry.Policy{Overrides: map[string]retry.Override{key: {}}}
		require.EqualError(t, p.Validate(), `retry: invalid policy: overrides: "`+key+`": final errors are not retried`)
	}
	for _, key := range []string{
		"unknown", "retryable", "rate_limited", "pending", // as they are
		"timeout", "http_429", "rate_limit", "sending", "spending", "known", "retry", "transient", "é", "-", "r",
		strings.Repeat("pending", 1_000_000),
	} {
		require.NoError(t, (&retry.Policy{Overrides: map[string]retry.Override{key: {}}}).Validate(), "%.20s", key)
	}
}

func manyOverrides(n int) map[string]retry.Override {
	all := map[string]retry.Override{}
	for i := range n {
		all["k"+strconv.Itoa(i)] = retry.Override{}
	}
	return all
}

// assertFaults compares everything that is reported, in its order.
func assertFaults(t *testing.T, faults []string, err error) {
	t.Helper()
	if len(faults) == 0 {
		assert.NoError(t, err)
		return
	}
	assert.EqualError(t, err, "retry: invalid policy: "+strings.Join(faults, "\n"))
}

func TestValidate(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	const us, s = time.Microsecond, time.Second
	tiny := func(n int) string {
		return fmt.Sprintf("%dns: is less than a microsecond; write %[1]d * time.Second or %[1]d * time.Millisecond", n)
	}
	override := func(o retry.Override) map[string]retry.Override {
		return map[string]retry.Override{"timeout": o}
	}
	for _, tt := range []struct {
		name   string
		policy retry.Policy
		faults []string
	}{
		{"zero", retry.Policy{}, nil},
		{"everything", retry.Policy{
			Name: "a", MaxAttempts: 1, MaxElapsed: us, AttemptTimeout: us, Timeout: us, ResetAfter: us,
			Backoff: retry.Exponential{Initial: us, Multiplier: 1}, MaxDelay: us, Jitter: retry.Proportional(1),
			MaxRetryAfter: us, FreeRateLimits: 1, NonIdempotent: true,
			Overrides: map[string]retry.Override{"unknown": {MaxAttempts: 1}, "x": {}},
			Budget:    &retry.Budget{Ratio: 1, TTL: us, Reserve: 1},
		}, nil},
		{"without units", retry.Policy{
			MaxElapsed: 1, AttemptTimeout: 2, Timeout: 3, ResetAfter: 4, MaxDelay: 500, MaxRetryAfter: 999,
			Backoff: retry.Linear{Initial: 5, Step: 6}, Jitter: retry.PlusMinus(7),
			Overrides: map[string]retry.Override{
				"a": {MaxDelay: 8, Backoff: retry.Exponential{Initial: 5}},
				"b": {Backoff: retry.Fibonacci{Initial: 9}},
				"c": {Backoff: retry.Constant(10)},
				"d": {Backoff: retry.Schedule{0, 20, us, 30}, MaxDelay: s},
			},
			Budget: &retry.Budget{TTL: 11},
		}, []string{
			`max_elapsed: ` + tiny(1), `attempt_timeout: ` + tiny(2), `timeout: ` + tiny(3), `reset_after: ` + tiny(4),
			`max_delay: ` + tiny(500), `max_retry_after: ` + tiny(999),
			`backoff.linear.initial: ` + tiny(5), `backoff.linear.step: ` + tiny(6), `jitter.plus_minus: ` + tiny(7),
			`overrides.a.max_delay: ` + tiny(8), `overrides.a.backoff.exponential.initial: ` + tiny(5),
			`overrides.b.backoff.fibonacci.initial: ` + tiny(9), `overrides.c.backoff.constant: ` + tiny(10),
			`overrides.d.backoff.schedule[1]: ` + tiny(20), `overrides.d.backoff.schedule[3]: ` + tiny(30),
			`budget.ttl: ` + tiny(11),
		}},
		{"unlimited", retry.Policy{MaxAttempts: retry.Unlimited, FreeRateLimits: math.MaxInt, MaxDelay: longestWait}, nil},

		{"attempts", retry.Policy{MaxAttempts: -3}, []string{`max_attempts: -3: must be at least 1, or 0 for the default`}},
		{"elapsed", retry.Policy{MaxElapsed: -s}, []string{`max_elapsed: -1s: must not be negative`}},
		{"timeout", retry.Policy{AttemptTimeout: -s}, []string{`attempt_timeout: -1s: must not be negative`}},
		{"delay", retry.Policy{MaxDelay: math.MinInt64}, []string{`max_delay: -2562047h47m16.854775808s: must not be negative`}},
		{"hint", retry.Policy{MaxRetryAfter: -s}, []string{`max_retry_after: -1s: must not be negative`}},
		{"free", retry.Policy{FreeRateLimits: -1}, []string{`free_rate_limits: -1: must not be negative`}},

		{"exponential", retry.Policy{Backoff: retry.Exponential{Initial: -s}}, []string{`backoff.exponential.initial: -1s: must not be negative`}},
		{"multiplier below 1", retry.Policy{Backoff: retry.Exponential{Multiplier: 0.5}}, []string{
			`backoff.exponential.multiplier: 0.5: must be a number of at least 1, or 0 for the default`,
		}},
		{"multiplier negative", retry.Policy{Backoff: retry.Exponential{Multiplier: -2}}, []string{
			`backoff.exponential.multiplier: -2: must be a number of at least 1, or 0 for the default`,
		}},
		{"multiplier NaN", retry.Policy{Backoff: retry.Exponential{Multiplier: nan}}, []string{
			`backoff.exponential.multiplier: NaN: must be a number of at least 1, or 0 for the default`,
		}},
		{"multiplier infinite", retry.Policy{Backoff: retry.Exponential{Multiplier: inf}}, []string{
			`backoff.exponential.multiplier: +Inf: must be a number of at least 1, or 0 for the default`,
		}},
		{"multiplier huge", retry.Policy{Backoff: retry.Exponential{Multiplier: math.MaxFloat64}}, nil},
		{"linear", retry.Policy{Backoff: retry.Linear{Initial: -1, Step: -2}}, []string{
			`backoff.linear.initial: -1ns: must not be negative`,
			`backoff.linear.step: -2ns: must not be negative`,
		}},
		{"fibonacci", retry.Policy{Backoff: retry.Fibonacci{Initial: -1}}, []string{`backoff.fibonacci.initial: -1ns: must not be negative`}},
		{"constant", retry.Policy{Backoff: retry.Constant(-1)}, []string{`backoff.constant: -1ns: must not be negative`}},
		{"constant 0", retry.Policy{Backoff: retry.Constant(0)}, nil},
		{"schedule", retry.Policy{Backoff: retry.Schedule{0, -1, s, -s}}, []string{
			`backoff.schedule[1]: -1ns: must not be negative`,
			`backoff.schedule[3]: -1s: must not be negative`,
		}},
		{"empty schedule", retry.Policy{Backoff: retry.Schedule{}}, nil},

		{"fraction negative", retry.Policy{Jitter: retry.Proportional(-0.1)}, []string{`jitter.proportional: -0.1: must be a fraction from 0 to 1`}},
		{"fraction above 1", retry.Policy{Jitter: retry.Proportional(1.01)}, []string{`jitter.proportional: 1.01: must be a fraction from 0 to 1`}},
		{"fraction NaN", retry.Policy{Jitter: retry.Proportional(nan)}, []string{`jitter.proportional: NaN: must be a fraction from 0 to 1`}},
		{"fraction infinite", retry.Policy{Jitter: retry.Proportional(inf)}, []string{`jitter.proportional: +Inf: must be a fraction from 0 to 1`}},
		{"spread", retry.Policy{Jitter: retry.PlusMinus(-s)}, []string{`jitter.plus_minus: -1s: must not be negative`}},
		{"no jitter", retry.Policy{Jitter: retry.NoJitter}, nil},

		{"first delay at the cap", retry.Policy{Backoff: retry.Exponential{Initial: s}, MaxDelay: s}, nil},
		{"first delay above the cap", retry.Policy{Backoff: retry.Exponential{Initial: s + 1}, MaxDelay: s}, []string{
			`backoff.exponential.initial: 1.000000001s: is above max_delay 1s`,
		}},
		{"first linear delay above the cap", retry.Policy{Backoff: retry.Linear{Initial: 2 * s}, MaxDelay: s}, []string{
			`backoff.linear.initial: 2s: is above max_delay 1s`,
		}},
		{"first fibonacci delay above the cap", retry.Policy{Backoff: retry.Fibonacci{Initial: 2 * s}, MaxDelay: s}, []string{
			`backoff.fibonacci.initial: 2s: is above max_delay 1s`,
		}},
		{"constant above the cap", retry.Policy{Backoff: retry.Constant(2 * s), MaxDelay: s}, []string{
			`backoff.constant: 2s: is above max_delay 1s`,
		}},
		{"a long schedule", retry.Policy{Backoff: make(retry.Schedule, 1000)}, nil},
		{"a schedule that is too long", retry.Policy{Backoff: make(retry.Schedule, 1001)}, []string{
			`backoff.schedule: 1001: must have at most 1000 waits`,
		}},
		{"an override's schedule that is too long", retry.Policy{Overrides: map[string]retry.Override{"timeout": {Backoff: make(retry.Schedule, 1_000_000)}}}, []string{
			`overrides.timeout.backoff.schedule: 1000000: must have at most 1000 waits`,
		}},
		{"overrides that are no categories", retry.Policy{Overrides: map[string]retry.Override{
			"429": {}, "5xx": {}, "http_5xx": {}, "HTTP-503": {}, "40001": {}, "sqlstate 40P01": {}, "http_503": {}, "sql_40001": {}, "tier1": {}, "exit_75": {},
		}}, []string{
			`overrides: "40001": is no category; write "sql_40001"`, `overrides: "429": is no category; write "http_429"`,
			`overrides: "5xx": is no category; write each status, such as "http_500", or a class`,
			`overrides: "HTTP-503": is no category; write "http_503"`,
			`overrides: "http_5xx": is no category; write each status, such as "http_500", or a class`,
			`overrides: "sqlstate 40P01": is no category; write "sql_40P01"`,
		}},
		{"many overrides", retry.Policy{Overrides: manyOverrides(1000)}, nil},
		{"too many overrides", retry.Policy{Overrides: manyOverrides(1001)}, []string{`overrides: 1001: must have at most 1000`}},
		{"schedule above the cap", retry.Policy{Backoff: retry.Schedule{s, 3 * s}, MaxDelay: s}, []string{
			`backoff.schedule[1]: 3s: is above max_delay 1s`,
		}},
		{"second delay above the cap", retry.Policy{Backoff: retry.Exponential{Initial: s}, MaxDelay: s + 1}, nil},

		{"override attempts", retry.Policy{Overrides: override(retry.Override{MaxAttempts: -1})}, []string{
			`overrides.timeout.max_attempts: -1: must be at least 1, or 0 for the policy's`,
		}},
		{"override delay", retry.Policy{Overrides: override(retry.Override{MaxDelay: -s})}, []string{
			`overrides.timeout.max_delay: -1s: must not be negative`,
		}},
		{"override backoff", retry.Policy{Overrides: override(retry.Override{Backoff: retry.Constant(-s)})}, []string{
			`overrides.timeout.backoff.constant: -1s: must not be negative`,
		}},
		{"override jitter", retry.Policy{Overrides: override(retry.Override{Jitter: retry.Proportional(2)})}, []string{
			`overrides.timeout.jitter.proportional: 2: must be a fraction from 0 to 1`,
		}},
		{"override backoff above its cap", retry.Policy{Overrides: override(retry.Override{Backoff: retry.Constant(2 * s), MaxDelay: s})}, []string{
			`overrides.timeout.backoff.constant: 2s: is above max_delay 1s`,
		}},
		{"override backoff above the policy's cap", retry.Policy{MaxDelay: s, Overrides: override(retry.Override{Backoff: retry.Constant(2 * s)})}, []string{
			`overrides.timeout.backoff.constant: 2s: is above max_delay 1s`,
		}},
		{"override backoff under a cap of its own", retry.Policy{MaxDelay: s, Overrides: override(retry.Override{Backoff: retry.Constant(2 * s), MaxDelay: 3 * s})}, nil},
		{"override's cap below the policy's backoff", retry.Policy{
			Backoff: retry.Exponential{Initial: 10 * s}, Overrides: override(retry.Override{MaxDelay: 5 * s}),
		}, []string{`overrides.timeout.max_delay: 5s: is below the 10s of the backoff`}},
		{"a cap below the default first delay", retry.Policy{MaxDelay: s}, nil},
		{"override's cap below the default first delay", retry.Policy{Overrides: override(retry.Override{MaxDelay: s})}, nil},
		{"override without a kind", retry.Policy{Overrides: map[string]retry.Override{"": {}}}, []string{`overrides: "": needs a category or a class`}},
		{"override of final", retry.Policy{Overrides: map[string]retry.Override{"final": {}}}, []string{`overrides: final: final errors are not retried`}},

		{"budget", retry.Policy{Budget: &retry.Budget{}}, nil},
		{"budget without reserve", retry.Policy{Budget: &retry.Budget{Reserve: retry.NoReserve}}, nil},
		{"budget ratio", retry.Policy{Budget: &retry.Budget{Ratio: 1.5}}, []string{`budget.ratio: 1.5: must be a fraction from 0 to 1`}},
		{"budget ratio negative", retry.Policy{Budget: &retry.Budget{Ratio: -0.5}}, []string{`budget.ratio: -0.5: must be a fraction from 0 to 1`}},
		{"budget ratio NaN", retry.Policy{Budget: &retry.Budget{Ratio: nan}}, []string{`budget.ratio: NaN: must be a fraction from 0 to 1`}},
		{"budget ratio least", retry.Policy{Budget: &retry.Budget{Ratio: 1e-9}}, nil},
		{"budget ratio too small", retry.Policy{Budget: &retry.Budget{Ratio: 9e-10}}, []string{`budget.ratio: 9e-10: must be at least 1e-09, or 0 for the default`}},
		{"budget ratio smallest", retry.Policy{Budget: &retry.Budget{Ratio: math.SmallestNonzeroFloat64}}, []string{`budget.ratio: 5e-324: must be at least 1e-09, or 0 for the default`}},
		{"budget TTL", retry.Policy{Budget: &retry.Budget{TTL: -s}}, []string{`budget.ttl: -1s: must not be negative`}},
		{"budget reserve", retry.Policy{Budget: &retry.Budget{Reserve: -2}}, []string{`budget.reserve: -2: must not be negative, or NoReserve`}},

		{"custom types", retry.Policy{Backoff: constantOfUser{}, Jitter: jitterOfUser{}, MaxDelay: s}, nil},
		{"custom types in an override", retry.Policy{Overrides: override(retry.Override{Backoff: constantOfUser{}, Jitter: jitterOfUser{}})}, nil},

		{"several", retry.Policy{
			MaxAttempts: -1, FreeRateLimits: -1, MaxElapsed: -s, Backoff: retry.Linear{Step: -s}, Jitter: retry.PlusMinus(-s),
			Overrides: map[string]retry.Override{"b": {MaxAttempts: -1}, "a": {MaxDelay: -1}, "final": {}},
			Budget:    &retry.Budget{Ratio: 2, Reserve: -2},
		}, []string{
			`max_attempts: -1: must be at least 1, or 0 for the default`,
			`max_elapsed: -1s: must not be negative`,
			`free_rate_limits: -1: must not be negative`,
			`backoff.linear.step: -1s: must not be negative`,
			`jitter.plus_minus: -1s: must not be negative`,
			`overrides.a.max_delay: -1ns: must not be negative`,
			`overrides.b.max_attempts: -1: must be at least 1, or 0 for the policy's`,
			`overrides: final: final errors are not retried`,
			`budget.ratio: 2: must be a fraction from 0 to 1`,
			`budget.reserve: -2: must not be negative, or NoReserve`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for range 5 { // Overrides is a map
				assertFaults(t, tt.faults, tt.policy.Validate())
			}
		})
	}
}
