package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retrypool"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// decideInCall returns the Decision of a Call about a failure with verdict v at
// the instant now, after the failures s, if its context has become ctx by then.
//
//nolint:revive // the arguments are those of Decide, with a context
func decideInCall(p *retry.Policy, ctx context.Context, s retry.State, v retry.Verdict, now time.Time) retry.Decision {
	var q retry.Policy
	if p != nil {
		q = *p
	}
	q.Clock = testkit.Still{At: now}
	call := retry.Call{Policy: &q}
	caller := testkit.LateContext{Context: ctx, Over: make(chan struct{})}
	call.Begin(caller)
	call.State = s
	select {
	case <-ctx.Done():
		close(caller.Over)
	default:
	}
	d := call.EndVerdict(errBoom, v)
	if d.Retry != (d.Err == nil) || d.Err != call.Err() || d.State != call.State {
		panic("Decision and Call disagree")
	}
	d.Err = nil
	return d
}

// callPolicy is a policy for three attempts with waits of 1s and 2s, on a clock and
// with a recorder of its own.
func callPolicy() (*retry.Policy, *retrytest.Clock, *retrytest.Recorder) {
	clock, events := retrytest.NewClock(firstAttempt), &retrytest.Recorder{}
	p := twice(clock)
	p.Observer = events.Observer()
	return p, clock, events
}

// callEnds are all the ways in which an operation ends.
func callEnds() map[string]func(*retry.Call, context.Context, context.CancelCauseFunc) {
	fail := func(err error) func(*retry.Call, context.Context, context.CancelCauseFunc) {
		return func(call *retry.Call, ctx context.Context, _ context.CancelCauseFunc) {
			for call.Begin(ctx) {
				call.End(err)
			}
		}
	}
	return map[string]func(*retry.Call, context.Context, context.CancelCauseFunc){
		"success":  fail(nil),
		"final":    fail(errFinalMark),
		"attempts": fail(errBoom),
		"hint":     fail(retry.MarkRateLimited(errBoom, time.Hour)),
		"canceled in an attempt": func(call *retry.Call, ctx context.Context, cancel context.CancelCauseFunc) {
			call.Begin(ctx)
			cancel(testkit.ErrPeer)
			call.End(errBoom)
		},
		"canceled between attempts": func(call *retry.Call, ctx context.Context, cancel context.CancelCauseFunc) {
			call.Begin(ctx)
			call.End(errBoom)
			cancel(testkit.ErrPeer)
			call.Begin(ctx)
		},
		"canceled before the first": func(call *retry.Call, ctx context.Context, cancel context.CancelCauseFunc) {
			cancel(testkit.ErrPeer)
			call.Begin(ctx)
		},
	}
}

// TestCallAfterItsEnd uses a Call that has ended in each possible way. It does not
// change, and makes no events.
func TestCallAfterItsEnd(t *testing.T) {
	t.Parallel()
	for name, end := range callEnds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, clock, events := callPolicy()
			budget := &retry.Budget{Reserve: 9}
			p.AttemptTimeout, p.Budget = time.Minute, budget
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			call := retry.Call{Policy: p}
			end(&call, ctx, cancel)

			err, last, attempt, state, waited := call.Err(), call.Last, call.Attempt(), call.State, call.Waited
			told, now, left := events.Events(), clock.Now(), testkit.Drain(budget, clock.Now())
			assertSameError(t, last, err, "Last is what Err returns")
			for range 2 {
				assert.False(t, call.Next(ctx))
				assert.False(t, call.Begin(ctx))
				for _, late := range []error{testkit.ErrPeer, nil} {
					want := retry.Decision{State: state, Err: err}
					if err == nil {
						want.Err = late // it is not lost
					}
					assert.Equal(t, want, call.End(late))
					assert.Equal(t, want, call.EndVerdict(late, retryable))
				}
				call.Abort()
				assert.Zero(t, call.Verdict(errBoom))
				assert.False(t, call.TimedOut())
			}
			assertSameError(t, err, call.Err(), "Err")
			assertSameError(t, last, call.Last, "Last")
			assert.Equal(t, []any{attempt, state, waited}, []any{call.Attempt(), call.State, call.Waited})
			assert.Equal(t, told, events.Events())
			assert.Equal(t, now, clock.Now())
			deposit(budget, now, left, 1)
			assert.Equal(t, left, testkit.Drain(budget, now), "the budget was neither charged nor credited")
		})
	}
}

// TestCallEndWithoutBegin checks that such an End decides nothing, and that the
// failure is not lost.
func TestCallEndWithoutBegin(t *testing.T) {
	t.Parallel()
	for name, failures := range map[string]int{"before the first attempt": 0, "between two": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, clock, events := callPolicy()
			call := retry.Call{Policy: p}
			for range failures {
				require.True(t, call.Begin(t.Context()))
				call.End(testkit.ErrPeer)
			}
			state, last, told := call.State, call.Last, events.Events()

			assert.Equal(t, retry.Decision{State: state, Err: errBoom}, call.End(errBoom))
			assert.Equal(t, retry.Decision{State: state, Err: errFinalMark}, call.EndVerdict(errFinalMark, retryable))
			assert.Equal(t, retry.Decision{State: state}, call.End(nil), "no success either")
			assert.NoError(t, call.Err())
			assert.Equal(t, last, call.Last)
			assert.Equal(t, state, call.State)
			assert.Equal(t, failures, call.Attempt())
			assert.Equal(t, told, events.Events())

			before := clock.Now()
			require.True(t, call.Next(t.Context()), "the operation goes on")
			assert.Equal(t, time.Duration(failures)*time.Second, clock.Now().Sub(before), "the wait is still to come")
			assert.Equal(t, failures+1, call.Attempt())
		})
	}
}

// TestCallForgottenEnd checks that attempts without an End are lost, that the error names
// End, and that the policy bounds them. The scripts of internal/test/contract forget it too, with
// every policy and under every context.
func TestCallForgottenEnd(t *testing.T) {
	t.Parallel()
	t.Run("Next", func(t *testing.T) {
		t.Parallel()
		p, clock, events := callPolicy()
		call := retry.Call{Policy: p}
		n := 0
		for call.Next(t.Context()) {
			n++
			require.LessOrEqual(t, n, 3)
			assert.Equal(t, n, call.Attempt())
		}
		e := testkit.As[*retry.Error](t, call.Err())
		require.ErrorIs(t, e.Err, retry.ErrLost)
		require.EqualError(t, e.Err, "retry: Call.End was not called for attempt 3")
		assert.Equal(t, &retry.Error{Attempts: 3, Waited: 3 * time.Second, Stop: retry.StopAttempts, Err: e.Err, State: call.State}, e)
		assert.Equal(t, seconds(1, 2), clock.Sleeps(), "it has waited in between")
		events.Expect(t,
			"1: retry: Call.End was not called for attempt 1: retry in 1s",
			"2: retry: Call.End was not called for attempt 2: retry in 2s",
			"3: gave up (attempts): retry: Call.End was not called for attempt 3")
		assert.Equal(t, "lost", events.Events()[0].Verdict.Category)
	})
	t.Run("one of several", func(t *testing.T) {
		t.Parallel()
		p, _, events := callPolicy()
		call := retry.Call{Policy: p}
		require.True(t, call.Begin(t.Context()))
		require.True(t, call.Next(t.Context()))
		call.End(nil)
		assert.False(t, call.Next(t.Context()))
		assert.NoError(t, call.Err())
		events.Expect(t, "1: retry: Call.End was not called for attempt 1: retry in 1s", "2: succeeded")
	})
	t.Run("it may have taken effect", func(t *testing.T) {
		t.Parallel()
		call := retry.Call{Policy: &retry.Policy{}, NonIdempotent: true}
		require.True(t, call.Begin(t.Context()))
		require.False(t, call.Begin(t.Context()))
		require.ErrorIs(t, call.Err(), retry.StopMaybeApplied)
		require.ErrorIs(t, call.Err(), retry.ErrLost)
	})
	t.Run("its timeout is released", func(t *testing.T) {
		t.Parallel()
		clock := &attemptClock{}
		p := twice(clock)
		p.AttemptTimeout = time.Minute
		call := retry.Call{Policy: p}
		for call.Begin(t.Context()) {
			require.LessOrEqual(t, call.Attempt(), 3)
			assert.Equal(t, len(clock.timeouts)-1, clock.canceled)
		}
		assert.Equal(t, 3, clock.canceled)
	})
}

// TestCallAbort leaves an attempt in every way. Nothing is counted, there is no
// event, and the timeout of the attempt is released.
func TestCallAbort(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(){
		"return": func() {}, "panic": func() { panic("boom") }, "Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, clock, events := callPolicy()
			budget := &retry.Budget{Reserve: 1}
			p.AttemptTimeout, p.Budget = time.Minute, budget
			call := retry.Call{Policy: p}
			try := func() {
				defer call.Abort()
				assert.True(t, call.Next(t.Context()))
				assert.NoError(t, call.Context().Err())
				leave()
			}
			for range 5 { // more often than the policy has attempts
				testkit.Isolated(try)
				assert.Equal(t, context.Canceled, call.Context().Err(), "released")
				assert.Equal(t, 0, call.Attempt())
				assert.Zero(t, call.State.Failures)
				assert.NoError(t, call.Err())
				assert.NoError(t, call.Last)
				assert.False(t, call.TimedOut())
			}
			clock.Advance(time.Hour)
			assert.Empty(t, events.Events())
			assert.Equal(t, 1, testkit.Drain(budget, clock.Now()))

			require.True(t, call.Next(t.Context()), "the operation can go on")
			assert.Equal(t, 1, call.Attempt())
			call.End(nil)
			events.Expect(t, "1: succeeded")
			call.Abort() // does nothing
			assert.False(t, call.Next(t.Context()))
			assert.NoError(t, call.Err())
		})
	}
	t.Run("no attempt", func(t *testing.T) {
		t.Parallel()
		p, clock, events := callPolicy()
		call := retry.Call{Policy: p}
		call.Abort()
		require.True(t, call.Next(t.Context()))
		d := call.End(errBoom)
		call.Abort()
		assert.Equal(t, d.State, call.State)
		require.True(t, call.Next(t.Context()))
		assert.Equal(t, seconds(1), clock.Sleeps(), "the wait was not forgotten")
		events.Expect(t, "1: boom: retry in 1s")
	})
}

// TestCallTimedOut checks when the attempt's own timeout is the cause.
func TestCallTimedOut(t *testing.T) {
	t.Parallel()
	p, clock, events := callPolicy()
	p.AttemptTimeout = 5 * time.Second
	ctx, cancel := context.WithCancel(t.Context())
	call := retry.Call{Policy: p, Unknown: retry.Final, Protocol: func(error) retry.Verdict { panic("asked") }}
	assert.False(t, call.TimedOut(), "before the first attempt")
	require.True(t, call.Next(ctx))
	clock.Advance(5*time.Second - 1)
	assert.False(t, call.TimedOut())
	clock.Advance(1)
	assert.True(t, call.TimedOut())
	timeout := retry.Verdict{Class: retry.Retryable, Category: "timeout"}
	for _, err := range []error{errBoom, context.Canceled, context.DeadlineExceeded, &retry.Error{Err: errBoom}} {
		assert.Equal(t, timeout, call.Verdict(err), "whatever the error says")
	}
	assert.Equal(t, retry.Verdict{Class: retry.Final}, call.Verdict(errFinalMark), "a mark says otherwise")
	p.Classifier = retry.On(retry.RateLimited, testkit.ErrPeer)
	assert.Equal(t, retry.Verdict{Class: retry.RateLimited}, call.Verdict(testkit.ErrPeer), "the Classifier says otherwise")
	assert.Equal(t, timeout, call.Verdict(errBoom), "the Classifier abstains")
	assert.True(t, call.End(errBoom).Retry)
	assert.False(t, call.TimedOut(), "after the attempt")

	require.True(t, call.Next(ctx))
	clock.Advance(time.Minute)
	assert.True(t, call.TimedOut())
	cancel()
	assert.False(t, call.TimedOut(), "the caller's context has ended too")
	call.End(errBoom)
	events.Expect(t, "1: boom: retry in 1s", "2: gave up (canceled): boom")

	untimed := retry.Call{Policy: &retry.Policy{}}
	ctx, cancel = context.WithCancel(t.Context())
	require.True(t, untimed.Next(ctx))
	cancel()
	assert.False(t, untimed.TimedOut(), "there is no timeout")
}

// An Observer may have nothing to say about an attempt.
func saysNothing(context.Context, int) (context.Context, func(error)) { return nil, nil }

// TestCallContextIsAChild checks when the context of an attempt is a child of the
// caller's.
func TestCallContextIsAChild(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		p       retry.Policy
		derived bool
	}{
		{"nothing", retry.Policy{}, false},
		{"an Observer of events", retry.Policy{Observer: new(retrytest.Recorder).Observer()}, false},
		{"an Observer that says nothing", retry.Policy{Observer: &retry.Observer{Attempt: saysNothing}}, false},
		{"an Observer of attempts", retry.Policy{Observer: new(testkit.Tracer).Observer()}, true},
		{"AttemptTimeout", retry.Policy{AttemptTimeout: time.Hour}, true},
		{"Timeout", retry.Policy{Timeout: time.Hour}, true},
		{"all of them", retry.Policy{AttemptTimeout: time.Hour, Timeout: time.Minute, Observer: new(testkit.Tracer).Observer()}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			call := retry.Call{Policy: &tt.p}
			defer call.Abort()
			assert.Nil(t, call.Context(), "no attempt")
			require.True(t, call.Begin(t.Context()))
			assert.Equal(t, !tt.derived, call.Context() == t.Context())
			traced := tt.derived && tt.p.Observer != nil
			assert.Equal(t, traced, call.Context().Value(testkit.Key{}) == 1)
		})
	}
}

// TestCallDetach checks that a detached context lives on until its function is
// called, or its timeout fires.
func TestCallDetach(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(*retry.Call)
	}{
		{"success", func(call *retry.Call) { call.End(nil) }},
		{"failure", func(call *retry.Call) { call.End(errBoom) }},
		{"final", func(call *retry.Call) { call.End(errFinalMark) }},
		{"abort", (*retry.Call).Abort},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, clock, _ := callPolicy()
			p.AttemptTimeout = time.Minute
			begin := func() (*retry.Call, context.Context) {
				call := &retry.Call{Policy: p}
				require.True(t, call.Next(t.Context()))
				return call, call.Context()
			}
			call, ctx := begin()
			cancel := call.Detach()
			tt.end(call)
			require.NoError(t, ctx.Err(), "it lives on")
			call.Next(t.Context())
			call.Abort()
			require.NoError(t, ctx.Err(), "also in the next attempt")
			cancel()
			assert.Equal(t, context.Canceled, ctx.Err())
			cancel() // does nothing

			call, ctx = begin()
			defer call.Detach()()
			tt.end(call)
			clock.Advance(time.Minute)
			assert.Equal(t, context.DeadlineExceeded, ctx.Err(), "the timeout goes on")
		})
	}
	t.Run("TimedOut", func(t *testing.T) {
		t.Parallel()
		p, clock, _ := callPolicy()
		p.AttemptTimeout = time.Minute
		call := retry.Call{Policy: p}
		require.True(t, call.Next(t.Context()))
		clock.Advance(time.Minute)
		require.True(t, call.TimedOut())
		cancel := call.Detach()
		defer cancel()
		assert.False(t, call.TimedOut())
		assert.Zero(t, call.Verdict(errBoom), "not a timeout any more")
		call.End(errBoom)
		require.True(t, call.Next(t.Context()))
		clock.Advance(time.Minute)
		assert.True(t, call.TimedOut(), "the next attempt has a timeout of its own")
	})
	t.Run("nothing to detach", func(t *testing.T) {
		t.Parallel()
		var call retry.Call
		call.Detach()()
		require.True(t, call.Next(t.Context()))
		call.Detach()()
		require.NoError(t, call.Context().Err(), "it is the caller's")
		call.End(nil)
		call.Detach()()
	})
}

// TestCallClassify checks in which order the classifiers are asked.
func TestCallClassify(t *testing.T) {
	t.Parallel()
	protocol := func(err error) retry.Verdict {
		if errors.Is(err, testkit.ErrPeer) {
			return retry.Verdict{Class: retry.RateLimited, Category: "protocol"}
		}
		return retry.Verdict{}
	}
	policy := retry.Policy{Classifier: func(err error) retry.Verdict {
		if errors.Is(err, errFinal) {
			return retry.Verdict{Category: "policy"}
		}
		return retry.Verdict{}
	}}
	both := errors.Join(testkit.ErrPeer, errFinal)
	inner := &retry.Error{Attempts: 3, Stop: retry.StopAttempts, Err: errBoom}
	for _, tt := range []struct {
		name     string
		p        retry.Policy
		classify retry.Classifier
		unknown  retry.Class
		err      error
		want     retry.Verdict
	}{
		{"a mark before all", policy, protocol, retry.Final, retry.MarkRetryable(both), provedRetryable},
		{"a wrapped mark", policy, protocol, retry.Final, fmt.Errorf("x: %w", retry.MarkRetryable(both)), provedRetryable},
		{"the Classifier before Classify", policy, protocol, retry.Final, both, retry.Verdict{Category: "policy"}},
		{"Classify", policy, protocol, retry.Final, testkit.ErrPeer, retry.Verdict{Class: retry.RateLimited, Category: "protocol"}},
		{"Classify, not the function", retry.Policy{}, protocol, 0, context.DeadlineExceeded, retry.Verdict{}},
		{"also for an inner policy that gave up", retry.Policy{}, protocol, 0, inner, retry.Verdict{}},
		{"no Classify", policy, nil, 0, context.DeadlineExceeded, retry.Verdict{Class: retry.Retryable, Category: "timeout"}},
		{"no Classify, an inner policy", policy, nil, 0, inner, retry.Verdict{Class: retry.Final, Category: "gave_up"}},

		{"Unknown", policy, protocol, retry.Final, errBoom, retry.Verdict{Class: retry.Final}},
		{"Unknown without Classify", policy, nil, retry.Final, errBoom, retry.Verdict{Class: retry.Final}},
		{"Unknown by default", policy, protocol, 0, errBoom, retry.Verdict{}},
		{"Unknown is Retryable", policy, protocol, retry.Retryable, errBoom, retryable},
		{
			"Unknown with a category", policy,
			func(error) retry.Verdict { return retry.Verdict{Category: "code_7", NotApplied: true} },
			retry.Final, errBoom,
			retry.Verdict{Class: retry.Final, Category: "code_7", NotApplied: true},
		},
		{
			"not with a hint", policy, func(error) retry.Verdict { return retry.Verdict{After: time.Second} },
			retry.Final, errBoom,
			retry.Verdict{After: time.Second},
		},
		{
			"a hint of nothing is none", policy, func(error) retry.Verdict { return retry.Verdict{After: -1} },
			retry.Final, errBoom,
			retry.Verdict{Class: retry.Final, After: -1},
		},
		{"not for the Classifier", policy, protocol, retry.Final, errFinal, retry.Verdict{Category: "policy"}},
		{"not for a mark", policy, protocol, retry.Final, retry.Mark(errBoom, retry.Verdict{}), retry.Verdict{Category: "unknown"}},
		{"not for an opinion", policy, protocol, retry.Retryable, errFinalMark, retry.Verdict{Class: retry.Final}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			call := retry.Call{Policy: &tt.p, Protocol: tt.classify, Unknown: tt.unknown}
			assert.Zero(t, call.Verdict(tt.err), "no attempt")
			require.True(t, call.Begin(t.Context()))
			assert.Zero(t, call.Verdict(nil))
			assert.Equal(t, tt.want, call.Verdict(tt.err))
			d := call.End(tt.err)
			assert.Equal(t, tt.want.Category, d.Verdict.Category)
			assert.Equal(t, tt.want.Class == retry.Final, d.Stop == retry.StopFinal)
			if d.Stop == retry.StopFinal {
				assertSameError(t, tt.err, d.Err, "as it is")
			}
			assert.Zero(t, call.Verdict(tt.err), "no attempt any more")
		})
	}
}

// TestCallEndVerdict checks that the caller's verdict replaces all others.
func TestCallEndVerdict(t *testing.T) {
	t.Parallel()
	asked := func(error) retry.Verdict { panic("asked") }
	for _, err := range []error{errBoom, errFinalMark} {
		call := retry.Call{Policy: &retry.Policy{Classifier: asked}, Protocol: asked, Unknown: retry.Final}
		require.True(t, call.Begin(t.Context()))
		d := call.EndVerdict(err, retry.Verdict{Category: "mine"})
		assert.True(t, d.Retry)
		assert.Equal(t, retry.Verdict{Category: "mine"}, d.Verdict)
		require.True(t, call.Begin(t.Context()))
		d = call.EndVerdict(err, retry.Verdict{Class: retry.Final, Category: "mine"})
		assert.Equal(t, retry.StopFinal, d.Stop)
		assertSameError(t, err, d.Err, "as it is")
		assertSameError(t, err, call.Err(), "as it is")
	}
	var call retry.Call
	require.True(t, call.Begin(t.Context()))
	assert.Equal(t, retry.Decision{}, call.EndVerdict(nil, retry.Verdict{Class: retry.Final}), "a success")
	require.NoError(t, call.Err())
}

// TestCallOwnBudget checks that the Budget of a Call serves if the Policy has none.
func TestCallOwnBudget(t *testing.T) {
	t.Parallel()
	now := firstAttempt
	for name, ofPolicy := range map[string]*retry.Budget{"": nil, "of the policy": {Ratio: 1, Reserve: 9}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			used := &retry.Budget{Ratio: 1, Reserve: 9}
			p := &retry.Policy{Clock: &countingClock{now: now}}
			call := retry.Call{Policy: p, Budget: used}
			unused := &retry.Budget{Reserve: 9}
			if ofPolicy != nil {
				p.Budget = ofPolicy
				used, unused = ofPolicy, used
			}
			for range 2 {
				require.True(t, call.Begin(t.Context()))
				require.True(t, call.End(errBoom).Retry)
			}
			require.True(t, call.Begin(t.Context()))
			call.End(nil)
			assert.Equal(t, 9-2+1, testkit.Drain(used, now), "two retries and a success")
			assert.Equal(t, 9, testkit.Drain(unused, now))
		})
	}
	empty := &retry.Budget{Reserve: retry.NoReserve}
	p, _, events := callPolicy()
	call := retry.Call{Policy: p, Budget: empty}
	require.True(t, call.Next(t.Context()))
	d := call.End(errBoom)
	assert.Equal(t, retry.StopBudget, d.Stop)
	assert.Equal(t, time.Second, d.Delay)
	assert.Equal(t, &retry.Error{
		Attempts: 1, Stop: retry.StopBudget, RetryAfter: time.Second, Err: errBoom, State: d.State,
	}, call.Err())
	events.Expect(t, "1: gave up (budget): boom")
}

// TestCallAttempt checks the number of attempts around a stored State.
func TestCallAttempt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		state         retry.State
		before, first int
	}{
		{retry.State{}, 0, 1},
		{retry.State{Failures: 2}, 2, 3},
		{retry.State{Failures: 2, RateLimited: 3}, 5, 6},
		{retry.State{Failures: -2, RateLimited: -3}, 0, 1},
		{retry.State{Failures: -2, RateLimited: 3}, 3, 4},
		{retry.State{Failures: math.MaxInt}, math.MaxInt, math.MaxInt},
		{retry.State{Failures: 1, RateLimited: math.MaxInt}, math.MaxInt, math.MaxInt},
	} {
		for _, err := range []error{nil, errBoom, errFinalMark} {
			call := retry.Call{Policy: &retry.Policy{MaxAttempts: retry.Unlimited}, State: tt.state}
			assert.Equal(t, tt.before, call.Attempt())
			require.True(t, call.Begin(t.Context()))
			assert.Equal(t, tt.first, call.Attempt())
			call.Abort()
			assert.Equal(t, tt.before, call.Attempt(), "as if it had not been begun")
			require.True(t, call.Begin(t.Context()))
			call.End(err)
			assert.Equal(t, tt.first, call.Attempt(), "%+v, %v", tt.state, err)
		}
	}
	free := retry.Call{Policy: &retry.Policy{MaxAttempts: 1, FreeRateLimits: 1}}
	require.True(t, free.Begin(t.Context()))
	require.True(t, free.End(retry.MarkRateLimited(errBoom, time.Second)).Retry)
	require.True(t, free.Begin(t.Context()))
	assert.Equal(t, 2, free.Attempt(), "a free attempt is one")
}

//nolint:paralleltest // Allocations are counted for the whole process.
func TestAllocsOfCall(t *testing.T) {
	calls := map[string]retry.Call{
		"plain":    {Policy: &retry.Policy{Backoff: retry.Constant(0)}},
		"protocol": {Policy: &retry.Policy{Backoff: retry.Constant(0)}, Protocol: finalByClassifier, Unknown: retry.Final},
		"elapsed":  {Policy: &retry.Policy{Backoff: retry.Constant(0), MaxElapsed: time.Hour}},
		"budget":   {Policy: &retry.Policy{Backoff: retry.Constant(0)}, Budget: richBudget()},
		"override": {Policy: &retry.Policy{Overrides: map[string]retry.Override{
			"unknown": {Backoff: retry.Constant(0)}, "retryable": {Backoff: retry.Constant(0)},
		}}},
		"observer": {Policy: &retry.Policy{
			Backoff: retry.Constant(0), Observer: &retry.Observer{Event: func(context.Context, retry.Event) {}},
		}},
		"stored": {Policy: &retry.Policy{MaxAttempts: 9, Backoff: retry.Constant(0)}, State: retry.State{Failures: 3, Key: "job 7"}},
	}
	for kind, ctx := range liveContexts(t) {
		for name, literal := range calls {
			t.Run(kind+", "+name, func(t *testing.T) {
				for failures := range 3 {
					var err error
					assertAllocs(t, 0, func() {
						call := literal
						n := 0
						for call.Next(ctx) {
							if n++; n <= failures {
								call.End(errBoom)
							} else {
								sinkDecision = call.End(nil)
							}
						}
						err = call.Err()
					})
					require.NoError(t, err)
				}
				assertAllocs(t, 0, func() {
					call := literal
					defer call.Abort()
					call.Begin(ctx)
					sinkDecision = call.End(errBoom)
				})
				require.True(t, sinkDecision.Retry)
			})
		}
	}
}

// TestCallPolicyTimeout checks that Policy.Timeout ends the operation with the attempt,
// and that the error is not classified.
func TestCallPolicyTimeout(t *testing.T) {
	t.Parallel()
	for _, attempt := range []time.Duration{0, time.Minute} {
		p, clock, events := callPolicy()
		p.Timeout, p.AttemptTimeout = 5*time.Second, attempt
		p.Classifier = func(error) retry.Verdict { panic("asked") }
		call := retry.Call{Policy: p}
		require.True(t, call.Next(t.Context()))
		clock.Advance(5*time.Second - 1)
		assert.False(t, call.TimedOut())
		clock.Advance(1)
		assert.True(t, call.TimedOut())
		assert.Zero(t, call.Verdict(errFinalMark))
		d := call.End(errFinalMark)
		state := retry.State{Failures: 1, First: firstAttempt}
		want := &retry.Error{Attempts: 1, Stop: retry.StopTimeout, Err: errFinalMark, State: state}
		assert.Equal(t, retry.Decision{Counted: true, Limit: 3, Stop: retry.StopTimeout, Err: want, State: state}, d)
		assert.Equal(t, want, call.Err())
		assert.False(t, call.Next(t.Context()))
		events.Expect(t, "1: gave up (timeout): bad request")
	}
}

// TestCallContextEndsInAttempt checks that the context is asked before the error: the
// failure counts, and is not classified.
func TestCallContextEndsInAttempt(t *testing.T) {
	t.Parallel()
	asked := func(error) retry.Verdict { panic("asked") }
	ends := map[retry.StopReason]func(*retrytest.Clock, context.Context) context.Context{
		retry.StopCanceled: func(c *retrytest.Clock, ctx context.Context) context.Context {
			ctx, cancel := context.WithCancelCause(ctx)
			c.At(5*time.Second, func() { cancel(testkit.ErrPeer) })
			return ctx
		},
		retry.StopDeadline: func(c *retrytest.Clock, ctx context.Context) context.Context {
			ctx, cancel := c.WithTimeout(ctx, 5*time.Second)
			t.Cleanup(cancel)
			return ctx
		},
	}
	for stop, end := range ends {
		for _, err := range []error{errBoom, errFinalMark, retry.MarkRateLimited(errBoom, time.Second)} {
			t.Run(fmt.Sprintf("%v, %v", stop, err), func(t *testing.T) {
				t.Parallel()
				p, clock, events := callPolicy()
				p.Classifier, p.FreeRateLimits, p.AttemptTimeout = asked, 5, time.Hour
				ctx := end(clock, t.Context())
				call := retry.Call{Policy: p, Protocol: asked, State: retry.State{Failures: 1, RateLimited: 1}}
				require.True(t, call.Next(ctx))
				clock.Advance(5 * time.Second)
				assert.Zero(t, call.Verdict(err))
				assert.False(t, call.TimedOut())
				d := call.End(err)

				state := retry.State{Failures: 2, RateLimited: 1, First: firstAttempt}
				want := &retry.Error{Attempts: 3, Stop: stop, Err: err, Cause: context.Cause(ctx), State: state}
				assert.Equal(t, want, call.Err())
				assert.Equal(t, retry.Decision{Counted: true, Limit: 3, Stop: stop, Err: want, State: state}, d)
				assertSameError(t, call.Err(), d.Err, "Err")
				assert.False(t, call.Next(ctx))
				assert.Equal(t, []retry.Event{{
					Kind: retry.GaveUp, Attempt: 3, Stop: stop, Err: want, Elapsed: 5 * time.Second,
				}}, events.Events(), "told once")
			})
		}
	}
	t.Run("its timeout is released", func(t *testing.T) {
		t.Parallel()
		clock := &attemptClock{}
		p := twice(clock)
		p.AttemptTimeout = time.Minute
		ctx, cancel := context.WithCancel(t.Context())
		call := retry.Call{Policy: p, State: retry.State{Failures: -2, RateLimited: -2}}
		require.True(t, call.Next(ctx))
		cancel()
		call.End(errBoom)
		assert.Equal(t, 1, clock.canceled)
		assert.Equal(t, 1, testkit.As[*retry.Error](t, call.Err()).Attempts, "a negative count is 0")
	})
	t.Run("a success is one", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		var call retry.Call
		require.True(t, call.Next(ctx))
		cancel()
		assert.Equal(t, retry.Decision{}, call.End(nil))
		assert.NoError(t, call.Err())
		assert.False(t, call.Next(ctx))
		assert.NoError(t, call.Err())
	})
}

// TestCutOff checks that the last failure that says more than that a limit has ended an attempt is
// in the error, and that of the attempt that was cut off beside it.
func TestCutOff(t *testing.T) {
	t.Parallel()
	errCut := errors.New("signal: killed")
	for limit, change := range map[string]func(p *retry.Policy) time.Duration{
		"deadline":       func(*retry.Policy) time.Duration { return 10 * time.Second },
		"Timeout":        func(p *retry.Policy) time.Duration { p.Timeout = 10 * time.Second; return time.Hour },
		"AttemptTimeout": func(p *retry.Policy) time.Duration { p.AttemptTimeout = time.Second; return time.Hour },
	} {
		for script, want := range map[string][2]error{ // f fails, r does so with another error, c is cut off
			"f": {errBoom}, "fc": {errBoom, errCut}, "c": {errCut}, "frc": {errRefused, errCut}, "fr": {errRefused},
			"cc": {errCut}, "fcc": {errBoom, errCut}, "fcr": {errRefused}, "cfc": {errBoom, errCut},
		} {
			if n := strings.IndexByte(script, 'c'); limit != "AttemptTimeout" && n >= 0 && n < len(script)-1 {
				continue // which ends the call
			}
			synctest.Test(t, func(t *testing.T) {
				p := &retry.Policy{Name: "p", MaxAttempts: len(script), Backoff: retry.Constant(time.Second), Jitter: retry.NoJitter}
				end, n := change(p), 0
				attempt := func(ctx context.Context) error {
					n++
					switch script[n-1] {
					case 'f':
						return errBoom
					case 'r':
						return errRefused
					}
					<-ctx.Done()
					return errCut
				}
				pool := retrypool.Pool{Policy: p}
				inPool := func(ctx context.Context, attempt func(context.Context) error) error {
					task := testkit.Must(pool.Submit(ctx, attempt))(t)
					return task.Wait(t.Context())
				}
				for i, run := range []func(context.Context, func(context.Context) error) error{p.Execute, inPool} {
					ctx, cancel := context.WithTimeout(t.Context(), end)
					n = 0
					err := run(ctx, attempt)
					cancel()
					e := testkit.As[*retry.Error](t, err)
					if script == "cc" && i > 0 { // each attempt has a Call
						continue
					}
					assert.Equal(t, want, [2]error{e.Err, e.Cut}, "%s %s", limit, script)
					if e.Cut != nil {
						assert.ErrorIs(t, err, errCut)
						assert.ErrorIs(t, err, want[0])
						assert.ErrorContains(t, err, fmt.Sprintf(": %v; attempt %d was cut off: %v", want[0], len(script), errCut))
					}
				}
				testkit.Must(pool.Close(t.Context()))(t)
			})
		}
	}
}

// TestNotApplied checks that an error says whether each of the attempts certainly had no effect.
func TestNotApplied(t *testing.T) {
	t.Parallel()
	none, some := retry.MarkRetryable(errBoom), errors.New("odd")
	for name, tt := range map[string]struct {
		state retry.State
		errs  []error
		want  bool
	}{
		"one": {errs: []error{none}, want: true}, "all": {errs: []error{none, none, none}, want: true},
		"the first had one": {errs: []error{some, none, none}}, "the last had one": {errs: []error{none, some}},
		"before": {state: retry.State{Failures: 1}, errs: []error{none}}, "none": {want: true},
		"progress": {errs: []error{some, retry.MarkProgress(none)}},
	} {
		p := &retry.Policy{MaxAttempts: len(tt.errs) + tt.state.Failures, Backoff: retry.Constant(0)}
		ctx, cancel := context.WithCancel(t.Context())
		if len(tt.errs) == 0 {
			cancel()
		}
		c := retry.Call{Policy: p, State: tt.state}
		for c.Next(ctx) && len(tt.errs) > 0 {
			c.End(tt.errs[0])
			tt.errs = tt.errs[1:]
		}
		cancel()
		c.Next(ctx)
		e := testkit.As[*retry.Error](t, c.Err())
		assert.Equal(t, tt.want, e.NotApplied, name)
	}
}

// oddPacer returns nonsense.
type oddPacer struct {
	waited time.Duration
	err    error
	taken  int
	told   []error
}

func (o *oddPacer) Wait(context.Context, *retry.Policy, retry.Waiting) (retry.Turn, time.Duration, error) {
	return 7, o.waited, o.err
}

func (o *oddPacer) Take(*retry.Policy, int) (retry.Turn, int, time.Duration) {
	return 7, o.taken, -time.Hour
}
func (o *oddPacer) Return(*retry.Policy, retry.Turn, int) {}

func (o *oddPacer) Tell(_ *retry.Policy, _ retry.Turn, err error, _ retry.Verdict) time.Duration {
	o.told = append(o.told, err)
	return -1
}

// A Pacer decides when an attempt begins, and whether one does; it hears how each of them ended.
func TestPacerOfOnesOwn(t *testing.T) {
	t.Parallel()
	errBurst := errors.New("burst is 0")
	deadline, cancel := context.WithDeadline(t.Context(), firstAttempt.Add(time.Hour))
	defer cancel()
	for name, tt := range map[string]struct {
		pacer oddPacer
		ctx   context.Context
		want  error
		told  int
	}{
		"at once":         {oddPacer{}, t.Context(), nil, 1},
		"a negative wait": {oddPacer{waited: -time.Hour}, t.Context(), nil, 1},
		"held":            {oddPacer{err: &retry.Error{Stop: retry.StopRetryAfter, RetryAfter: time.Hour}}, t.Context(), retry.StopRetryAfter, 0},
		"an error":        {oddPacer{err: errBurst}, t.Context(), errBurst, 0},
		"retries of it":   {oddPacer{err: &retry.Error{Attempts: 3, Stop: retry.StopAttempts, Err: errBurst}}, t.Context(), errBurst, 0},
		"a deadline":      {oddPacer{err: errBurst}, deadline, retry.StopDeadline, 0},
	} {
		p := &retry.Policy{Quota: &tt.pacer, Clock: retrytest.NewClock(firstAttempt)}
		if err := p.Execute(tt.ctx, func(context.Context) error { return nil }); tt.want == nil {
			require.NoError(t, err, name)
		} else {
			require.ErrorIs(t, err, tt.want, name)
		}
		assert.Len(t, tt.pacer.told, tt.told, name)
	}
	odd := &oddPacer{taken: -7}
	call := retry.Call{Policy: &retry.Policy{Quota: odd}}
	assert.False(t, call.Begin(t.Context()))
	assert.Equal(t, time.Millisecond, call.Delay)
	odd.taken = 1
	require.True(t, call.Begin(t.Context()))
	call.Abort()
	assert.Equal(t, []error{retry.ErrLost}, odd.told, "an attempt without an outcome is told too")
}

func TestExecuteNilFunc(t *testing.T) {
	t.Parallel()
	dead, kill := context.WithCancel(t.Context())
	kill()
	for name, p := range testkit.EveryWay() {
		for _, ctx := range []context.Context{t.Context(), dead, nil} {
			assert.EqualError(t, p.Execute(ctx, nil), "retry: fn is nil", name)
			v, err := retry.Do[int](ctx, p, nil)
			assert.EqualError(t, err, "retry: fn is nil", name)
			assert.Zero(t, v)
		}
	}
	p := &retry.Policy{Observer: &retry.Observer{Event: func(context.Context, retry.Event) { t.Error("there was no call") }}}
	assert.Error(t, p.Execute(t.Context(), nil))
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

// TestExecuteReadsOfTheClock checks how often the clock is read: at most once
// for a failure, and never when nothing needs the time.
func TestExecuteReadsOfTheClock(t *testing.T) {
	t.Parallel()
	observer := &retry.Observer{Event: func(context.Context, retry.Event) {}}
	final := retry.On(retry.Final, errBoom)
	for _, tt := range []struct {
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
	} {
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

func TestExecuteNilContext(t *testing.T) {
	t.Parallel()
	var none context.Context
	for name, p := range testkit.EveryWay() {
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
				Observer:   &retry.Observer{Event: func(context.Context, retry.Event) { cancel() }},
			}
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		p := end(cancel)
		assert.Equal(t, errBoom, p.Execute(ctx, failing(nil)), name)
		assert.Error(t, ctx.Err(), name)
	}
}

func TestMain(m *testing.M) { testkit.NoLeaks(m) }

func TestObservers(t *testing.T) {
	t.Parallel()
	var told []string
	named := func(name string) *retry.Observer {
		return &retry.Observer{Event: func(ctx context.Context, e retry.Event) {
			assert.Equal(t, t.Context(), ctx)
			assert.Equal(t, 7, e.Attempt)
			told = append(told, name)
		}}
	}
	for _, tt := range []struct {
		name string
		o    *retry.Observer
		want []string
	}{
		{"one", retry.Observers(named("a")), []string{"a"}},
		{"in order", retry.Observers(named("a"), named("b"), named("c")), []string{"a", "b", "c"}},
		{"nil among them", retry.Observers(nil, named("a"), nil, named("b"), nil), []string{"a", "b"}},
		{"one in another", retry.Observers(named("a"), retry.Observers(named("b"), nil), named("c")), []string{"a", "b", "c"}},
		{"one twice", retry.Observers(named("a"), named("a")), []string{"a", "a"}},
	} {
		told = nil
		tt.o.Event(t.Context(), retry.Event{Attempt: 7})
		assert.Equal(t, tt.want, told, tt.name)
	}
	assert.Nil(t, retry.Observers())
	assert.Nil(t, retry.Observers(nil, &retry.Observer{}))
}

// TestObserverCancels checks a call whose context the Observer ends.
func TestObserverCancels(t *testing.T) {
	t.Parallel()
	errCause := errors.New("enough")
	canceled := &retry.Error{
		Attempts: 1, Stop: retry.StopCanceled, Err: errBoom, Cause: errCause,
		State: retry.State{Failures: 1, First: firstAttempt},
	}
	for name, tt := range map[string]struct {
		outcome, err error
		want         []string // the timeline
	}{
		"before a wait":    {errBoom, canceled, []string{"1: boom: retry in 2s", "1: gave up (canceled): boom"}},
		"at a success":     {nil, nil, []string{"1: succeeded"}},
		"at a final error": {errFinalMark, errFinalMark, []string{"1: gave up (final): bad request"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			c, events := retrytest.NewClock(firstAttempt), &retrytest.Recorder{}
			hook := &retry.Observer{Event: func(context.Context, retry.Event) { cancel(errCause) }}
			p := &retry.Policy{Jitter: retry.NoJitter, Clock: c, Observer: retry.Observers(hook, events.Observer())}
			assert.Equal(t, tt.err, p.Execute(ctx, retrytest.Script(tt.outcome).Run))
			events.Expect(t, tt.want...)
			assert.Empty(t, c.Sleeps())
		})
	}
}

// TestWaits counts the calls that wait, and that an Observer need not hear of their end.
func TestWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var waits atomic.Int32
		count := &retry.Observer{Wait: func(string) func() {
			waits.Add(1)
			return func() { waits.Add(-1) }
		}}
		shy := &retry.Observer{Wait: func(string) func() { return nil }}
		o := retry.Observers(nil, shy, count, shy)
		testkit.CountsWaiting(t, o, func() float64 { return float64(waits.Load()) })

		job := &retryjob.Stored{Policy: &retry.Policy{Observer: o}}
		require.Equal(t, retryjob.Again, job.Attempt(t.Context(), func(context.Context) error { return errBoom }))
		assert.Zero(t, waits.Load(), "it waits elsewhere")
	})
}
