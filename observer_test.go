package retry_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// TestEvents checks all fields of all events of a call. Every attempt takes a
// second.
func TestEvents(t *testing.T) {
	t.Parallel()
	const s = time.Second
	errCause := errors.New("the user went away")
	final := retry.Verdict{Class: retry.Final}
	limited := retry.MarkRateLimited(errBoom, 5*s)
	longHint := retry.MarkRateLimited(errBoom, time.Hour)
	locked := retry.Mark(errBoom, retry.Verdict{Class: retry.Retryable, Category: "locked"})
	gaveUp := func(stop retry.StopReason, e retry.Error) *retry.Error {
		e.Policy, e.Stop = "task", stop
		if e.Attempts > 0 && e.Err == nil {
			e.Err = errBoom
		}
		if e.Attempts > 0 {
			e.State = retry.State{Failures: e.Attempts, First: firstAttempt}
		}
		return &e
	}
	// Waits of 2s, 4s, 8s, … between attempts.
	first := retry.Event{Kind: retry.Retrying, Attempt: 1, Delay: 2 * s, Err: errBoom, Elapsed: s}
	second := retry.Event{Kind: retry.Retrying, Attempt: 2, Delay: 4 * s, Err: errBoom, Elapsed: 4 * s}
	tests := []struct {
		name   string
		p      retry.Policy
		script []error
		cancel time.Duration // from the start; 0 means never
		room   time.Duration // until the deadline; 0 means none
		want   []retry.Event
	}{
		{
			name:   "success",
			script: []error{nil},
			want:   []retry.Event{{Kind: retry.Succeeded, Attempt: 1, Elapsed: s}},
		},
		{
			name:   "success after two failures",
			script: []error{errBoom, errBoom, nil},
			want:   []retry.Event{first, second, {Kind: retry.Succeeded, Attempt: 3, Elapsed: 9 * s}},
		},
		{
			name:   "attempts",
			script: []error{errBoom, errBoom, errBoom},
			want: []retry.Event{first, second, {
				Kind: retry.GaveUp, Attempt: 3, Stop: retry.StopAttempts, Elapsed: 9 * s,
				Err: gaveUp(retry.StopAttempts, retry.Error{Attempts: 3, Waited: 6 * s}),
			}},
		},
		{
			name:   "final",
			script: []error{errBoom, errFinalMark},
			want: []retry.Event{first, {
				Kind: retry.GaveUp, Attempt: 2, Verdict: final, Stop: retry.StopFinal, Err: errFinalMark, Elapsed: 4 * s,
			}},
		},
		{
			name:   "verdicts and hints",
			p:      retry.Policy{Overrides: map[string]retry.Override{"locked": {Backoff: retry.Constant(3 * s)}}},
			script: []error{locked, limited, nil},
			want: []retry.Event{
				{
					Kind: retry.Retrying, Attempt: 1, Delay: 3 * s, Err: locked, Elapsed: s,
					Verdict: retry.Verdict{Class: retry.Retryable, Category: "locked"},
				},
				{
					Kind: retry.Retrying, Attempt: 2, Delay: 5 * s, Err: limited, Elapsed: 5 * s,
					Verdict: retry.Verdict{Class: retry.RateLimited, NotApplied: true, After: 5 * s},
				},
				{Kind: retry.Succeeded, Attempt: 3, Elapsed: 11 * s},
			},
		},
		{
			name:   "a verdict that is put right",
			p:      retry.Policy{MaxAttempts: 1, Classifier: func(error) retry.Verdict { return retry.Verdict{After: 5 * s} }},
			script: []error{errBoom},
			want: []retry.Event{{
				Kind: retry.GaveUp, Attempt: 1, Stop: retry.StopAttempts, Elapsed: s,
				Verdict: retry.Verdict{Class: retry.RateLimited, After: 5 * s},
				Err:     gaveUp(retry.StopAttempts, retry.Error{Attempts: 1, RetryAfter: 5 * s}),
			}},
		},
		{
			name:   "no wait",
			p:      retry.Policy{Backoff: retry.Constant(0)},
			script: []error{errBoom, nil},
			want: []retry.Event{
				{Kind: retry.Retrying, Attempt: 1, Err: errBoom, Elapsed: s},
				{Kind: retry.Succeeded, Attempt: 2, Elapsed: 2 * s},
			},
		},
		{
			name:   "elapsed",
			p:      retry.Policy{MaxElapsed: 7 * s},
			script: []error{errBoom, errBoom},
			want: []retry.Event{first, {
				Kind: retry.GaveUp, Attempt: 2, Stop: retry.StopElapsed, Elapsed: 4 * s,
				Err: gaveUp(retry.StopElapsed, retry.Error{Attempts: 2, Waited: 2 * s}),
			}},
		},
		{
			name:   "a hint that is too long",
			script: []error{longHint},
			want: []retry.Event{{
				Kind: retry.GaveUp, Attempt: 1, Stop: retry.StopRetryAfter, Elapsed: s,
				Verdict: retry.Verdict{Class: retry.RateLimited, NotApplied: true, After: time.Hour},
				Err:     gaveUp(retry.StopRetryAfter, retry.Error{Attempts: 1, RetryAfter: time.Hour, Err: longHint}),
			}},
		},
		{
			name:   "an empty budget",
			p:      retry.Policy{Budget: &retry.Budget{Reserve: 1}},
			script: []error{errBoom, errBoom},
			want: []retry.Event{first, {
				Kind: retry.GaveUp, Attempt: 2, Stop: retry.StopBudget, Elapsed: 4 * s,
				Err: gaveUp(retry.StopBudget, retry.Error{Attempts: 2, Waited: 2 * s, RetryAfter: 4 * s}),
			}},
		},
		{
			name:   "maybe applied",
			p:      retry.Policy{NonIdempotent: true},
			script: []error{errBoom},
			want: []retry.Event{{
				Kind: retry.GaveUp, Attempt: 1, Stop: retry.StopMaybeApplied, Elapsed: s,
				Err: gaveUp(retry.StopMaybeApplied, retry.Error{Attempts: 1}),
			}},
		},
		{
			name:   "a deadline ahead",
			script: []error{errBoom, errBoom},
			room:   8 * s,
			want: []retry.Event{first, {
				Kind: retry.GaveUp, Attempt: 2, Stop: retry.StopDeadline, Elapsed: 4 * s,
				Err: gaveUp(retry.StopDeadline, retry.Error{Attempts: 2, Waited: 2 * s}),
			}},
		},
		{
			name:   "a deadline in an attempt",
			script: []error{errBoom, errBoom},
			room:   3500 * ms,
			want: []retry.Event{first, {
				Kind: retry.GaveUp, Attempt: 2, Stop: retry.StopDeadline, Elapsed: 4 * s,
				Err: gaveUp(retry.StopDeadline, retry.Error{Attempts: 2, Waited: 2 * s, Cause: context.DeadlineExceeded}),
			}},
		},
		{
			name:   "canceled in an attempt",
			script: []error{errBoom, errFinalMark},
			cancel: 3500 * ms,
			want: []retry.Event{first, {
				Kind: retry.GaveUp, Attempt: 2, Stop: retry.StopCanceled, Elapsed: 4 * s,
				Err: gaveUp(retry.StopCanceled, retry.Error{Attempts: 2, Waited: 2 * s, Err: errFinalMark, Cause: errCause}),
			}},
		},
		{
			name:   "canceled in a wait",
			script: []error{errBoom, errBoom},
			cancel: 6 * s,
			want: []retry.Event{first, second, {
				Kind: retry.GaveUp, Attempt: 2, Stop: retry.StopCanceled, Elapsed: 6 * s,
				Err: gaveUp(retry.StopCanceled, retry.Error{Attempts: 2, Waited: 2 * s, Cause: errCause}),
			}},
		},
		{
			name:   "canceled in an attempt that succeeds",
			script: []error{errBoom, nil},
			cancel: 3500 * ms,
			want:   []retry.Event{first, {Kind: retry.Succeeded, Attempt: 2, Elapsed: 4 * s}},
		},
		{
			name:   "canceled before the first attempt",
			cancel: -1,
			want: []retry.Event{{
				Kind: retry.GaveUp, Stop: retry.StopCanceled,
				Err: gaveUp(retry.StopCanceled, retry.Error{Cause: errCause}),
			}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, events := retrytest.NewClock(firstAttempt), &retrytest.Recorder{}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if tt.cancel != 0 {
				c.At(tt.cancel, func() { cancel(errCause) })
			}
			if tt.room > 0 {
				var stop context.CancelFunc
				ctx, stop = c.WithTimeout(ctx, tt.room)
				defer stop()
			}
			p := tt.p
			p.Name, p.Jitter, p.Rand, p.Clock, p.Observer = "task", retry.NoJitter, word(0), c, events
			op := retrytest.Script(tt.script...)
			err := p.Execute(ctx, func(ctx context.Context) error {
				c.Advance(s)
				return op.Run(ctx)
			})
			for i := range tt.want {
				tt.want[i].Policy = "task"
			}
			got := events.Events()
			require.Equal(t, tt.want, got)
			assert.Len(t, tt.script, op.Calls())
			assertSameError(t, err, got[len(got)-1].Err, "the last event has what is returned")
		})
	}
}

// TestEventElapsedAfterAClockJump checks that no time is negative.
func TestEventElapsedAfterAClockJump(t *testing.T) {
	t.Parallel()
	c, events := newCountingClock(), &retrytest.Recorder{}
	p := &retry.Policy{Clock: c, Observer: events, Backoff: retry.Constant(time.Second), Jitter: retry.NoJitter}
	jumps := []time.Duration{-time.Hour, 2 * time.Hour, 0}
	calls := 0
	_ = p.Execute(t.Context(), failing(func() {
		c.now = c.now.Add(jumps[calls])
		calls++
	}))
	var elapsed []time.Duration
	for _, e := range events.Events() {
		elapsed = append(elapsed, e.Elapsed)
	}
	assert.Equal(t, []time.Duration{0, time.Hour + time.Second, time.Hour + 2*time.Second}, elapsed)
}

func TestEventKindText(t *testing.T) {
	t.Parallel()
	for kind, want := range map[retry.EventKind]string{
		0: "none", retry.Retrying: "retrying", retry.Succeeded: "succeeded", retry.GaveUp: "gave_up", retry.Held: "held", 5: "none(5)", 255: "none(255)",
	} {
		assert.Equal(t, want, kind.String())
	}
}

func TestObserverFunc(t *testing.T) {
	t.Parallel()
	want := retry.Event{Kind: retry.GaveUp, Policy: "task", Attempt: 3}
	told := 0
	var o retry.Observer = retry.ObserverFunc(func(ctx context.Context, got retry.Event) {
		told++
		assert.Equal(t, t.Context(), ctx)
		assert.Equal(t, want, got)
	})
	o.Observe(t.Context(), want)
	assert.Equal(t, 1, told)
}

func TestObservers(t *testing.T) {
	t.Parallel()
	var told []string
	named := func(name string) retry.Observer {
		return retry.ObserverFunc(func(ctx context.Context, e retry.Event) {
			assert.Equal(t, t.Context(), ctx)
			assert.Equal(t, 7, e.Attempt)
			told = append(told, name)
		})
	}
	tests := []struct {
		name string
		o    retry.Observer
		want []string
	}{
		{"none", retry.Observers(), nil},
		{"nil only", retry.Observers(nil, nil), nil},
		{"one", retry.Observers(named("a")), []string{"a"}},
		{"in order", retry.Observers(named("a"), named("b"), named("c")), []string{"a", "b", "c"}},
		{"nil among them", retry.Observers(nil, named("a"), nil, named("b"), nil), []string{"a", "b"}},
		{"one in another", retry.Observers(named("a"), retry.Observers(named("b"), nil), named("c")), []string{"a", "b", "c"}},
		{"one twice", retry.Observers(named("a"), named("a")), []string{"a", "a"}},
	}
	for _, tt := range tests {
		told = nil
		require.NotNil(t, tt.o, tt.name)
		tt.o.Observe(t.Context(), retry.Event{Attempt: 7})
		assert.Equal(t, tt.want, told, tt.name)
	}
}

// TestObserverPanics checks that a panic in an Observer is not swallowed, and
// that the call makes no more attempts.
func TestObserverPanics(t *testing.T) {
	t.Parallel()
	for kind, script := range map[retry.EventKind][]error{
		retry.Retrying:  {errBoom},
		retry.Succeeded: {nil},
		retry.GaveUp:    {errFinalMark},
	} {
		var told []retry.EventKind
		p := &retry.Policy{AttemptTimeout: time.Hour, Observer: retry.ObserverFunc(func(_ context.Context, e retry.Event) {
			told = append(told, e.Kind)
			panic(e.Kind)
		})}
		op := retrytest.Script(script...)
		assert.PanicsWithValue(t, kind, func() { _ = p.Execute(t.Context(), op.Run) })
		assert.Equal(t, 1, op.Calls())
		assert.Equal(t, []retry.EventKind{kind}, told, "it is not told of its own panic")
	}
}

// TestObserverCancels checks a call whose context the Observer ends.
func TestObserverCancels(t *testing.T) {
	t.Parallel()
	errCause := errors.New("enough")
	tests := []struct {
		name   string
		script []error
		want   []string // the timeline
		err    error
	}{
		{
			"before a wait",
			[]error{errBoom},
			[]string{"1: boom: retry in 2s", "1: gave up (canceled): boom"},
			&retry.Error{
				Attempts: 1, Stop: retry.StopCanceled, Err: errBoom, Cause: errCause,
				State: retry.State{Failures: 1, First: firstAttempt},
			},
		},
		{"at a success", []error{nil}, []string{"1: succeeded"}, nil},
		{"at a final error", []error{errFinalMark}, []string{"1: gave up (final): bad request"}, errFinalMark},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			c, events := retrytest.NewClock(firstAttempt), &retrytest.Recorder{}
			hook := retry.ObserverFunc(func(context.Context, retry.Event) { cancel(errCause) })
			p := &retry.Policy{Jitter: retry.NoJitter, Clock: c, Observer: retry.Observers(hook, events)}
			err := p.Execute(ctx, retrytest.Script(tt.script...).Run)
			assert.Equal(t, tt.err, err)
			events.Expect(t, tt.want...)
			assert.Empty(t, c.Sleeps())
		})
	}
}

// TestObserverGetsTheCallersContext checks that it is not told with the context
// of an attempt, which is over.
func TestObserverGetsTheCallersContext(t *testing.T) {
	t.Parallel()
	ctx := context.WithValue(t.Context(), testkit.Key{}, "mine")
	told := 0
	p := &retry.Policy{AttemptTimeout: time.Hour, Backoff: retry.Constant(0), Observer: retry.ObserverFunc(func(got context.Context, _ retry.Event) {
		told++
		assert.Equal(t, ctx, got)
	})}
	assert.Error(t, p.Execute(ctx, failing(nil)))
	assert.Equal(t, 3, told)
}

// counter is an Observer that counts the waits.
type counter struct {
	retry.ObserverFunc

	waits atomic.Int32
}

func (c *counter) Wait(string) func() {
	c.waits.Add(1)
	return func() { c.waits.Add(-1) }
}

// stuck is a clock whose waits are over when it is closed, or panic.
type stuck struct {
	over   chan time.Time
	panics atomic.Bool
}

func (s *stuck) Now() time.Time { return time.Unix(1, 0) }

func (s *stuck) After(time.Duration) <-chan time.Time {
	if s.panics.Load() {
		panic("out of time")
	}
	return s.over
}

// TestWaits counts the calls that wait, on a clock that stands still.
func TestWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{ObserverFunc: func(context.Context, retry.Event) {}}
		clock := &stuck{over: make(chan time.Time)}
		p := &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(time.Nanosecond), Clock: clock, Observer: retry.Observers(nil, c, c.ObserverFunc)}
		ctx, cancel := context.WithCancel(t.Context())
		run := func(ctx context.Context) { _ = p.Execute(ctx, func(context.Context) error { return errBoom }) }
		loop := func(ctx context.Context) {
			for call := (&retry.Call{Policy: p}); call.Next(ctx); {
				call.End(errBoom)
			}
		}
		for range 10 {
			go run(t.Context())
			go loop(ctx)
		}
		synctest.Wait()
		assert.EqualValues(t, 20, c.waits.Load())
		cancel()
		synctest.Wait()
		assert.EqualValues(t, 10, c.waits.Load())
		close(clock.over)
		synctest.Wait()
		assert.Zero(t, c.waits.Load())

		clock.panics.Store(true)
		assert.Panics(t, func() { run(t.Context()) })
		assert.Zero(t, c.waits.Load())
		job := &retry.Stored{Policy: p}
		require.Equal(t, retry.Again, job.Attempt(t.Context(), func(context.Context) error { return errBoom }))
		assert.Zero(t, c.waits.Load(), "it waits elsewhere")
		assert.Nil(t, retry.Observers().(interface{ Wait(policy string) func() }).Wait(""))
	})
}
