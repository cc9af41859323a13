package retry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// Verdicts and errors of the tests of the decider.
var (
	provedRetryable = retry.Verdict{Class: retry.Retryable, NotApplied: true}

	errFinalMark = retry.MarkFinal(errors.New("bad request"))
)

// hintOf is the verdict on a server that asks for a wait.
func hintOf(after time.Duration) retry.Verdict {
	return retry.Verdict{Class: retry.RateLimited, NotApplied: true, After: after}
}

// elapsedState is a state whose first attempt began so long before firstAttempt.
func elapsedState(since time.Duration) retry.State {
	return retry.State{First: firstAttempt.Add(-since)}
}

// TestNextEveryStop checks all fields of a Decision and its error, for every
// reason to stop without a context.
func TestNextEveryStop(t *testing.T) {
	t.Parallel()
	const s = time.Second
	now := firstAttempt
	limited := func(after time.Duration) error { return retry.MarkRateLimited(errBoom, after) }
	unlimited := retry.Policy{MaxAttempts: retry.Unlimited, Jitter: retry.NoJitter}
	within := func(d time.Duration) retry.Policy {
		p := unlimited
		p.MaxElapsed = d
		return p
	}
	tests := []struct {
		name  string
		p     retry.Policy
		state retry.State
		err   error
		want  retry.Decision // without its Verdict
		after time.Duration  // of the error
	}{
		{
			"none",
			retry.Policy{Jitter: retry.NoJitter},
			retry.State{Failures: 1},
			errBoom,
			retry.Decision{Retry: true, At: now.Add(4 * s), Delay: 4 * s, Counted: true, Limit: 3, State: retry.State{Failures: 2}},
			0,
		},
		{
			"none, without a wait",
			retry.Policy{Backoff: retry.Constant(0)},
			retry.State{},
			errBoom,
			retry.Decision{Retry: true, At: now, Counted: true, Limit: 3, State: retry.State{Failures: 1}},
			0,
		},
		{
			"final",
			retry.Policy{},
			retry.State{Failures: 1},
			errFinalMark,
			retry.Decision{Counted: true, Limit: 3, Stop: retry.StopFinal, State: retry.State{Failures: 2}},
			0,
		},
		{
			"attempts",
			retry.Policy{MaxAttempts: 2},
			retry.State{Failures: 1, RateLimited: 4},
			errBoom,
			retry.Decision{Counted: true, Limit: 2, Stop: retry.StopAttempts, State: retry.State{Failures: 2, RateLimited: 4}},
			0,
		},
		{
			"attempts, with a hint",
			retry.Policy{MaxAttempts: 1},
			retry.State{},
			limited(5 * s),
			retry.Decision{Counted: true, Limit: 1, Stop: retry.StopAttempts, State: retry.State{Failures: 1}},
			5 * s,
		},
		{
			"elapsed before the wait", within(s), elapsedState(s + 1), errBoom,
			retry.Decision{Counted: true, Limit: retry.Unlimited, Stop: retry.StopElapsed, State: retry.State{Failures: 1, First: now.Add(-s - 1)}},
			0,
		},
		{
			"elapsed after the wait", within(s), elapsedState(0), errBoom,
			retry.Decision{
				At: now.Add(2 * s), Delay: 2 * s, Counted: true, Limit: retry.Unlimited,
				Stop: retry.StopElapsed, State: retry.State{Failures: 1, First: now},
			},
			0,
		},
		{
			"a hint too long", unlimited,
			retry.State{},
			limited(25 * time.Hour),
			retry.Decision{
				At: now.Add(25 * time.Hour), Delay: 25 * time.Hour, Counted: true, Limit: retry.Unlimited,
				Stop: retry.StopRetryAfter, State: retry.State{Failures: 1},
			},
			25 * time.Hour,
		},
		{
			"a free hint too long",
			retry.Policy{FreeRateLimits: 1},
			retry.State{Failures: 1},
			limited(25 * time.Hour),
			retry.Decision{
				At: now.Add(25 * time.Hour), Delay: 25 * time.Hour, Limit: 3,
				Stop: retry.StopRetryAfter, State: retry.State{Failures: 1, RateLimited: 1},
			},
			25 * time.Hour,
		},
		{
			"maybe applied",
			retry.Policy{NonIdempotent: true},
			retry.State{},
			errBoom,
			retry.Decision{Counted: true, Limit: 3, Stop: retry.StopMaybeApplied, State: retry.State{Failures: 1}},
			0,
		},
		{
			"maybe applied, with a hint",
			retry.Policy{NonIdempotent: true},
			retry.State{},
			retry.Mark(errBoom, retry.Verdict{Class: retry.RateLimited, After: 5 * s}),
			retry.Decision{Counted: true, Limit: 3, Stop: retry.StopMaybeApplied, State: retry.State{Failures: 1}},
			5 * s,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := tt.p
			p.Name = "task"
			want := tt.want
			want.Verdict = p.Classify(tt.err)
			assert.Equal(t, want, p.Decide(tt.state, want.Verdict, now))

			switch want.Stop {
			case retry.StopNone:
			case retry.StopFinal:
				want.Err = tt.err
			default:
				attempts := want.State.Failures + want.State.RateLimited
				want.Err = &retry.Error{
					Policy: "task", Attempts: attempts, Stop: want.Stop, RetryAfter: tt.after, Err: tt.err, State: want.State,
					NotApplied: want.Verdict.NotApplied && attempts == 1,
				}
			}
			got := p.Next(tt.state, tt.err, now)
			assert.Equal(t, want, got)
			if want.Stop == retry.StopFinal {
				assertSameError(t, tt.err, got.Err, "a final error is returned as it is")
			}
		})
	}
}

// TestCallPrecedence sets up all reasons to stop at once, and takes
// them away one by one, the one that must be named first.
func TestCallPrecedence(t *testing.T) {
	t.Parallel()
	now := firstAttempt
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	var (
		ctx = untilContext{canceled, now.Add(time.Second)}
		p   = retry.Policy{
			MaxAttempts: 1, MaxElapsed: time.Minute, NonIdempotent: true, MaxRetryAfter: time.Second,
			Backoff: retry.Constant(2 * time.Minute), Jitter: retry.NoJitter,
			Budget: &retry.Budget{Reserve: retry.NoReserve},
		}
		state = elapsedState(time.Minute + 1)
		v     = retry.Verdict{Class: retry.Final, After: time.Hour}
	)
	steps := []struct {
		stop  retry.StopReason
		delay time.Duration
		avoid func()
	}{
		{retry.StopCanceled, 0, func() { ctx.Context = t.Context() }},
		{retry.StopFinal, 0, func() { v.Class = retry.Retryable }},
		{retry.StopMaybeApplied, 0, func() { v.NotApplied = true }},
		{retry.StopAttempts, 0, func() { p.MaxAttempts = 2 }},
		{retry.StopElapsed, 0, func() { state = elapsedState(time.Minute) }},
		{retry.StopRetryAfter, time.Hour, func() { v.After = 0 }},
		{retry.StopElapsed, 2 * time.Minute, func() { p.MaxElapsed = 3 * time.Minute }},
		{retry.StopDeadline, 2 * time.Minute, func() { ctx.deadline = now.Add(time.Hour) }},
		{retry.StopBudget, 2 * time.Minute, func() { p.Budget = nil }},
		{retry.StopNone, 2 * time.Minute, func() {}},
	}
	for i, step := range steps {
		d := decideInCall(&p, ctx, state, v, now)
		assert.Equal(t, step.stop, d.Stop, "step %d", i)
		assert.Equal(t, step.stop == retry.StopNone, d.Retry, "step %d", i)
		assert.Equal(t, step.delay, d.Delay, "%v", step.stop)
		if step.delay == 0 {
			assert.Zero(t, d.At, "%v", step.stop)
		} else {
			assert.Equal(t, now.Add(step.delay), d.At, "%v", step.stop)
		}
		assert.Equal(t, 1, d.State.Failures, "%v: it was a failure", step.stop)
		assert.True(t, d.Counted, "%v", step.stop)
		step.avoid()
	}
}

// TestCallBudget checks when a retry is paid for.
func TestCallBudget(t *testing.T) {
	t.Parallel()
	now := firstAttempt
	free := retry.Verdict{Class: retry.RateLimited, After: time.Second}
	tests := []struct {
		name  string
		p     retry.Policy
		ctx   context.Context
		v     retry.Verdict
		left  int
		delay time.Duration // where the empty budget refuses
	}{
		{"a retry", retry.Policy{}, t.Context(), retryable, 0, 2 * time.Second},
		{"a retry without a wait", retry.Policy{Backoff: retry.Constant(0)}, t.Context(), retryable, 0, 0},
		{"a free retry", retry.Policy{FreeRateLimits: 9}, t.Context(), free, 0, time.Second},
		{"no attempt left", retry.Policy{MaxAttempts: 1}, t.Context(), retryable, 1, 0},
		{"final", retry.Policy{}, t.Context(), retry.Verdict{Class: retry.Final}, 1, 0},
		{"past the deadline", retry.Policy{}, untilContext{t.Context(), now}, retryable, 1, 0},
		{"past the time", retry.Policy{MaxElapsed: 1}, t.Context(), retryable, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := tt.p
			p.Jitter, p.Rand, p.Budget = retry.NoJitter, word(0), &retry.Budget{Reserve: 1}
			s := retry.State{First: now}
			assert.Equal(t, 1, p.Decide(s, retryable, now).State.Failures, "Decide does not know of the budget")
			d := decideInCall(&p, tt.ctx, s, tt.v, now)
			assert.Equal(t, tt.left == 0, d.Retry)
			if tt.left == 0 {
				d = decideInCall(&p, tt.ctx, s, tt.v, now)
				assert.False(t, d.Retry)
				assert.Equal(t, retry.StopBudget, d.Stop)
				assert.Equal(t, tt.delay, d.Delay, "what the wait would have been")
			}
			assert.Equal(t, tt.left, testkit.Drain(p.Budget, now))
		})
	}
}

// TestDecideElapsedBoundary checks MaxElapsed to the nanosecond.
func TestDecideElapsedBoundary(t *testing.T) {
	t.Parallel()
	const limit = 10 * time.Second
	tests := []struct {
		name    string
		elapsed time.Duration
		delay   time.Duration
		v       retry.Verdict
		retry   bool
	}{
		{"the attempt starts at the limit", 4 * time.Second, 6 * time.Second, retryable, true},
		{"1ns later", 4*time.Second + 1, 6 * time.Second, retryable, false},
		{"a delay longer by 1ns", 4 * time.Second, 6*time.Second + 1, retryable, false},
		{"at once, at the limit", limit, 0, retryable, true},
		{"at once, 1ns later", limit + 1, 0, retryable, false},
		{"the hint leads to the limit", 4 * time.Second, 0, hintOf(6 * time.Second), true},
		{"the hint leads 1ns further", 4*time.Second + 1, 0, hintOf(6 * time.Second), false},
		{"the clock went back", -time.Hour, limit, retryable, true},
		{"the clock went back, a delay too long", -time.Hour, limit + 1, retryable, false},
		{"the clock went back for ever", -math.MaxInt64, limit, retryable, true},
		{"an eternity later", math.MaxInt64, 0, retryable, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, u := range []word{0, math.MaxUint64} {
				p := retry.Policy{MaxElapsed: limit, Backoff: retry.Constant(tt.delay), Jitter: retry.NoJitter, Rand: u}
				s := elapsedState(tt.elapsed)
				d := p.Decide(s, tt.v, firstAttempt)
				assert.Equal(t, tt.retry, d.Retry)
				assert.Equal(t, !tt.retry, d.Stop == retry.StopElapsed)

				s.First = time.Time{}
				d = p.Decide(s, tt.v, firstAttempt)
				assert.True(t, d.Retry, "without a beginning there is no limit")
			}
		})
	}
}

// TestCallDeadlineBoundary checks the deadline to the nanosecond: the
// next attempt must begin before it.
func TestCallDeadlineBoundary(t *testing.T) {
	t.Parallel()
	const s = time.Second
	tests := []struct {
		name  string
		room  time.Duration // until the deadline
		delay time.Duration
		v     retry.Verdict
		retry bool
	}{
		{"the deadline equals the delay", 5 * s, 5 * s, retryable, false},
		{"1ns later", 5*s + 1, 5 * s, retryable, true},
		{"the deadline equals the hint", 5 * s, 0, hintOf(5 * s), false},
		{"1ns after the hint", 5*s + 1, 0, hintOf(5 * s), true},
		{"the deadline equals the floor", s, 5 * s, hintOf(1), false},
		{"1ns after the floor", s + 1, 5 * s, hintOf(1), true},
		{"the deadline is now", 0, 0, retryable, false},
		{"the deadline is in 1ns", 1, 0, retryable, true},
		{"the deadline has passed unnoticed", -s, 0, retryable, false},
		{"the deadline passed an eternity ago", math.MinInt64, 0, hintOf(s), false},
		{"the deadline is an eternity away", math.MaxInt64, math.MaxInt64, retryable, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, u := range []word{0, math.MaxUint64} {
				p := retry.Policy{Backoff: retry.Constant(tt.delay), Jitter: retry.NoJitter, Rand: u}
				ctx := untilContext{t.Context(), firstAttempt.Add(tt.room)}
				d := decideInCall(&p, ctx, retry.State{}, tt.v, firstAttempt)
				assert.Equal(t, tt.retry, d.Retry)
				if !tt.retry {
					assert.Equal(t, retry.StopDeadline, d.Stop)
					assert.Equal(t, d.Delay > 0, !d.At.IsZero(), "when it would have been")
				}
				assert.True(t, p.Decide(retry.State{}, tt.v, firstAttempt).Retry, "Decide knows no deadline")
			}
		})
	}
}

// TestDecideMaxRetryAfterBoundary checks the limit of hints to the nanosecond.
func TestDecideMaxRetryAfterBoundary(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		p     retry.Policy
		limit time.Duration
	}{
		{"default", retry.Policy{}, time.Minute},
		{"set", retry.Policy{MaxRetryAfter: 10 * time.Second}, 10 * time.Second},
		{"set below MaxDelay", retry.Policy{MaxRetryAfter: 10 * time.Second, MaxDelay: time.Hour}, 10 * time.Second},
		{"default below MaxDelay", retry.Policy{MaxDelay: 2 * time.Minute}, 2 * time.Minute},
		{"default above MaxDelay", retry.Policy{MaxDelay: time.Second}, time.Minute},
		{"a MaxDelay for the kind", retry.Policy{Overrides: map[string]retry.Override{"rate_limited": {MaxDelay: time.Hour}}}, time.Hour},
		{"a backoff for the kind", retry.Policy{Overrides: map[string]retry.Override{"rate_limited": {Backoff: retry.Constant(time.Hour)}}}, time.Hour},
		{"a MaxDelay for another kind", retry.Policy{Overrides: map[string]retry.Override{"retryable": {MaxDelay: time.Hour}}}, time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := tt.p
			for _, u := range []word{0, math.MaxUint64} {
				p.Rand = u
				d := p.Decide(retry.State{}, hintOf(tt.limit), firstAttempt)
				assert.True(t, d.Retry, "the spread is not compared")
				assert.GreaterOrEqual(t, d.Delay, tt.limit)
				d = p.Decide(retry.State{}, hintOf(tt.limit+1), firstAttempt)
				assert.Equal(t, retry.StopRetryAfter, d.Stop)
				assert.Equal(t, tt.limit+1, d.Delay, "no spread on what the server said")
			}
		})
	}
}

// TestDecideHintedWaits checks both ends of the range of a hinted wait.
func TestDecideHintedWaits(t *testing.T) {
	t.Parallel()
	const s = time.Second
	within := func(d time.Duration) retry.Policy { return retry.Policy{MaxElapsed: d} }
	tests := []struct {
		name   string
		p      retry.Policy
		hint   time.Duration
		room   time.Duration // 0 means no deadline
		lo, hi time.Duration
	}{
		{"a tenth on top", retry.Policy{}, 10 * s, 0, 10 * s, 11 * s},
		{"whatever the backoff", retry.Policy{Backoff: retry.Constant(30 * s)}, 10 * s, 0, 10 * s, 11 * s},
		{"whatever the cap", retry.Policy{MaxDelay: s}, 10 * s, 0, 10 * s, 11 * s},
		{"without jitter", retry.Policy{Jitter: retry.NoJitter}, 10 * s, 0, 10 * s, 10 * s},
		{"a floor of 1s without jitter", retry.Policy{Jitter: retry.NoJitter}, 1, 0, s, s},
		{"with another jitter", retry.Policy{Jitter: retry.PlusMinus(5 * s)}, 10 * s, 0, 10 * s, 11 * s},
		{"the longest", retry.Policy{}, 60 * s, 0, 60 * s, 66 * s},
		{"too long to add to", retry.Policy{MaxRetryAfter: math.MaxInt64}, math.MaxInt64, 0, math.MaxInt64, math.MaxInt64},

		{"a floor of 1s", retry.Policy{}, 1, 0, s, 1100 * ms},
		{"just below the floor", retry.Policy{}, s - 1, 0, s, 1100 * ms},
		{"at the floor", retry.Policy{}, s, 0, s, 1100 * ms},
		{"just above the floor", retry.Policy{}, s + 1, 0, s + 1, s + 1 + 100*ms},
		{"a floor of the backoff", retry.Policy{Backoff: retry.Constant(300 * ms)}, 1, 0, 300 * ms, 330 * ms},
		{"the backoff before its jitter", retry.Policy{Backoff: retry.Constant(300 * ms), Jitter: retry.FullJitter}, 1, 0, 300 * ms, 330 * ms},
		{"a floor of the cap", retry.Policy{MaxDelay: 500 * ms}, 1, 0, 500 * ms, 550 * ms},
		{"the backoff of the first retry", retry.Policy{Backoff: retry.Schedule{200 * ms, 600 * ms}}, 1, 0, 200 * ms, 220 * ms},
		{"no floor", retry.Policy{Backoff: retry.Constant(0)}, 100 * ms, 0, 100 * ms, 110 * ms},

		{"a limit within the range", within(10500 * ms), 10 * s, 0, 10 * s, 10500 * ms},
		{"a limit at its end", within(11 * s), 10 * s, 0, 10 * s, 11 * s},
		{"a limit at its start", within(10 * s), 10 * s, 0, 10 * s, 10 * s},
		{"a deadline within the range", retry.Policy{}, 10 * s, 10500 * ms, 10 * s, 10500*ms - 1},
		{"a deadline at its end", retry.Policy{}, 10 * s, 11 * s, 10 * s, 11*s - 1},
		{"a deadline after its end", retry.Policy{}, 10 * s, 11*s + 1, 10 * s, 11 * s},
		{"a deadline after its start", retry.Policy{}, 10 * s, 10*s + 1, 10 * s, 10 * s},
		{"a limit before the deadline", within(10200 * ms), 10 * s, 10500 * ms, 10 * s, 10200 * ms},
		{"a deadline before the limit", within(10500 * ms), 10 * s, 10200 * ms, 10 * s, 10200*ms - 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			decide := func(u word) retry.Decision {
				p := tt.p
				p.Rand = u
				ctx := t.Context()
				if tt.room > 0 {
					ctx = untilContext{ctx, firstAttempt.Add(tt.room)}
				}
				return decideInCall(&p, ctx, elapsedState(0), hintOf(tt.hint), firstAttempt)
			}
			lo, middle, hi := decide(0), decide(1<<63), decide(math.MaxUint64)
			for _, d := range []retry.Decision{lo, middle, hi} {
				require.True(t, d.Retry, "%v", d.Stop)
				assert.Equal(t, tt.hint, d.Verdict.After)
			}
			assert.Equal(t, tt.lo, lo.Delay)
			assert.Equal(t, tt.hi, hi.Delay)
			assert.InDelta(t, float64(tt.lo)/2+float64(tt.hi)/2, float64(middle.Delay), 1)
		})
	}
	t.Run("the end of the range", func(t *testing.T) {
		t.Parallel()
		const hint = math.MaxInt64 - time.Hour
		p := &retry.Policy{MaxRetryAfter: math.MaxInt64, Rand: word(math.MaxUint64)}
		d := p.Decide(retry.State{}, hintOf(hint), firstAttempt)
		assert.Greater(t, d.Delay, hint+time.Hour-time.Second, "there is still room for a spread")
	})
	t.Run("the backoff of a later retry", func(t *testing.T) {
		t.Parallel()
		p := &retry.Policy{MaxAttempts: 9, FreeRateLimits: 9, Backoff: retry.Schedule{200 * ms, 600 * ms, 700 * ms}, Rand: word(0)}
		for failures, want := range []time.Duration{200 * ms, 600 * ms, 700 * ms, 700 * ms} {
			d := p.Decide(retry.State{Failures: failures, RateLimited: 5}, hintOf(1), firstAttempt)
			assert.Equal(t, want, d.Delay, "free ones do not bring it on")
		}
	})
}

// TestDecideOverrides checks which layer a setting comes from: the category
// before the class before the policy, every field by itself.
func TestDecideOverrides(t *testing.T) {
	t.Parallel()
	p := retry.Policy{
		MaxAttempts: 10,
		Backoff:     retry.Constant(time.Second),
		Jitter:      retry.NoJitter,
		Overrides: map[string]retry.Override{
			"retryable": {MaxAttempts: 5, Backoff: retry.Constant(2 * time.Second)},
			"locked":    {Backoff: retry.Constant(3 * time.Second)},
			"busy":      {MaxAttempts: 20, MaxDelay: 1500 * ms},
			"shy":       {Jitter: retry.EqualJitter},
			"unknown":   {MaxAttempts: 2},
			"final":     {MaxAttempts: 50},
			"":          {MaxAttempts: 77},
		},
		Rand: word(0),
	}
	tests := []struct {
		class    retry.Class
		category string
		limit    int
		delay    time.Duration
	}{
		{retry.Retryable, "", 5, 2 * time.Second},
		{retry.Retryable, "other", 5, 2 * time.Second},
		{retry.Retryable, "locked", 5, 3 * time.Second},
		{retry.Retryable, "busy", 20, 1500 * ms},
		{retry.Retryable, "shy", 5, time.Second},
		{retry.RateLimited, "", 10, time.Second},
		{retry.RateLimited, "locked", 10, 3 * time.Second},
		{retry.RateLimited, "busy", 20, time.Second},
		{retry.RateLimited, "retryable", 5, 2 * time.Second},
		{retry.Unknown, "", 2, time.Second},
		{retry.Unknown, "busy", 20, time.Second},
		{200, "", 2, time.Second},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%v %s", tt.class, tt.category), func(t *testing.T) {
			t.Parallel()
			v := retry.Verdict{Class: tt.class, Category: tt.category}
			d := p.Decide(retry.State{}, v, firstAttempt)
			assert.True(t, d.Retry)
			assert.Equal(t, tt.limit, d.Limit)
			assert.Equal(t, tt.delay, d.Delay)
			assert.Equal(t, tt.category, d.Verdict.Category)

			// All limits are compared with the one count.
			assert.True(t, p.Decide(retry.State{Failures: tt.limit - 2}, v, firstAttempt).Retry)
			assert.False(t, p.Decide(retry.State{Failures: tt.limit - 1}, v, firstAttempt).Retry)
		})
	}
	d := p.Decide(retry.State{}, retry.Verdict{Class: retry.Final}, firstAttempt)
	assert.Equal(t, retry.StopFinal, d.Stop, "an override does not make it another class")
}

// TestDecideNormalizesVerdicts checks that the decision has the verdict that it
// is based on.
func TestDecideNormalizesVerdicts(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want retry.Verdict }{
		{retry.Verdict{}, retry.Verdict{}},
		{retry.Verdict{After: time.Second}, retry.Verdict{Class: retry.RateLimited, After: time.Second}},
		{retry.Verdict{After: -time.Second}, retry.Verdict{}},
		{retry.Verdict{Class: retry.RateLimited, After: math.MinInt64}, retry.Verdict{Class: retry.RateLimited}},
		{retry.Verdict{Class: retry.Pending + 1}, retry.Verdict{}},
		{retry.Verdict{Class: 255, After: 1, Category: "x"}, retry.Verdict{Class: retry.RateLimited, After: 1, Category: "x"}},
		{retry.Verdict{Class: retry.Final, After: time.Second}, retry.Verdict{Class: retry.Final, After: time.Second}},
		{provedRetryable, provedRetryable},
	}
	for _, tt := range tests {
		for _, overrides := range []map[string]retry.Override{nil, {"x": {MaxAttempts: 9}}} {
			p := &retry.Policy{Overrides: overrides}
			assert.Equal(t, tt.want, p.Decide(retry.State{}, tt.in, firstAttempt).Verdict)
		}
	}
}

// TestDecisionAt checks the wall time of a decision.
func TestDecisionAt(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{Backoff: retry.Constant(time.Hour), Jitter: retry.NoJitter}
	t.Run("no monotonic reading", func(t *testing.T) {
		t.Parallel()
		now := time.Now()
		require.NotEqual(t, now, now.Round(0), "the system's clock has no monotonic reading")
		for _, d := range []retry.Decision{
			p.Decide(retry.State{}, retryable, now),
			(&retry.Policy{Backoff: retry.Constant(0)}).Decide(retry.State{}, retryable, now),
			p.Decide(retry.State{}, hintOf(100*time.Hour), now),
			decideInCall(p, t.Context(), retry.State{}, retryable, now),
		} {
			assert.Equal(t, d.At.Round(0), d.At)
			assert.Equal(t, now.Add(d.Delay).Round(0), d.At)
		}
	})
	t.Run("the place is kept", func(t *testing.T) {
		t.Parallel()
		now := firstAttempt.In(time.FixedZone("there", 3600))
		assert.Equal(t, now.Add(time.Hour), p.Decide(retry.State{}, retryable, now).At)
	})
	t.Run("the end of time", func(t *testing.T) {
		t.Parallel()
		end := time.Unix(math.MaxInt64-62135596800, 999_999_999)
		require.True(t, end.Add(1).Before(end), "there is time after the end")
		tests := []struct {
			now   time.Time
			delay time.Duration
			want  time.Time
		}{
			{end.Add(-time.Hour), time.Hour, end},
			{end.Add(-time.Hour), time.Hour - 1, end.Add(-1)},
			{end, time.Hour, end},
			{end, 1, end}, // later than this cannot be said
		}
		for _, tt := range tests {
			p := &retry.Policy{Backoff: retry.Constant(tt.delay), Jitter: retry.NoJitter}
			d := p.Decide(retry.State{}, retryable, tt.now)
			assert.True(t, d.Retry)
			assert.Equal(t, tt.delay, d.Delay)
			assert.Equal(t, tt.want, d.At)
		}
	})
}

func TestExhausted(t *testing.T) {
	t.Parallel()
	overridden := retry.Policy{
		MaxAttempts: 4,
		Overrides:   map[string]retry.Override{"unknown": {MaxAttempts: 2}, "busy": {MaxAttempts: 6}, "locked": {MaxDelay: time.Second}},
	}
	below := retry.Policy{MaxAttempts: 4, Overrides: map[string]retry.Override{"unknown": {MaxAttempts: 2}, "busy": {MaxAttempts: -1}}}
	hour := retry.Policy{MaxElapsed: time.Hour}
	tests := []struct {
		name  string
		p     retry.Policy
		state retry.State
		limit int
		want  retry.StopReason
	}{
		{"a first attempt", retry.Policy{}, retry.State{}, 3, retry.StopNone},
		{"one attempt left", retry.Policy{}, retry.State{Failures: 2}, 3, retry.StopNone},
		{"no attempt left", retry.Policy{}, retry.State{Failures: 3}, 3, retry.StopAttempts},
		{"fewer than none", retry.Policy{}, retry.State{Failures: 4}, 3, retry.StopAttempts},
		{"free ones do not count", retry.Policy{}, retry.State{Failures: 2, RateLimited: 100}, 3, retry.StopNone},
		{"free ones are told", retry.Policy{}, retry.State{Failures: 3, RateLimited: 4}, 3, retry.StopAttempts},
		{"a single attempt", retry.Policy{MaxAttempts: 1}, retry.State{Failures: 1}, 1, retry.StopAttempts},
		{"a negative count", retry.Policy{MaxAttempts: 1}, retry.State{Failures: -1}, 1, retry.StopNone},
		{"a negative count of free ones", retry.Policy{}, retry.State{Failures: 3, RateLimited: -4}, 3, retry.StopAttempts},
		{"a negative count when the time is up", hour, retry.State{Failures: -4, RateLimited: 1, First: firstAttempt.Add(-2 * time.Hour)}, 3, retry.StopElapsed},
		{"unlimited", retry.Policy{MaxAttempts: retry.Unlimited}, retry.State{Failures: math.MaxInt - 1}, retry.Unlimited, retry.StopNone},
		{"the largest limit has one left", overridden, retry.State{Failures: 5}, 6, retry.StopNone},
		{"the largest limit has none left", overridden, retry.State{Failures: 6}, 6, retry.StopAttempts},
		{"smaller limits do not count", below, retry.State{Failures: 3}, 4, retry.StopNone},
		{"only the largest does", below, retry.State{Failures: 4}, 4, retry.StopAttempts},
		{"the time is up", hour, elapsedState(time.Hour + 1), 3, retry.StopElapsed},
		{"the time is just up", hour, elapsedState(time.Hour), 3, retry.StopNone},
		{"no beginning", hour, retry.State{Failures: 2}, 3, retry.StopNone},
		{"no limit of time", retry.Policy{}, elapsedState(1000 * time.Hour), 3, retry.StopNone},
		{"a negative limit of time", retry.Policy{MaxElapsed: -1}, elapsedState(time.Hour), 3, retry.StopNone},
		{"the clock went back", hour, elapsedState(-2 * time.Hour), 3, retry.StopNone},
		{"both", hour, retry.State{Failures: 3, First: firstAttempt.Add(-2 * time.Hour)}, 3, retry.StopAttempts},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := tt.p
			p.Name = "task"
			s := tt.state
			s.Key = "job"
			d, exhausted := p.Exhausted(s, firstAttempt)
			assert.Equal(t, tt.want != retry.StopNone, exhausted)
			if !exhausted {
				assert.Equal(t, retry.Decision{}, d)
				return
			}
			s.Failures, s.RateLimited = max(s.Failures, 0), max(s.RateLimited, 0)
			assert.Equal(t, retry.Decision{
				Limit: tt.limit,
				Stop:  tt.want,
				Err:   &retry.Error{Policy: "task", Attempts: s.Failures + s.RateLimited, Stop: tt.want, State: s},
				State: s,
			}, d)
		})
	}
}

// TestNextNil checks that a success decides nothing, and asks no classifier.
func TestNextNil(t *testing.T) {
	t.Parallel()
	s := retry.State{Failures: 9, RateLimited: 9, First: firstAttempt.Add(-time.Hour), Key: "job"}
	p := &retry.Policy{
		MaxElapsed: 1,
		Classifier: func(error) retry.Verdict { panic("asked") },
		Rand:       wordsOf(nil),
	}
	assert.Equal(t, retry.Decision{State: s}, p.Next(s, nil, firstAttempt))
	var none *retry.Policy
	assert.Equal(t, retry.Decision{State: s}, none.Next(s, nil, firstAttempt))
}

// That an attempt could not start is a mark: a category with that name says nothing, and another
// category takes nothing away.
func TestNotStartedIsNoCategory(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{Jitter: retry.NoJitter, Overrides: map[string]retry.Override{
		"not_started": {Backoff: retry.Constant(time.Minute)}, "locked": {MaxAttempts: 7},
	}}
	for _, tt := range []struct {
		v     retry.Verdict
		delay time.Duration
		limit int
	}{
		{retry.Verdict{Class: retry.Pending, NotStarted: true}, time.Minute, retry.Unlimited},
		{retry.Verdict{Class: retry.Pending, NotStarted: true, Category: "locked"}, time.Minute, 7},
		{retry.Verdict{Class: retry.Pending, Category: "locked"}, 2 * time.Second, 7},
		{retry.Verdict{Class: retry.Retryable, NotStarted: true}, 2 * time.Second, 3},
	} {
		d := p.Decide(retry.State{}, tt.v, firstAttempt)
		assert.Equal(t, tt.delay, d.Delay, "%v", tt.v)
		assert.Equal(t, tt.limit, d.Limit, "%v", tt.v)
		began := tt.v.NotStarted && tt.v.Class == retry.Pending
		assert.Equal(t, began, d.Verdict.NotStarted, "%v", tt.v)
		assert.Equal(t, began, !d.State.First.IsZero(), "%v: its limit of time begins", tt.v)
	}
}

var firstAttempt = time.Date(2026, 11, 21, 6, 48, 0, 0, time.UTC)

// TestStateForms pins both forms: rows that were written by an old version have
// to be read by a new one.
func TestStateForms(t *testing.T) {
	t.Parallel()
	east := time.FixedZone("", 5*3600+45*60)
	tests := []struct {
		name       string
		state      retry.State
		json, text string
	}{
		{"zero", retry.State{}, `{}`, ``},
		{"failures", retry.State{Failures: 2}, `{"failures":2}`, `f=2`},
		{"rate limited", retry.State{RateLimited: 1}, `{"rate_limited":1}`, `r=1`},
		{"pending", retry.State{Pending: 4}, `{"pending":4}`, `p=4`},
		{"first", retry.State{First: firstAttempt}, `{"first":"2026-11-21T06:48:00Z"}`, `t=2026-11-21T06:48:00Z`},
		{
			"all",
			retry.State{Failures: 2, RateLimited: 1, First: firstAttempt},
			`{"failures":2,"rate_limited":1,"first":"2026-11-21T06:48:00Z"}`,
			`f=2 r=1 t=2026-11-21T06:48:00Z`,
		},
		{
			"nanoseconds and a zone",
			retry.State{Failures: 1, First: time.Date(2026, 1, 2, 3, 4, 5, 678_900_001, east)},
			`{"failures":1,"first":"2026-01-02T03:04:05.678900001+05:45"}`,
			`f=1 t=2026-01-02T03:04:05.678900001+05:45`,
		},
		{
			"the most",
			retry.State{Failures: math.MaxInt32, RateLimited: math.MaxInt32},
			`{"failures":2147483647,"rate_limited":2147483647}`,
			`f=2147483647 r=2147483647`,
		},
		{"unix epoch", retry.State{First: time.Unix(0, 0).UTC()}, `{"first":"1970-01-01T00:00:00Z"}`, `t=1970-01-01T00:00:00Z`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			data := testkit.Must(json.Marshal(tt.state))(t)
			assert.Equal(t, tt.json, string(data))
			var back retry.State
			require.NoError(t, json.Unmarshal(data, &back))
			assertSameState(t, tt.state, back)

			text := testkit.Must(tt.state.MarshalText())(t)
			assert.Equal(t, tt.text, string(text))
			back = retry.State{}
			require.NoError(t, back.UnmarshalText(text))
			assertSameState(t, tt.state, back)
		})
	}
}

// assertSameState compares everything that is stored.
func assertSameState(t *testing.T, want, got retry.State) {
	t.Helper()
	assert.Equal(t, want.Failures, got.Failures)
	assert.Equal(t, want.RateLimited, got.RateLimited)
	assert.Equal(t, want.Pending, got.Pending)
	assert.True(t, want.First.Equal(got.First), "first: want %v, got %v", want.First, got.First)
	assert.Equal(t, want.First.IsZero(), got.First.IsZero())
}

func TestStateRoundTrip(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		s := retry.State{
			Failures:    int(r.Uint64() >> 1 >> (r.Uint64() % 64)),
			RateLimited: int(r.Uint64() >> 1 >> (r.Uint64() % 64)),
		}
		s.Failures, s.RateLimited = max(s.Failures, 0), max(s.RateLimited, 0) // where an int has 32 bits
		if r.Uint64()%4 > 0 {
			s.First = time.Unix(int64(r.Uint64()%(1<<37)), int64(r.Uint64()%1_000_000_000))
		}
		data := testkit.Must(json.Marshal(s))(t)
		var fromJSON retry.State
		require.NoError(t, json.Unmarshal(data, &fromJSON))
		assertSameState(t, s, fromJSON)

		text := testkit.Must(s.MarshalText())(t)
		var fromText retry.State
		require.NoError(t, fromText.UnmarshalText(text))
		assertSameState(t, s, fromText)
	}
}

// TestStateKeyIsNotStored checks that the key, which the reader knows, is
// neither written nor touched.
func TestStateKeyIsNotStored(t *testing.T) {
	t.Parallel()
	s := retry.State{Failures: 1, Key: "secret-job"}
	data := testkit.Must(json.Marshal(s))(t)
	assert.Equal(t, `{"failures":1}`, string(data))
	text := testkit.Must(s.MarshalText())(t)
	assert.Equal(t, `f=1`, string(text))

	got := retry.State{Failures: 9, RateLimited: 9, First: firstAttempt, Key: "mine"}
	require.NoError(t, json.Unmarshal([]byte(`{"failures":2,"key":"theirs","Key":"theirs"}`), &got))
	assert.Equal(t, retry.State{Failures: 2, Key: "mine"}, got, "what is left out is zero")
	got = retry.State{Failures: 9, RateLimited: 9, First: firstAttempt, Key: "mine"}
	require.NoError(t, got.UnmarshalText([]byte("r=3 k=theirs key=theirs")))
	assert.Equal(t, retry.State{RateLimited: 3, Key: "mine"}, got)
}

// TestStateReading reads forms that this version does not write but another
// may.
func TestStateReading(t *testing.T) {
	t.Parallel()
	all := retry.State{Failures: 2, RateLimited: 1, First: firstAttempt}
	fromJSON := []struct {
		in   string
		want retry.State
	}{
		{`{}`, retry.State{}},
		{`{"failures":0,"rate_limited":0,"first":"0001-01-01T00:00:00Z"}`, retry.State{}},
		{`{"v":2,"failures":2,"trace":{"id":[1,2]},"rate_limited":1,"first":"2026-11-21T06:48:00Z"}`, all},
		{"{\n  \"first\": \"2026-11-21T08:48:00+02:00\",\n  \"rate_limited\": 1,\n  \"failures\": 2\n}", all},
		{`{"failures":null,"rate_limited":null,"first":null}`, retry.State{}},
	}
	for _, tt := range fromJSON {
		var got retry.State
		if assert.NoError(t, json.Unmarshal([]byte(tt.in), &got), "%s", tt.in) {
			assertSameState(t, tt.want, got)
		}
	}
	fromText := []struct {
		in   string
		want retry.State
	}{
		{"", retry.State{}},
		{" \t\n", retry.State{}},
		{"f=0 r=0", retry.State{}},
		{"f=2 r=1 t=2026-11-21T06:48:00Z", all},
		{"  t=2026-11-21T08:48:00+02:00\tr=1\n f=2 ", all},
		{"v=2 f=2 x= trace=a=b r=1 t=2026-11-21T06:48:00Z", all},
		{"f=02 r=+1", retry.State{Failures: 2, RateLimited: 1}},
	}
	for _, tt := range fromText {
		var got retry.State
		if assert.NoError(t, got.UnmarshalText([]byte(tt.in)), "%q", tt.in) {
			assertSameState(t, tt.want, got)
		}
	}
}

// TestStateFaults checks that errors name the fault, and that the state is then
// unchanged.
func TestStateFaults(t *testing.T) {
	t.Parallel()
	fromJSON := []struct{ in, says string }{
		{`{"failures":-1}`, "retry: state: failures: -1: must not be negative"},
		{`{"rate_limited":-7}`, "retry: state: rate_limited: -7: must not be negative"},
		{`{"failures":2.5}`, "failures"},
		{`{"failures":"2"}`, "failures"},
		{`{"failures":1e99}`, "failures"},
		{`{"failures":9223372036854775808}`, "failures"},
		{`{"rate_limited":true}`, "rate_limited"},
		{`{"first":"yesterday"}`, "yesterday"},
		{`{"first":0}`, "retry: state: "},
		{`[]`, "retry: state: "},
		{`"f=2"`, "retry: state: "},
		{`7`, "retry: state: "},
	}
	for _, tt := range fromJSON {
		assertStateFault(t, tt.in, tt.says, func(s *retry.State) error { return json.Unmarshal([]byte(tt.in), s) })
		assertStateFault(t, tt.in, tt.says, func(s *retry.State) error { return s.UnmarshalJSON([]byte(tt.in)) })
	}
	for _, in := range []string{``, `{`, `{"failures":1`, `{"failures":1}}`, `{"failures":1} {}`, `nul`, "\x00", `{failures:1}`} {
		assertStateFault(t, in, "retry: state: ", func(s *retry.State) error { return s.UnmarshalJSON([]byte(in)) })
	}
	fromText := []struct{ in, says string }{
		{"f=-1", "retry: state: failures: -1: must not be negative"},
		{"f=1 r=-2", "retry: state: rate_limited: -2: must not be negative"},
		{"f=", "retry: state: f=: "},
		{"f=two", "retry: state: f=two: "},
		{"f=1.5", "retry: state: f=1.5: "},
		{"f=99999999999999999999", "retry: state: f=99999999999999999999: "},
		{"r=0x1", "retry: state: r=0x1: "},
		{"t=yesterday", "retry: state: t=yesterday: "},
		{"t=", "retry: state: t=: "},
		{"t=2026-11-21", "retry: state: t=2026-11-21: "},
		{"garbage", `retry: state: "garbage": want key=value`},
		{"f=1 \x00\xff", `retry: state: "\x00\xff": want key=value`},
		{`{"failures":1}`, "want key=value"},
	}
	for _, tt := range fromText {
		assertStateFault(t, tt.in, tt.says, func(s *retry.State) error { return s.UnmarshalText([]byte(tt.in)) })
	}
}

func assertStateFault(t *testing.T, in, says string, read func(*retry.State) error) {
	t.Helper()
	before := retry.State{Failures: 3, RateLimited: 4, First: firstAttempt, Key: "k"}
	s := before
	assert.ErrorContains(t, read(&s), says, "%q", in)
	assert.Equal(t, before, s, "%q", in)
}

// TestStateFromStrangers: whatever a message says, the error is short and in one line, and no
// work is done for what is too long.
func TestStateFromStrangers(t *testing.T) { //nolint:paralleltest // it counts allocations
	const size = 10 << 20
	digits, lines := strings.Repeat("9", 60_000), strings.Repeat("\n::error ::\x1b[2J\u202e", 2000)
	for _, text := range []string{
		strings.Repeat("x", size), "f=" + strings.Repeat("9", size), strings.Repeat("f=1 ", size/4), "t=" + strings.Repeat("2", size),
		"f=" + digits, "t=" + digits, lines, "f=" + strings.ReplaceAll(lines, "\n", "\x00"), "t=\u009b" + digits,
	} {
		for _, read := range []func(*retry.State) error{
			func(s *retry.State) error { return s.UnmarshalText([]byte(text)) },
			func(s *retry.State) error { return s.UnmarshalJSON([]byte(text)) },
			func(s *retry.State) error { return s.UnmarshalJSON(fmt.Appendf(nil, `{"failures": %s}`, text)) },
			func(s *retry.State) error { return s.UnmarshalJSON(fmt.Appendf(nil, `{"first": %q}`, text)) },
		} {
			var s retry.State
			err := read(&s)
			require.Error(t, err, "%.20q", text)
			assert.Less(t, len(err.Error()), 1500, "%.20q", text)
			assert.Equal(t, -1, strings.IndexFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }), "%q", err)
		}
		if big := []byte(text); len(big) == size {
			var s retry.State
			assert.Less(t, testing.AllocsPerRun(1, func() { _ = s.UnmarshalText(big) }), 10.0)
		}
	}
}

// TestStateInsideOthers checks that a State serves as a field, behind a pointer,
// in a map and, through its text form, where only strings fit.
func TestStateInsideOthers(t *testing.T) {
	t.Parallel()
	type job struct {
		ID    string                 `json:"id"`
		Retry retry.State            `json:"retry"`
		Last  *retry.State           `json:"last,omitempty"`
		Legs  map[string]retry.State `json:"legs,omitempty"`
	}
	in := job{
		ID:    "a",
		Retry: retry.State{Failures: 1},
		Last:  &retry.State{RateLimited: 2},
		Legs:  map[string]retry.State{"x": {Failures: 3, First: firstAttempt}, "y": {}},
	}
	data := testkit.Must(json.Marshal(in))(t)
	assert.JSONEq(t, `{"id":"a","retry":{"failures":1},"last":{"rate_limited":2},`+
		`"legs":{"x":{"failures":3,"first":"2026-11-21T06:48:00Z"},"y":{}}}`, string(data))
	var out job
	require.NoError(t, json.Unmarshal(data, &out))
	assert.Equal(t, in, out)
}

// TestStateCountSaturates checks that a counter at its maximum stays there.
func TestStateCountSaturates(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{MaxAttempts: retry.Unlimited, FreeRateLimits: math.MaxInt, Jitter: retry.NoJitter}
	now := firstAttempt
	failed := retry.Verdict{Class: retry.Retryable}
	limited := retry.Verdict{Class: retry.RateLimited, After: time.Second}

	d := p.Decide(retry.State{Failures: math.MaxInt - 2}, failed, now)
	assert.True(t, d.Retry)
	assert.Equal(t, math.MaxInt-1, d.State.Failures)
	assert.Equal(t, 30*time.Second, d.Delay, "as after any other failure")
	for range 3 {
		d = p.Decide(d.State, failed, now)
		assert.Equal(t, math.MaxInt, d.State.Failures)
		assert.False(t, d.Retry, "no number of attempts is larger")
	}

	d = p.Decide(retry.State{Failures: math.MaxInt, RateLimited: math.MaxInt - 1}, limited, now)
	assert.True(t, d.Retry)
	assert.Equal(t, math.MaxInt, d.State.RateLimited)
	assert.GreaterOrEqual(t, d.Delay, time.Second)
	d = p.Decide(d.State, limited, now)
	assert.Equal(t, math.MaxInt, d.State.RateLimited)

	d = p.Decide(retry.State{Failures: math.MaxInt, Pending: 1}, retry.Verdict{Class: retry.Pending}, now)
	assert.Equal(t, math.MaxInt, d.State.Pending)
}

// TestStateTextFitsAHeader checks that the text form has no character that a
// header or a shell would quote.
func TestStateTextFitsAHeader(t *testing.T) {
	t.Parallel()
	s := retry.State{Failures: math.MaxInt, RateLimited: math.MaxInt, First: firstAttempt.Add(123456789)}
	text := testkit.Must(s.MarshalText())(t)
	assert.Less(t, len(text), 100)
	assert.Empty(t, strings.Trim(string(text), "frt= 0123456789-:.TZ"), "%s", text)
}

func TestStateAttempts(t *testing.T) {
	t.Parallel()
	for state, want := range map[retry.State]int{
		{}: 0,
		{Failures: 2, RateLimited: 3, Pending: 4}:           9,
		{Failures: 2, Pending: -3}:                          2,
		{Failures: -1, RateLimited: -1, Pending: 1}:         1,
		{Failures: math.MaxInt, RateLimited: 1}:             math.MaxInt,
		{Failures: 1, RateLimited: 1, Pending: math.MaxInt}: math.MaxInt,
		{Failures: math.MaxInt, RateLimited: math.MaxInt}:   math.MaxInt,
	} {
		assert.Equal(t, want, state.Attempts(), "%+v", state)
	}
}

// FuzzStateText checks that a decoded state is valid, and reads the same after
// it was written again.
func FuzzStateText(f *testing.F) {
	for _, seed := range []string{
		"", "f=2 r=1 t=2026-11-21T06:48:00Z", "f=-1", "f=1 f=2", "t=0001-01-01T00:00:00Z", "t=2026-11-21T06:48:00.123456789+05:45",
		"t=9999-12-31T23:59:59Z", "v=2 x= =", "f=9223372036854775807 r=99999999999999999999", "garbage", "\u00a0f=1", "f=1\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		fuzzState(t, text, (*retry.State).UnmarshalText, retry.State.MarshalText)
	})
}

// FuzzStateJSON is FuzzStateText for the other form.
func FuzzStateJSON(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `{"failures":2,"rate_limited":1,"first":"2026-11-21T06:48:00Z"}`, `{"failures":-1}`, `{"failures":1e2}`,
		`{"first":"0001-01-01T00:00:00Z"}`, `{"first":"2026-11-21T06:48:00.5+23:59"}`, `{"v":{"a":[1,null]},"Failures":3}`, `[`, `{"failures":"1"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzState(t, data, (*retry.State).UnmarshalJSON, retry.State.MarshalJSON)
	})
}

func fuzzState(t *testing.T, data []byte, read func(*retry.State, []byte) error, write func(retry.State) ([]byte, error)) {
	t.Helper()
	before := retry.State{Failures: 3, RateLimited: 4, First: firstAttempt, Key: "k"}
	s := before
	if read(&s, data) != nil {
		assert.Equal(t, before, s)
		return
	}
	assert.Equal(t, "k", s.Key)
	assert.GreaterOrEqual(t, s.Failures, 0)
	assert.GreaterOrEqual(t, s.RateLimited, 0)
	again := testkit.Must(write(s))(t)
	var back retry.State
	require.NoError(t, read(&back, again), "%s", again)
	assertSameState(t, s, back)
	twice := testkit.Must(write(back))(t)
	assert.Equal(t, string(again), string(twice))
}
