package retry_test

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// TestCallExhausted checks that a stored operation ends before an attempt that it has not.
func TestCallExhausted(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		policy retry.Policy
		state  retry.State
		stop   retry.StopReason // or StopNone
	}{
		{"new", retry.Policy{}, retry.State{}, retry.StopNone},
		{"one attempt left", retry.Policy{}, retry.State{Failures: 2}, retry.StopNone},
		{"lost attempts", retry.Policy{}, retry.State{Failures: 3}, retry.StopAttempts},
		{"Timeout", retry.Policy{Timeout: time.Hour}, retry.State{Failures: 1, First: firstAttempt.Add(-time.Hour)}, retry.StopTimeout},
		{"MaxElapsed", retry.Policy{MaxElapsed: time.Hour}, retry.State{Failures: 1, First: firstAttempt.Add(-2 * time.Hour)}, retry.StopElapsed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var rec retrytest.Recorder
			tt.policy.Name, tt.policy.Clock, tt.policy.Observer = "jobs", retrytest.NewClock(firstAttempt), &rec
			call := retry.Call{Policy: &tt.policy, State: tt.state, Last: errBoom, Waited: time.Minute}
			d, exhausted := call.Exhausted(t.Context())
			want, wanted := tt.policy.Exhausted(tt.state, firstAttempt)
			require.Equal(t, wanted, exhausted)
			assert.Equal(t, tt.stop, d.Stop)
			if !exhausted {
				assert.Equal(t, retry.Decision{}, d)
				assert.Empty(t, rec.Events())
				assert.True(t, call.Begin(t.Context()))
				return
			}
			assert.Equal(t, want.State, d.State)
			assert.Equal(t, want.Limit, d.Limit)
			assert.False(t, call.Begin(t.Context()))
			assert.Equal(t, call.Err(), d.Err)
			assert.Equal(t, &retry.Error{
				Policy: "jobs", Attempts: tt.state.Failures, Stop: tt.stop, Err: errBoom, Waited: time.Minute,
			}, d.Err)
			events := rec.Events()
			require.Len(t, events, 1)
			assert.Equal(t, retry.GaveUp, events[0].Kind)
			assert.Equal(t, tt.stop, events[0].Stop)
			assert.Equal(t, tt.state.Failures, events[0].Attempt)
			if !tt.state.First.IsZero() {
				assert.Equal(t, firstAttempt.Sub(tt.state.First), events[0].Elapsed)
			}
		})
	}
	t.Run("during an attempt and at the end", func(t *testing.T) {
		t.Parallel()
		call := retry.Call{State: retry.State{Failures: 9}}
		require.True(t, call.Begin(t.Context()))
		_, exhausted := call.Exhausted(t.Context())
		assert.False(t, exhausted)
		d := call.End(errBoom)
		require.Error(t, d.Err)
		_, exhausted = call.Exhausted(t.Context())
		assert.False(t, exhausted)
		assert.Equal(t, d.Err, call.Err())
	})
}

// TestCallLost checks that attempts without an outcome are failures, and that the last of
// them may have taken effect.
func TestCallLost(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		policy   retry.Policy
		call     retry.Call
		n        int
		stop     retry.StopReason // or StopNone
		failures int
	}{
		{"none", retry.Policy{NonIdempotent: true}, retry.Call{}, 0, retry.StopNone, 1},
		{"less than none", retry.Policy{}, retry.Call{}, -1, retry.StopNone, 1},
		{"one", retry.Policy{}, retry.Call{}, 1, retry.StopNone, 2},
		{"too many", retry.Policy{}, retry.Call{}, 2, retry.StopAttempts, 3},
		{"most", retry.Policy{MaxAttempts: retry.Unlimited}, retry.Call{}, math.MaxInt, retry.StopAttempts, math.MaxInt},
		{"not idempotent", retry.Policy{NonIdempotent: true}, retry.Call{}, 1, retry.StopMaybeApplied, 2},
		{"the call is not", retry.Policy{}, retry.Call{NonIdempotent: true}, 1, retry.StopMaybeApplied, 2},
		{"several", retry.Policy{NonIdempotent: true}, retry.Call{}, 2, retry.StopMaybeApplied, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			call := tt.call
			call.Policy, call.State, call.Stored = &tt.policy, retry.State{Failures: 1}, true
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // does not matter
			d, exhausted := call.Lost(ctx, tt.n)
			assert.Equal(t, tt.stop != retry.StopNone, exhausted)
			assert.Equal(t, tt.stop, d.Stop)
			assert.Equal(t, tt.failures, call.State.Failures)
			assert.Equal(t, !exhausted, call.Begin(t.Context()))
			if exhausted {
				assert.Equal(t, call.Err(), d.Err)
			}
			if tt.stop == retry.StopMaybeApplied {
				assert.ErrorIs(t, d.Err, retry.ErrLost)
			}
		})
	}
}

// TestCallStored checks that a stored operation waits beyond the deadline of an attempt,
// but not in the attempt.
func TestCallStored(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := &retry.Policy{Backoff: retry.Constant(time.Hour), MaxDelay: time.Hour, MaxRetryAfter: time.Hour}
	timed := *p
	timed.AttemptTimeout = time.Second
	for _, p := range []*retry.Policy{p, &timed} {
		for _, stored := range []bool{false, true} {
			call := retry.Call{Policy: p, Stored: stored}
			require.True(t, call.Begin(ctx))
			_, dated := call.Context().Deadline()
			assert.True(t, dated)
			assert.False(t, call.Hold(ctx, 2*time.Minute))
			require.NoError(t, ctx.Err(), "Hold has waited")
			d := call.End(errBoom)
			assert.Equal(t, stored, d.Retry, "%v", d.Err)
			if !stored {
				assert.Equal(t, retry.StopDeadline, d.Stop)
			}
		}
	}
}

// TestCallStoredGoesOn checks that a stored operation does not end with its worker.
func TestCallStoredGoesOn(t *testing.T) {
	t.Parallel()
	p, _, events := callPolicy()
	p.AttemptTimeout = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	call := retry.Call{Policy: p, Stored: true}
	assert.False(t, call.Begin(ctx))
	assert.False(t, call.Next(ctx))
	require.NoError(t, call.Err())
	assert.Equal(t, retry.State{}, call.State)
	assert.Empty(t, events.Events())
	require.True(t, call.Begin(t.Context()))
	call.End(nil)
	events.Expect(t, "1: succeeded")
}

// TestCallInterrupted checks which failures are the worker's, and that the others are
// judged as if the context lived on.
func TestCallInterrupted(t *testing.T) {
	t.Parallel()
	canceled, cancel := context.WithCancelCause(context.Background())
	cancel(testkit.ErrPeer)
	late, cancelLate := context.WithDeadline(context.Background(), time.Unix(0, 0))
	t.Cleanup(cancelLate)
	alive, once := context.Background(), retry.Policy{NonIdempotent: true}
	tests := []struct {
		name        string
		ctx         context.Context //nolint:containedctx // how it ends
		policy      retry.Policy
		call        retry.Call
		err         error
		interrupted bool
		stop        retry.StopReason // unless it is interrupted
	}{
		{name: "canceled", ctx: canceled, err: errBoom, interrupted: true},
		{name: "its error", ctx: canceled, err: context.Canceled, interrupted: true},
		{name: "hinted", ctx: canceled, err: retry.MarkRateLimited(errBoom, time.Second), interrupted: true},
		{name: "final by itself", ctx: canceled, err: fs.ErrNotExist, interrupted: true},
		{name: "of an inner policy", ctx: canceled, err: &retry.Error{Stop: retry.StopAttempts, Err: errBoom}, interrupted: true},
		{name: "alive", ctx: alive, err: errBoom},
		{name: "deadline", ctx: late, err: errBoom},
		{name: "marked final", ctx: canceled, err: errFinalMark, stop: retry.StopFinal},
		{name: "not idempotent", ctx: canceled, policy: once, err: errBoom, stop: retry.StopMaybeApplied},
		{name: "the call is not", ctx: canceled, call: retry.Call{NonIdempotent: true}, err: errBoom, stop: retry.StopMaybeApplied},
		{name: "without effect", ctx: canceled, policy: once, err: retry.MarkRetryable(errBoom)},
	}
	for _, tt := range tests {
		for _, timeout := range []time.Duration{0, time.Hour} {
			t.Run(fmt.Sprint(tt.name, " ", timeout), func(t *testing.T) {
				t.Parallel()
				var o tracer
				p, call, state := tt.policy, tt.call, retry.State{Failures: 1, First: firstAttempt}
				p.Observer, p.Clock, p.AttemptTimeout = &o, &stillClock{countingClock{now: firstAttempt}}, timeout
				call.Policy, call.Stored, call.State = &p, true, state
				ctx := lateContext{tt.ctx, make(chan struct{})}
				require.True(t, call.Begin(ctx))
				if tt.ctx.Err() != nil {
					close(ctx.done)
				}
				assert.Equal(t, tt.interrupted, call.Interrupted(tt.err))
				told := []string{"begin 2", fmt.Sprint("end 2: ", tt.err)}
				if tt.interrupted {
					assert.Equal(t, told, o.log)
					assert.Equal(t, state, call.State)
					assert.False(t, call.Interrupted(tt.err), "there is no attempt")
					require.NoError(t, call.Err())
					require.True(t, call.Begin(t.Context()), "it can go on")
					return
				}
				if tt.ctx == alive {
					close(ctx.done) // is too late
				}
				d := call.End(tt.err)
				assert.Equal(t, tt.stop, d.Stop)
				assert.Equal(t, tt.stop == retry.StopNone, d.Retry)
				if d.Retry {
					assert.Equal(t, append(told, "retrying 2"), o.log)
				} else {
					assert.Equal(t, append(told, "gave_up 2"), o.log)
				}
			})
		}
	}
}

// TestCallInterruptedTimeouts checks that a timeout of the policy stays one, and that the
// end of the context does not look like one.
func TestCallInterruptedTimeouts(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{time.Second, time.Hour} {
		p, clock, events := callPolicy()
		p.AttemptTimeout = timeout
		ctx, cancel := context.WithCancel(t.Context())
		call := retry.Call{Policy: p, Stored: true}
		require.True(t, call.Begin(ctx))
		clock.Advance(time.Minute)
		assert.Equal(t, timeout == time.Second, call.TimedOut())
		assert.False(t, call.Interrupted(context.Canceled))
		cancel()
		d := call.End(context.Canceled)
		if timeout == time.Second {
			assert.Equal(t, "timeout", d.Verdict.Category)
			assert.True(t, d.Retry)
			events.Expect(t, "1: context canceled: retry in 1s")
		} else {
			assert.Equal(t, retry.Classify(context.Canceled), d.Verdict)
			assert.Equal(t, context.Canceled, d.Err, "of the operation itself")
		}
	}
}

// TestCallNotInterrupted checks the calls of which no attempt is interrupted.
func TestCallNotInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	call := retry.Call{Stored: true}
	assert.False(t, call.Interrupted(errBoom), "before the first attempt")
	require.True(t, call.Begin(ctx))
	cancel()
	assert.False(t, call.Interrupted(nil), "it has succeeded")
	call.End(nil)
	assert.False(t, call.Interrupted(errBoom), "after the end")

	ctx, cancel = context.WithCancel(t.Context())
	call = retry.Call{}
	require.True(t, call.Begin(ctx))
	cancel()
	assert.False(t, call.Interrupted(errBoom), "it is not stored")
	assert.Equal(t, retry.StopCanceled, call.End(errBoom).Stop)
}
