package retryjob_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retrypolicies"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func noWork(context.Context) error { return nil }

// TestStoredOutcomes checks the four outcomes, and what Stored says about each.
func TestStoredOutcomes(t *testing.T) {
	t.Parallel()
	stopped, cancel := context.WithCancelCause(t.Context())
	cancel(testkit.ErrPeer)
	state := retry.State{Failures: 1, First: firstAttempt}
	failed := state
	failed.Failures++
	for _, tt := range []struct {
		name    string
		ctx     context.Context //nolint:containedctx // how it ends
		err     error
		outcome retryjob.Outcome
		state   retry.State
		delay   time.Duration
		stop    retry.StopReason
		events  string
	}{
		{"done", t.Context(), nil, retryjob.Done, state, 0, retry.StopNone, "2: succeeded"},
		{"again", t.Context(), errBoom, retryjob.Again, failed, 2 * time.Second, retry.StopNone, "2: boom: retry in 2s"},
		{"ended", t.Context(), errFinalMark, retryjob.Ended, failed, 0, retry.StopFinal, fmt.Sprintf("2: gave up (final): %v", errFinalMark)},
		{"handed", stopped, errBoom, retryjob.Handed, state, time.Second, retry.StopNone, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, events := recorded()
			job := retryjob.Stored{Policy: p, State: state}
			called := false
			o := job.Attempt(tt.ctx, func(context.Context) error {
				called = true
				return tt.err
			})
			assert.Equal(t, tt.outcome, o)
			assert.Equal(t, tt.outcome != retryjob.Handed, called)
			assert.Equal(t, tt.state, job.State)
			assert.Equal(t, tt.state, job.Decision.State)
			assert.Equal(t, tt.delay, job.Decision.Delay)
			assert.Equal(t, tt.stop, job.Decision.Stop)
			assert.Equal(t, tt.delay > 0, job.Decision.Retry)
			want := tt.err
			if o == retryjob.Handed {
				want = testkit.ErrPeer
			}
			assert.Equal(t, want, job.Err)
			if o == retryjob.Ended {
				assert.Equal(t, tt.err, job.Decision.Err)
			}
			assert.Empty(t, events.Events(), "nothing is stored yet")
			require.NoError(t, job.Tell(t.Context()))
			require.NoError(t, job.Tell(t.Context()), "once is enough")
			if tt.events == "" {
				assert.Empty(t, events.Events())
			} else {
				events.Expect(t, tt.events)
			}
			assert.Equal(t, tt.name, o.String())
			assert.Equal(t, o, job.Attempt(t.Context(), noWork), "it has ended")
			assert.Equal(t, tt.state, job.State)
		})
	}
}

// TestStoredForged checks that a State that nobody has counted neither ends a job without a
// limit, nor keeps one with a limit.
func TestStoredForged(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, state := range map[string]retry.State{
		"less than none": {Failures: math.MinInt, RateLimited: math.MinInt, Pending: math.MinInt},
		"more than ever": {Failures: math.MaxInt, RateLimited: math.MaxInt, Pending: math.MaxInt},
		"to come":        {First: now.AddDate(7000, 0, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := retrytest.NewClock(now)
			p := &retry.Policy{
				MaxAttempts: retry.Unlimited, MaxElapsed: time.Hour, Backoff: retry.Constant(time.Minute), FreeRateLimits: 3, Clock: clock,
			}
			var errs []error
			o := retryjob.Again
			for ; o == retryjob.Again && len(errs) < 100; clock.Advance(time.Minute) {
				job := retryjob.Stored{Policy: p, State: state, Lost: math.MinInt}
				o = job.Attempt(t.Context(), func(context.Context) error {
					errs = append(errs, errBoom)
					return errBoom
				})
				state = job.State
			}
			assert.Equal(t, retryjob.Ended, o)
			assert.Greater(t, len(errs), 50, "attempts of an hour")
		})
	}
}

// TestStoredEarly checks that no due time keeps a job for ever, and that every wait that a
// policy decides is kept.
func TestStoredEarly(t *testing.T) {
	t.Parallel()
	hours := &retry.Policy{MaxRetryAfter: time.Minute, Overrides: map[string]retry.Override{"unknown": {MaxDelay: 5 * time.Hour}}}
	for _, tt := range []struct {
		name       string
		job        retryjob.Stored
		wait, want time.Duration
	}{
		{"late", retryjob.Stored{}, math.MinInt64, 0},
		{"a hint", retryjob.Stored{}, 66 * time.Second, 66 * time.Second},
		{"for ever", retryjob.Stored{}, math.MaxInt64, 48 * time.Hour},
		{"an override", retryjob.Stored{Policy: hours}, 6 * time.Hour, 6 * time.Hour},
		{"its end", retryjob.Stored{Policy: hours}, math.MaxInt64, 10 * time.Hour},
		{"a policy without an end", retryjob.Stored{Policy: &retry.Policy{MaxRetryAfter: math.MaxInt64}}, math.MaxInt64, math.MaxInt64},
		{"no policy", retryjob.Stored{PolicyFor: func(string) (*retry.Policy, error) { return nil, errBoom }}, math.MaxInt64, math.MaxInt64},
		{"a panic", retryjob.Stored{PolicyFor: func(string) (*retry.Policy, error) { panic("odd") }}, time.Hour, time.Hour},
		{"a panic of the backoff", retryjob.Stored{Policy: &retry.Policy{Backoff: oddBackoff{}}}, time.Hour, time.Hour},
	} {
		assert.Equal(t, tt.want, tt.job.Early(tt.wait), tt.name)
	}
}

type oddBackoff struct{}

func (oddBackoff) Delay(int) time.Duration { panic("odd") }

// TestStoredPanics checks that a panic of the work is a failure, and one of the policy the
// end.
func TestStoredPanics(t *testing.T) {
	t.Parallel()
	odd := errors.New("odd")
	panicking := func(v any) func(context.Context) error { return func(context.Context) error { panic(v) } }
	boom := func(context.Context) error { return errBoom }
	for _, tt := range []struct {
		name    string
		policy  retry.Policy
		work    func(context.Context) error
		outcome retryjob.Outcome
		in      string
	}{
		{name: "work", work: panicking("odd"), outcome: retryjob.Ended},
		{name: "an error", work: panicking(odd), outcome: retryjob.Ended},
		{name: "a mark on the value", work: panicking(retry.MarkRetryable(odd)), outcome: retryjob.Again},
		{
			name: "a Classifier that retries it", work: panicking(odd), outcome: retryjob.Again,
			policy: retry.Policy{Classifier: retry.On(retry.Retryable, odd)},
		},
		{
			name: "Classifier", work: boom, outcome: retryjob.Ended, in: "a function of the Policy",
			policy: retry.Policy{Classifier: func(error) retry.Verdict { panic(odd) }},
		},
		{
			name: "Backoff", work: boom, outcome: retryjob.Ended, in: "a function of the Policy",
			policy: retry.Policy{Backoff: panics{}, Classifier: retry.Classify},
		},
		{
			name: "Observer of attempts", work: boom, outcome: retryjob.Ended, in: "a function of the Policy",
			policy: retry.Policy{Observer: &retry.Observer{Attempt: panics{}.attempt}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.work != nil && tt.policy.Classifier == nil && tt.in != "" {
				tt.policy.Classifier = retry.On(retry.Retryable, errBoom)
			}
			job := retryjob.Stored{Policy: &tt.policy, State: retry.State{Failures: 1}}
			assert.Equal(t, tt.outcome, job.Attempt(t.Context(), tt.work))
			e := testkit.As[*retry.PanicError](t, job.Err)
			assert.Equal(t, tt.in, e.In)
			assert.Contains(t, string(e.Stack), "stored_test.go")
			if tt.outcome == retryjob.Ended {
				assert.Equal(t, job.Err, job.Decision.Err)
				assert.Equal(t, retry.StopFinal, job.Decision.Stop)
				assert.False(t, job.Decision.Retry)
			}
		})
	}
	t.Run("is told", func(t *testing.T) {
		t.Parallel()
		p, events := recorded()
		p.Classifier = func(error) retry.Verdict { panic("odd") }
		job := retryjob.Stored{Policy: p}
		assert.Equal(t, retryjob.Ended, job.Attempt(t.Context(), boom))
		require.NoError(t, job.Tell(t.Context()))
		seen := events.Events()
		require.Len(t, seen, 1)
		assert.Equal(t, retry.GaveUp, seen[0].Kind)
		assert.Equal(t, 1, seen[0].Attempt)
		assert.Equal(t, job.Decision.Err, seen[0].Err)
	})
	t.Run("the Observer", func(t *testing.T) {
		t.Parallel()
		job := retryjob.Stored{Policy: &retry.Policy{Observer: &retry.Observer{Event: func(context.Context, retry.Event) { panic(odd) }}}}
		assert.Equal(t, retryjob.Done, job.Attempt(t.Context(), noWork))
		e := testkit.As[*retry.PanicError](t, job.Tell(t.Context()))
		assert.Equal(t, []any{"Observer", odd}, []any{e.In, e.Value})
		require.NoError(t, job.Tell(t.Context()), "it is told once")
	})
	t.Run("Now", func(t *testing.T) {
		t.Parallel()
		job := retryjob.Stored{Now: func() time.Time { panic(odd) }, State: retry.State{First: firstAttempt}}
		assert.Equal(t, retryjob.Ended, job.Attempt(t.Context(), noWork))
		require.ErrorIs(t, job.Decision.Err, odd)
	})
}

type panics struct{}

func (panics) Delay(int) time.Duration { panic("odd") }
func (panics) attempt(context.Context, int) (context.Context, func(error)) {
	panic("odd")
}

// TestStoredGoexit checks that an attempt whose goroutine ends has no outcome, and leaves
// no timer behind.
func TestStoredGoexit(t *testing.T) {
	t.Parallel()
	var o testkit.Tracer
	job := retryjob.Stored{Policy: &retry.Policy{AttemptTimeout: time.Hour, Observer: o.Observer()}}
	var ctx context.Context
	over := make(chan struct{})
	go func() {
		defer close(over)
		job.Attempt(t.Context(), func(c context.Context) error {
			ctx = c //nolint:fatcontext // to look at it afterwards
			runtime.Goexit()
			return nil
		})
	}()
	<-over
	require.Error(t, ctx.Err())
	require.NoError(t, job.Tell(t.Context()))
	assert.Equal(t, []string{"begin 1", "end 1: " + retry.ErrLost.Error()}, o.Log)
}

// TestStoredAbort checks that an attempt that was aborted has not been.
func TestStoredAbort(t *testing.T) {
	t.Parallel()
	p, events := recorded()
	job := retryjob.Stored{Policy: p, State: retry.State{Failures: 1}, Lost: 1}
	job.Abort() // does nothing
	o := job.Attempt(t.Context(), func(context.Context) error {
		job.Abort()
		return errBoom
	})
	assert.Equal(t, retryjob.Handed, o)
	assert.Equal(t, 2, job.State.Failures, "with the lost one")
	assert.Equal(t, job.State, job.Decision.State)
	assert.Equal(t, errBoom, job.Err)
	assert.Empty(t, events.Events())
}

// TestStoredAnew checks that a Stored serves one attempt, and that a nil context is none that
// ends.
func TestStoredAnew(t *testing.T) {
	t.Parallel()
	var job retryjob.Stored
	require.NoError(t, job.Tell(t.Context()), "nothing has happened")
	assert.Equal(t, retryjob.Again, job.Attempt(nil, func(ctx context.Context) error { //nolint:staticcheck // is context.Background
		assert.Equal(t, context.Background(), ctx)
		job.Policy = &retry.Policy{MaxAttempts: 1} // is for the next attempt
		return errBoom
	}))
	assert.Equal(t, retryjob.Again, job.Attempt(t.Context(), noWork))
	assert.Equal(t, 1, job.State.Failures)
}

// A driver that ends a job by itself tells it by Err and Decision.
func TestStoredTellsWhatTheDriverSays(t *testing.T) {
	t.Parallel()
	p, events := recorded()
	job := retryjob.Stored{Policy: p}
	assert.Equal(t, retryjob.Done, job.Attempt(t.Context(), noWork))
	job.Err = errBoom
	job.Decision = p.Next(job.State, errBoom, firstAttempt)
	require.NoError(t, job.Tell(t.Context()))
	events.Expect(t, "1: boom: retry in 1s")

	p, events = recorded()
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	job = retryjob.Stored{Policy: p}
	assert.Equal(t, retryjob.Handed, job.Attempt(stopped, noWork))
	job.End(errBoom) // it has expired meanwhile
	require.NoError(t, job.Tell(t.Context()))
	events.Expect(t, "0: gave up (final): boom")

	p, events = recorded()
	job = retryjob.Stored{Policy: p, Decision: retry.Decision{Err: errFinalMark}}
	require.NoError(t, job.Tell(t.Context()))
	assert.Equal(t, errFinalMark, events.Events()[0].Err)
	assert.Equal(t, []any{retry.GaveUp, retry.StopFinal}, []any{events.Events()[0].Kind, events.Events()[0].Stop})
}

// An attempt that could not start is not counted, comes again later each time, is reported, and
// is not tried for ever.
func TestStoredNotStarted(t *testing.T) {
	t.Parallel()
	clock := retrytest.NewClock(firstAttempt)
	var events retrytest.Recorder
	polls := map[string]retry.Override{"pending": {MaxAttempts: 1, Backoff: retry.Constant(0)}}
	p := &retry.Policy{MaxAttempts: 1, Overrides: polls, Jitter: retry.NoJitter, Clock: clock, Observer: events.Observer()}
	var state retry.State
	var waits []time.Duration
	for {
		job := retryjob.Stored{Policy: p, State: state}
		outcome := job.Attempt(t.Context(), func(context.Context) error { return retryjob.MarkNotStarted(errBoom) })
		require.NoError(t, job.Tell(t.Context()))
		require.ErrorIs(t, job.Err, errBoom)
		if state = job.State; outcome == retryjob.Ended {
			assert.Equal(t, retry.StopElapsed, job.Decision.Stop)
			require.ErrorIs(t, job.Decision.Err, errBoom)
			break
		}
		require.Equal(t, retryjob.Refused, outcome)
		assert.Equal(t, 0, state.Failures)
		assert.Equal(t, firstAttempt, state.First)
		assert.Empty(t, events.Events())
		waits = append(waits, job.Decision.Delay)
		late := retryjob.Stored{Policy: p, State: state}
		assert.Equal(t, job.Decision.Delay, late.Early(job.Decision.Delay))
		clock.Advance(job.Decision.Delay)
	}
	assert.Equal(t, []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600}, inSeconds(waits[:12]))
	assert.InDelta(t, 7*24*time.Hour, clock.Now().Sub(firstAttempt), float64(10*time.Minute))
	require.Len(t, events.Events(), 1, "the end")
	assert.Equal(t, "not_started", events.Events()[0].Verdict.Category)

	p.Overrides = map[string]retry.Override{"not_started": {MaxAttempts: 3, Backoff: retry.Constant(time.Minute)}}
	job := retryjob.Stored{Policy: p, State: retry.State{Pending: 1}}
	assert.Equal(t, retryjob.Refused, job.Attempt(t.Context(), func(context.Context) error { return retryjob.MarkNotStarted(errBoom) }))
	assert.Equal(t, time.Minute, job.Decision.Delay)
	job = retryjob.Stored{Policy: p, State: job.State}
	assert.Equal(t, retryjob.Ended, job.Attempt(t.Context(), func(context.Context) error { return retryjob.MarkNotStarted(errBoom) }))
	assert.Equal(t, retry.StopAttempts, job.Decision.Stop)
	job = retryjob.Stored{Policy: p, State: retry.State{Failures: 2}}
	assert.Equal(t, retryjob.Ended, job.Attempt(t.Context(), noWork), "its limit is not that of failures")
}

func inSeconds(waits []time.Duration) (all []time.Duration) {
	for _, w := range waits {
		all = append(all, w/time.Second)
	}
	return all
}

// TestStoredPolicyFor checks which policy decides about a kind of jobs.
func TestStoredPolicyFor(t *testing.T) {
	t.Parallel()
	var named retrypolicies.Policies
	require.NoError(t, named.Load("policies.json", []byte(`{"policies": {"mail": {"max_attempts": 1}}}`)))
	missing := errors.New("missing")
	nobody := func(string) (*retry.Policy, error) { return nil, missing }
	five := &retry.Policy{MaxAttempts: 5}
	tests := []struct {
		name      string
		policy    *retry.Policy
		policyFor func(string) (*retry.Policy, error)
		kind      string
		limit     int
		err       error
	}{
		{"no function", five, nil, "mail", 5, nil},
		{"neither", nil, nil, "mail", 3, nil},
		{"its own", five, named.Get, "mail", 1, nil},
		{"another kind", five, named.Get, "call", 5, nil},
		{"no policy for it", nil, named.Get, "call", 0, retrypolicies.ErrUnknown},
		{"an error", nil, nobody, "mail", 0, missing},
	}
	job := retryjob.Stored{Kind: "mail", PolicyFor: func(string) (*retry.Policy, error) { return nil, nil }} //nolint:nilnil // a slip
	assert.Equal(t, retryjob.Refused, job.Attempt(t.Context(), func(context.Context) error { return errBoom }))
	assert.EqualError(t, job.Err, `retry: no policy for jobs of kind "mail": PolicyFor has returned nil, and there is no Policy for all kinds`)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			job := retryjob.Stored{Policy: tt.policy, PolicyFor: tt.policyFor, Kind: tt.kind, State: retry.State{RateLimited: 1}}
			o := job.Attempt(t.Context(), func(context.Context) error { return errBoom })
			if tt.err == nil {
				assert.Equal(t, tt.limit, job.Decision.Limit)
				return
			}
			assert.Equal(t, retryjob.Refused, o)
			require.ErrorIs(t, job.Err, tt.err)
			assert.ErrorContains(t, job.Err, fmt.Sprintf("no policy for jobs of kind %q", tt.kind))
			assert.Equal(t, 1, job.State.RateLimited)
		})
	}
	t.Run("panic", func(t *testing.T) {
		t.Parallel()
		job := retryjob.Stored{
			Policy: five, PolicyFor: func(string) (*retry.Policy, error) { panic("odd") }, State: retry.State{Failures: 1}, Lost: 3,
		}
		stopped, cancel := context.WithCancel(t.Context())
		cancel() // a worker that stops says so too
		assert.Equal(t, retryjob.Refused, job.Attempt(stopped, noWork))
		e := testkit.As[*retry.PanicError](t, job.Err)
		assert.Equal(t, "PolicyFor", e.In)
		assert.Equal(t, retry.State{Failures: 3}, job.State, "all but the last are failures")
		assert.Equal(t, 1, job.Lost)
	})
}

// A dead letter says that workers died.
func TestStoredSaysThatAttemptsWereLost(t *testing.T) {
	t.Parallel()
	for _, lost := range []int{1, 3, 7} {
		for _, once := range []bool{false, true} {
			var told error
			p := &retry.Policy{MaxAttempts: lost, NonIdempotent: once, Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) { told = e.Err }}}
			job := retryjob.Stored{Policy: p, Lost: lost}
			assert.Equal(t, retryjob.Ended, job.Attempt(t.Context(), func(context.Context) error { return nil }))
			require.ErrorIs(t, job.Decision.Err, retry.ErrLost)
			require.NoError(t, job.Tell(t.Context()))
			require.ErrorIs(t, told, retry.ErrLost)
		}
	}
	job := retryjob.Stored{Policy: &retry.Policy{MaxAttempts: 2}, Lost: 1}
	assert.Equal(t, retryjob.Ended, job.Attempt(t.Context(), func(context.Context) error { return assert.AnError }))
	require.NotErrorIs(t, job.Decision.Err, retry.ErrLost, "the last one was not")
}

// TestStoredLost checks that attempts without an outcome are failures, and that the last
// of them may have taken effect.
func TestStoredLost(t *testing.T) {
	t.Parallel()
	once := retry.Policy{NonIdempotent: true}
	for _, tt := range []struct {
		name     string
		policy   retry.Policy
		n        int
		stop     retry.StopReason // or StopNone
		failures int
	}{
		{"none", once, 0, retry.StopNone, 1},
		{"less than none", retry.Policy{}, -1, retry.StopNone, 1},
		{"one", retry.Policy{}, 1, retry.StopNone, 2},
		{"too many", retry.Policy{}, 2, retry.StopAttempts, 3},
		{"most", retry.Policy{MaxAttempts: 1 << 30}, math.MaxInt, retry.StopAttempts, 1<<30 + 1},
		{"most without a limit", retry.Policy{MaxAttempts: retry.Unlimited}, math.MaxInt, retry.StopNone, 1<<30 + 1},
		{"not idempotent", once, 1, retry.StopMaybeApplied, 2},
		{"several", once, 2, retry.StopMaybeApplied, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // does not matter to what is over
			job := retryjob.Stored{Policy: &tt.policy, State: retry.State{Failures: 1}, Lost: tt.n}
			o := job.Attempt(ctx, noWork)
			if tt.stop == retry.StopNone {
				assert.Equal(t, retryjob.Handed, o)
			} else {
				assert.Equal(t, retryjob.Ended, o)
			}
			assert.Equal(t, tt.stop, job.Decision.Stop)
			assert.Equal(t, tt.failures, job.State.Failures)
			assert.Zero(t, job.Lost, "they are in the State")
			if tt.stop == retry.StopMaybeApplied {
				assert.ErrorIs(t, job.Decision.Err, retry.ErrLost)
			}
		})
	}
}

// The engine's clock decides, and the policy's limits the attempt.
func TestStoredNow(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{MaxElapsed: time.Hour, AttemptTimeout: time.Minute, Clock: retrytest.NewClock(firstAttempt.Add(time.Hour * 24))}
	for _, passed := range []time.Duration{-time.Hour, 0, time.Hour - time.Minute, time.Hour} {
		var events retrytest.Recorder
		p.Observer = events.Observer()
		job := retryjob.Stored{
			Policy: p, State: retry.State{Failures: 1, First: firstAttempt},
			Now: func() time.Time { return firstAttempt.Add(passed) },
		}
		outcome := job.Attempt(t.Context(), func(ctx context.Context) error {
			_, limited := ctx.Deadline()
			assert.True(t, limited)
			return retry.MarkRetryable(errBoom)
		})
		require.NoError(t, job.Tell(t.Context()))
		if passed == time.Hour {
			assert.Equal(t, retryjob.Ended, outcome)
			assert.Equal(t, retry.StopElapsed, job.Decision.Stop)
			continue
		}
		assert.Equal(t, retryjob.Again, outcome, passed)
		assert.Equal(t, firstAttempt.Add(min(passed, passed+time.Hour)).Add(job.Decision.Delay), job.Decision.At)
		assert.Equal(t, max(passed, 0), events.Events()[0].Elapsed)
		if passed < 0 {
			assert.Equal(t, firstAttempt.Add(passed), job.State.First, "it is not in the future")
		}
	}
}

// TestStoredInterrupted checks which failures are the worker's, and that the others are
// judged as if the context lived on.
func TestStoredInterrupted(t *testing.T) {
	t.Parallel()
	canceled, cancel := context.WithCancelCause(context.Background())
	cancel(testkit.ErrPeer)
	late, cancelLate := context.WithDeadline(context.Background(), time.Unix(0, 0))
	t.Cleanup(cancelLate)
	alive, once := context.Background(), retry.Policy{NonIdempotent: true}
	for _, tt := range []struct {
		name    string
		ctx     context.Context //nolint:containedctx // how it ends
		policy  retry.Policy
		err     error
		outcome retryjob.Outcome
		stop    retry.StopReason
	}{
		{name: "canceled", ctx: canceled, err: errBoom, outcome: retryjob.Handed},
		{name: "its error", ctx: canceled, err: context.Canceled, outcome: retryjob.Handed},
		{name: "hinted", ctx: canceled, err: retry.MarkRateLimited(errBoom, time.Second), outcome: retryjob.Handed},
		{name: "final by itself", ctx: canceled, err: fs.ErrNotExist, outcome: retryjob.Handed},
		{name: "of an inner policy", ctx: canceled, err: &retry.Error{Stop: retry.StopAttempts, Err: errBoom}, outcome: retryjob.Handed},
		{name: "no failure", ctx: canceled, outcome: retryjob.Done},
		{name: "alive", ctx: alive, err: errBoom, outcome: retryjob.Again},
		{name: "deadline", ctx: late, err: errBoom, outcome: retryjob.Again},
		{name: "marked final", ctx: canceled, err: errFinalMark, outcome: retryjob.Ended, stop: retry.StopFinal},
		{name: "panic", ctx: canceled, err: &retry.PanicError{Value: "boom"}, outcome: retryjob.Ended, stop: retry.StopFinal},
		{name: "not idempotent", ctx: canceled, policy: once, err: errBoom, outcome: retryjob.Ended, stop: retry.StopMaybeApplied},
		{name: "without effect", ctx: canceled, policy: once, err: retry.MarkRetryable(errBoom), outcome: retryjob.Again},
	} {
		for _, timeout := range []time.Duration{0, time.Hour} {
			t.Run(fmt.Sprint(tt.name, " ", timeout), func(t *testing.T) {
				t.Parallel()
				var o testkit.Tracer
				p, state := tt.policy, retry.State{Failures: 1, First: firstAttempt}
				p.Observer, p.Clock, p.AttemptTimeout = o.Observer(), testkit.Still{At: firstAttempt}, timeout
				job := retryjob.Stored{Policy: &p, State: state}
				ctx := testkit.LateContext{Context: tt.ctx, Over: make(chan struct{})}
				assert.Equal(t, tt.outcome, job.Attempt(ctx, func(context.Context) error {
					if tt.ctx.Err() != nil {
						close(ctx.Over)
					}
					return tt.err
				}))
				require.NoError(t, job.Tell(ctx))
				assert.Equal(t, tt.stop, job.Decision.Stop)
				assert.Equal(t, tt.err, job.Err)
				told := []string{"begin 2", fmt.Sprint("end 2: ", tt.err)}
				switch tt.outcome {
				case retryjob.Again:
					told = append(told, "retrying 2")
				case retryjob.Ended:
					told = append(told, "gave_up 2")
				case retryjob.Done:
					told = append(told, "succeeded 2")
				case retryjob.Handed:
					assert.Equal(t, state, job.State)
				}
				assert.Equal(t, told, o.Log)
			})
		}
	}
}

// holding is a Pacer whose turn has not come.
type holding struct{ retry.Pacer }

func (holding) Take(*retry.Policy, int) (retry.Turn, int, time.Duration) { return 0, 0, time.Minute }

// The Cause says why a job is handed back, whatever happens to its context meanwhile.
func TestStoredCause(t *testing.T) {
	t.Parallel()
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	nobody := func(string) (*retry.Policy, error) { return nil, errBoom }
	for _, tt := range []struct {
		ctx     context.Context //nolint:containedctx // how it ends
		job     retryjob.Stored
		work    func(context.Context, *retryjob.Stored) error
		outcome retryjob.Outcome
		cause   retryjob.Cause
		name    string
	}{
		{ctx: stopped, outcome: retryjob.Handed, cause: retryjob.Stopped, name: "stopped"},
		{
			job: retryjob.Stored{Quota: holding{}}, name: "held",
			outcome: retryjob.Handed, cause: retryjob.Held,
		},
		{
			ctx: stopped, job: retryjob.Stored{PolicyFor: nobody}, name: "no_policy",
			outcome: retryjob.Refused, cause: retryjob.NoPolicy,
		},
		{
			work:    func(_ context.Context, job *retryjob.Stored) error { job.Abort(); return errBoom },
			outcome: retryjob.Handed, cause: retryjob.Aborted, name: "aborted",
		},
		{
			work:    func(context.Context, *retryjob.Stored) error { return retryjob.MarkNotStarted(errBoom) },
			outcome: retryjob.Refused, cause: retryjob.NotStarted, name: "not_started",
		},
		{
			work:    func(context.Context, *retryjob.Stored) error { return errBoom },
			outcome: retryjob.Again, name: "none",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			job := &tt.job
			o := job.Attempt(cmp.Or(tt.ctx, t.Context()), func(ctx context.Context) error { return tt.work(ctx, job) })
			assert.Equal(t, tt.outcome, o)
			assert.Equal(t, tt.cause, job.Cause)
			assert.Equal(t, tt.name, job.Cause.String())
			assert.Equal(t, o != retryjob.Again, job.Decision.Limit == 0 || tt.cause == retryjob.NotStarted)
		})
	}
	assert.Equal(t, "none(9)", retryjob.Cause(9).String())
	assert.Equal(t, "none(9)", retryjob.Outcome(9).String())
}

// A driver ends a job that cannot go on, and the Observer hears of it.
func TestStoredEnd(t *testing.T) {
	t.Parallel()
	p, events := recorded()
	job := retryjob.Stored{Policy: p}
	assert.Equal(t, retryjob.Again, job.Attempt(t.Context(), func(context.Context) error { return errBoom }))
	job.End(errFinalMark)
	require.NoError(t, job.Tell(t.Context()))
	events.Expect(t, "1: gave up (final): bad request")
	assert.Equal(t, retryjob.Ended, job.Attempt(t.Context(), noWork), "it has ended")
}

// counted is a Pacer of which only the turns that are given back are asked.
type counted struct {
	retry.Pacer

	returned int
}

func (c *counted) Return(_ *retry.Policy, _ retry.Turn, n int) { c.returned += n }

// A job without a policy gives back the turn that its worker has taken.
func TestRefusedKeepsNoTurn(t *testing.T) {
	t.Parallel()
	quota := &counted{}
	job := retryjob.Stored{
		Quota: quota, Turn: 7, PolicyFor: func(string) (*retry.Policy, error) { return nil, errors.New("none") },
	}
	assert.Equal(t, retryjob.Refused, job.Attempt(t.Context(), nil))
	assert.Equal(t, 1, quota.returned)
}

var (
	errBoom      = errors.New("boom")
	errFinalMark = retry.MarkFinal(errors.New("bad request"))
	firstAttempt = time.Date(2026, 11, 21, 6, 48, 0, 0, time.UTC)
)

// recorded is a policy that tells only the time of its clock.
func recorded() (*retry.Policy, *retrytest.Recorder) {
	events := &retrytest.Recorder{}
	return &retry.Policy{
		Backoff: retry.Exponential{Initial: time.Second}, Jitter: retry.NoJitter, Observer: events.Observer(),
		Clock: retrytest.NewClock(firstAttempt),
	}, events
}

func TestMain(m *testing.M) { testkit.NoLeaks(m) }
