package retrytest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

var _ retry.Observer = (*retrytest.Recorder)(nil)

type panicking struct{}

func (panicking) Error() string { panic("no text") }

func TestRecorderTimeline(t *testing.T) {
	t.Parallel()
	gaveUp := func(stop retry.StopReason, err error) *retry.Error {
		return &retry.Error{Policy: "task", Attempts: 3, Stop: stop, Err: err}
	}
	inner := gaveUp(retry.StopBudget, errBoom)
	tests := []struct {
		name  string
		event retry.Event
		want  string
	}{
		{
			"retry",
			retry.Event{Kind: retry.Retrying, Policy: "task", Attempt: 1, Err: errBoom, Delay: 2 * time.Second},
			"1: boom: retry in 2s",
		},
		{
			"retry at once",
			retry.Event{Kind: retry.Retrying, Attempt: 12, Err: errBoom},
			"12: boom: retry in 0s",
		},
		{
			"lines",
			retry.Event{Kind: retry.Retrying, Attempt: 1, Err: errors.Join(errBoom, errBoom), Delay: time.Minute},
			"1: boom; boom: retry in 1m0s",
		},
		{
			"inner error",
			retry.Event{Kind: retry.Retrying, Attempt: 1, Err: inner, Delay: 1},
			"1: task failed after 3 attempts (local retry budget exhausted): boom: retry in 1ns",
		},
		{
			"no error",
			retry.Event{Kind: retry.Retrying, Attempt: 1, Delay: 1},
			"1: <nil>: retry in 1ns",
		},
		{
			"panic",
			retry.Event{Kind: retry.Retrying, Attempt: 1, Err: &panicking{}, Delay: 1},
			"1: %!v(PANIC=Error method: no text): retry in 1ns",
		},
		{
			"success",
			retry.Event{Kind: retry.Succeeded, Policy: "task", Attempt: 2},
			"2: succeeded",
		},
		{
			"final",
			retry.Event{Kind: retry.GaveUp, Attempt: 1, Stop: retry.StopFinal, Err: errBoom},
			"1: gave up (final): boom",
		},
		{
			"final inner error",
			retry.Event{Kind: retry.GaveUp, Attempt: 1, Stop: retry.StopFinal, Err: inner},
			"1: gave up (final): task failed after 3 attempts (local retry budget exhausted): boom",
		},
		{
			"attempts",
			retry.Event{Kind: retry.GaveUp, Attempt: 3, Stop: retry.StopAttempts, Err: gaveUp(retry.StopAttempts, errBoom)},
			"3: gave up (attempts): boom",
		},
		{
			"attempts, inner error",
			retry.Event{Kind: retry.GaveUp, Attempt: 3, Stop: retry.StopAttempts, Err: gaveUp(retry.StopAttempts, inner)},
			"3: gave up (attempts): task failed after 3 attempts (local retry budget exhausted): boom",
		},
		{
			"deadline",
			retry.Event{Kind: retry.GaveUp, Attempt: 2, Stop: retry.StopDeadline, Err: gaveUp(retry.StopDeadline, errBoom)},
			"2: gave up (deadline): boom",
		},
		{
			"not started",
			retry.Event{Kind: retry.GaveUp, Stop: retry.StopCanceled, Err: &retry.Error{Stop: retry.StopCanceled}},
			"0: gave up (canceled)",
		},
		{
			"unwrapped",
			retry.Event{Kind: retry.GaveUp, Attempt: 1, Stop: retry.StopAttempts, Err: errBoom},
			"1: gave up (attempts): boom",
		},
		{
			"unknown",
			retry.Event{Attempt: 1},
			"1: none",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var r retrytest.Recorder
			r.Observe(t.Context(), tt.event)
			assert.Equal(t, []string{tt.want}, r.Timeline())
			assert.Equal(t, []retry.Event{tt.event}, r.Events())
		})
	}
}

func TestRecorderWithPolicy(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		policy   retry.Policy
		outcomes []error
		timeline []string
		waits    []time.Duration
	}{
		{
			name:     "success at once",
			outcomes: []error{nil},
			timeline: []string{"1: succeeded"},
		},
		{
			name:     "final",
			outcomes: []error{errBoom, retry.MarkFinal(errors.New("not found"))},
			timeline: []string{"1: boom: retry in 2s", "2: gave up (final): not found"},
			waits:    []time.Duration{2 * time.Second},
		},
		{
			name:     "hint too long",
			outcomes: []error{retry.MarkRateLimited(errors.New("busy"), time.Hour)},
			timeline: []string{"1: gave up (retry_after): busy"},
		},
		{
			name:     "budget",
			policy:   retry.Policy{Budget: &retry.Budget{Reserve: 1}},
			outcomes: []error{errBoom, errBoom},
			timeline: []string{"1: boom: retry in 2s", "2: gave up (budget): boom"},
			waits:    []time.Duration{2 * time.Second},
		},
		{
			name:     "at once",
			policy:   retry.Policy{Backoff: retry.Constant(0), Name: "task"},
			outcomes: []error{errBoom, errBoom, errBoom},
			timeline: []string{"1: boom: retry in 0s", "2: boom: retry in 0s", "3: gave up (attempts): boom"},
			waits:    []time.Duration{0, 0},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var r retrytest.Recorder
			tt.policy.Jitter = retry.NoJitter
			tt.policy.Clock = new(retrytest.Clock)
			tt.policy.Observer = &r
			_ = tt.policy.Execute(t.Context(), retrytest.Script(tt.outcomes...).Run)
			assert.Equal(t, tt.timeline, r.Timeline())
			assert.Equal(t, tt.waits, r.Waits())
			r.Expect(t, tt.timeline...)
			r.ExpectWaits(t, tt.waits...)
		})
	}
}

func TestRecorderZero(t *testing.T) {
	t.Parallel()
	var r retrytest.Recorder
	assert.Empty(t, r.Events())
	assert.Empty(t, r.Timeline())
	assert.Empty(t, r.Waits())
	r.Expect(t)
	r.ExpectWaits(t)
}

func TestRecorderEventsIsACopy(t *testing.T) {
	t.Parallel()
	var r retrytest.Recorder
	r.Observe(t.Context(), retry.Event{Kind: retry.Succeeded, Attempt: 1})
	r.Events()[0].Attempt = 2
	assert.Equal(t, 1, r.Events()[0].Attempt)
}

func TestRecorderConcurrent(t *testing.T) {
	t.Parallel()
	const goroutines, calls = 8, 100
	var r retrytest.Recorder
	policy := retry.Policy{Backoff: retry.Constant(0), Observer: &r}
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range calls {
				_ = policy.Execute(context.Background(), retrytest.Script(errBoom, nil).Run)
				_ = r.Timeline()[0]
			}
		})
	}
	wg.Wait()
	assert.Len(t, r.Events(), 2*goroutines*calls)
	assert.Len(t, r.Waits(), goroutines*calls)
}

// fakeTB records the reports of a test. Its other methods panic.
type fakeTB struct {
	testing.TB
	helper int
	errors []string
}

func (f *fakeTB) Helper() { f.helper++ }

func (f *fakeTB) Errorf(format string, args ...any) {
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}

func TestRecorderExpect(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		expect func(r *retrytest.Recorder, t testing.TB)
		want   string
	}{
		{
			name: "right",
			expect: func(r *retrytest.Recorder, t testing.TB) {
				t.Helper()
				r.Expect(t, "1: boom: retry in 2s", "2: boom: retry in 4s", "3: succeeded")
			},
		},
		{
			name: "one line differs",
			expect: func(r *retrytest.Recorder, t testing.TB) {
				t.Helper()
				r.Expect(t, "1: boom: retry in 2s", "2: boom: retry in 5s", "3: succeeded")
			},
			want: `retrytest: wrong timeline (- want, + got):
      1: boom: retry in 2s
    - 2: boom: retry in 5s
    + 2: boom: retry in 4s
      3: succeeded`,
		},
		{
			name: "too long",
			expect: func(r *retrytest.Recorder, t testing.TB) {
				t.Helper()
				r.Expect(t, "1: succeeded")
			},
			want: `retrytest: wrong timeline (- want, + got):
    - 1: succeeded
    + 1: boom: retry in 2s
    + 2: boom: retry in 4s
    + 3: succeeded`,
		},
		{
			name: "too short",
			expect: func(r *retrytest.Recorder, t testing.TB) {
				t.Helper()
				r.Expect(t, "1: boom: retry in 2s", "2: boom: retry in 4s", "3: succeeded", "1: succeeded")
			},
			want: `retrytest: wrong timeline (- want, + got):
      1: boom: retry in 2s
      2: boom: retry in 4s
      3: succeeded
    - 1: succeeded`,
		},
		{
			name: "nothing expected",
			expect: func(r *retrytest.Recorder, t testing.TB) {
				t.Helper()
				r.Expect(t)
			},
			want: `retrytest: wrong timeline (- want, + got):
    + 1: boom: retry in 2s
    + 2: boom: retry in 4s
    + 3: succeeded`,
		},
		{
			name: "right waits",
			expect: func(r *retrytest.Recorder, t testing.TB) {
				t.Helper()
				r.ExpectWaits(t, 2*time.Second, 4*time.Second)
			},
		},
		{
			name: "wrong waits",
			expect: func(r *retrytest.Recorder, t testing.TB) {
				t.Helper()
				r.ExpectWaits(t, 2*time.Second, 4*time.Second+1, time.Minute)
			},
			want: `retrytest: wrong waits (- want, + got):
      2s
    - 4.000000001s
    + 4s
    - 1m0s`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var r retrytest.Recorder
			policy := retry.Policy{Jitter: retry.NoJitter, Clock: new(retrytest.Clock), Observer: &r}
			require.NoError(t, policy.Execute(t.Context(), retrytest.Script(errBoom, errBoom, nil).Run))

			var tb fakeTB
			tt.expect(&r, &tb)
			if tt.want == "" {
				assert.Empty(t, tb.errors)
				return
			}
			assert.Equal(t, []string{tt.want}, tb.errors)
			assert.Equal(t, 3, tb.helper, "the failure must point at the line of the test")
		})
	}
}

// A percent sign in an error is not a verb of the report.
func TestRecorderExpectIsNoFormat(t *testing.T) {
	t.Parallel()
	var r retrytest.Recorder
	r.Observe(t.Context(), retry.Event{Kind: retry.Retrying, Attempt: 1, Err: errors.New("disk 100%s full")})
	var tb fakeTB
	r.Expect(&tb)
	require.Len(t, tb.errors, 1)
	assert.Contains(t, tb.errors[0], "+ 1: disk 100%s full: retry in 0s")
}
