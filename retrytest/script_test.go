package retrytest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func TestScript(t *testing.T) {
	t.Parallel()
	errBusy := retry.MarkRateLimited(errors.New("busy"), 3*time.Second)
	op := retrytest.Script(errBoom, errBusy, nil)
	require.Zero(t, op.Calls())

	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it does not care
	assert.Equal(t, errBoom, op.Run(ctx))
	assert.Same(t, errBusy, op.Run(ctx))
	assert.NoError(t, op.Run(ctx))
	assert.Equal(t, 3, op.Calls())

	for call, want := range []string{
		"retrytest: call 4 of an operation with a script for 3",
		"retrytest: call 5 of an operation with a script for 3",
	} {
		err := op.Run(ctx)
		require.EqualError(t, err, want)
		assert.Equal(t, retry.Final, retry.Classify(err).Class)
		assert.Equal(t, call+4, op.Calls())
	}
	assert.EqualError(t, retrytest.Script().Run(ctx), "retrytest: call 1 of an operation with a script for 0")
}

func TestScriptKeepsItsOwnOutcomes(t *testing.T) {
	t.Parallel()
	outcomes := []error{errBoom}
	op := retrytest.Script(outcomes...)
	outcomes[0] = nil
	assert.Equal(t, errBoom, op.Run(t.Context()))
}

func TestScriptConcurrent(t *testing.T) {
	t.Parallel()
	const goroutines, each = 8, 500
	outcomes := make([]error, goroutines*each)
	for i := 0; i < len(outcomes); i += 4 {
		outcomes[i] = errBoom
	}
	op := retrytest.Script(outcomes...)
	var failures atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range each {
				if op.Run(context.Background()) != nil {
					failures.Add(1)
				}
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, goroutines*each/4, failures.Load())
	assert.Equal(t, goroutines*each, op.Calls())
}

var _ rand.Source = (*retrytest.Rand)(nil)

func words(r *retrytest.Rand, n int) []uint64 {
	ws := make([]uint64, n)
	for i := range ws {
		ws[i] = r.Uint64()
	}
	return ws
}

func TestRandSequence(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		rand *retrytest.Rand
		want []uint64
	}{
		// The reference words of SplitMix64.
		{"seed 1234567", retrytest.NewRand(1234567), []uint64{
			6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821,
		}},
		{"seed 0", retrytest.NewRand(0), []uint64{0xe220a8397b1dcdaf}},
		{"zero value", new(retrytest.Rand), []uint64{0xe220a8397b1dcdaf}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, words(tt.rand, len(tt.want)))
		})
	}
}

func TestRandShared(t *testing.T) {
	t.Parallel()
	const goroutines, each = 8, 1000
	r := retrytest.NewRand(1)
	drawn := make([][]uint64, goroutines)
	var wg sync.WaitGroup
	for i := range drawn {
		wg.Go(func() { drawn[i] = words(r, each) })
	}
	wg.Wait()
	assert.Equal(t, sorted(words(retrytest.NewRand(1), goroutines*each)), sorted(slices.Concat(drawn...)))
}

func sorted(ws []uint64) []uint64 {
	slices.Sort(ws)
	return ws
}

type panicking struct{}

func (panicking) Error() string { panic("no text") }

func TestRecorderTimeline(t *testing.T) {
	t.Parallel()
	stopped := func(stop retry.StopReason, err error) *retry.Error {
		return &retry.Error{Policy: "task", Attempts: 3, Stop: stop, Err: err}
	}
	retrying := func(attempt int, err error, delay time.Duration) retry.Event {
		return retry.Event{Kind: retry.Retrying, Policy: "task", Attempt: attempt, Err: err, Delay: delay}
	}
	gaveUp := func(attempt int, stop retry.StopReason, err error) retry.Event {
		return retry.Event{Kind: retry.GaveUp, Attempt: attempt, Stop: stop, Err: err}
	}
	inner := stopped(retry.StopBudget, errBoom)
	const innerText = "task failed after 3 attempts (local retry budget exhausted): boom"
	for want, e := range map[string]retry.Event{
		"1: boom: retry in 2s":                              retrying(1, errBoom, 2*time.Second),
		"12: boom: retry in 0s":                             retrying(12, errBoom, 0),
		"1: boom; boom: retry in 1m0s":                      retrying(1, errors.Join(errBoom, errBoom), time.Minute),
		"1: " + innerText + ": retry in 1ns":                retrying(1, inner, 1),
		"1: <nil>: retry in 1ns":                            retrying(1, nil, 1),
		"1: %!v(PANIC=Error method: no text): retry in 1ns": retrying(1, &panicking{}, 1),
		"2: succeeded":                                      {Kind: retry.Succeeded, Policy: "task", Attempt: 2},
		"1: gave up (final): boom":                          gaveUp(1, retry.StopFinal, errBoom),
		"1: gave up (final): " + innerText:                  gaveUp(1, retry.StopFinal, inner),
		"3: gave up (attempts): boom":                       gaveUp(3, retry.StopAttempts, stopped(retry.StopAttempts, errBoom)),
		"3: gave up (attempts): " + innerText:               gaveUp(3, retry.StopAttempts, stopped(retry.StopAttempts, inner)),
		"2: gave up (deadline): boom":                       gaveUp(2, retry.StopDeadline, stopped(retry.StopDeadline, errBoom)),
		"0: gave up (canceled)":                             gaveUp(0, retry.StopCanceled, &retry.Error{Stop: retry.StopCanceled}),
		"1: gave up (attempts): boom":                       gaveUp(1, retry.StopAttempts, errBoom),
		"1: boom: all are held for 30s":                     {Kind: retry.Held, Attempt: 1, Err: errBoom, Delay: 30 * time.Second},
		"1: none":                                           {Attempt: 1},
	} {
		var r retrytest.Recorder
		r.Observer().Event(t.Context(), e)
		assert.Equal(t, []string{want}, r.Timeline())
		assert.Equal(t, []retry.Event{e}, r.Events(), want)
		var waits []time.Duration
		if e.Kind == retry.Retrying {
			waits = append(waits, e.Delay)
		}
		assert.Equal(t, waits, r.Waits(), want)
		r.Events()[0].Attempt = 7
		assert.Equal(t, e.Attempt, r.Events()[0].Attempt, "it is a copy")
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

func TestRecorderConcurrent(t *testing.T) {
	t.Parallel()
	const goroutines, calls = 8, 100
	var r retrytest.Recorder
	policy := retry.Policy{Backoff: retry.Constant(0), Observer: r.Observer()}
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
		expect []string
		waits  []time.Duration // are expected if they are there
		want   string
	}{
		{name: "right", expect: []string{"1: boom: retry in 2s", "2: boom: retry in 4s", "3: succeeded"}},
		{
			name:   "one line differs",
			expect: []string{"1: boom: retry in 2s", "2: boom: retry in 5s", "3: succeeded"},
			want: `retrytest: wrong timeline (- want, + got):
      1: boom: retry in 2s
    - 2: boom: retry in 5s
    + 2: boom: retry in 4s
      3: succeeded`,
		},
		{
			name:   "too long",
			expect: []string{"1: succeeded"},
			want: `retrytest: wrong timeline (- want, + got):
    - 1: succeeded
    + 1: boom: retry in 2s
    + 2: boom: retry in 4s
    + 3: succeeded`,
		},
		{
			name:   "too short",
			expect: []string{"1: boom: retry in 2s", "2: boom: retry in 4s", "3: succeeded", "1: succeeded"},
			want: `retrytest: wrong timeline (- want, + got):
      1: boom: retry in 2s
      2: boom: retry in 4s
      3: succeeded
    - 1: succeeded`,
		},
		{name: "right waits", waits: []time.Duration{2 * time.Second, 4 * time.Second}},
		{
			name:  "wrong waits",
			waits: []time.Duration{2 * time.Second, 4*time.Second + 1, time.Minute},
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
			policy := retry.Policy{Jitter: retry.NoJitter, Clock: new(retrytest.Clock), Observer: r.Observer()}
			require.NoError(t, policy.Execute(t.Context(), retrytest.Script(errBoom, errBoom, nil).Run))

			var tb fakeTB
			if tt.waits != nil {
				r.ExpectWaits(&tb, tt.waits...)
			} else {
				r.Expect(&tb, tt.expect...)
			}
			if tt.want == "" {
				assert.Empty(t, tb.errors)
				return
			}
			assert.Equal(t, []string{tt.want}, tb.errors)
			assert.Equal(t, 2, tb.helper, "the failure must point at the line of the test")
		})
	}
}

// A percent sign in an error is not a verb of the report.
func TestRecorderExpectIsNoFormat(t *testing.T) {
	t.Parallel()
	var r retrytest.Recorder
	r.Observer().Event(t.Context(), retry.Event{Kind: retry.Retrying, Attempt: 1, Err: errors.New("disk 100%s full")})
	var tb fakeTB
	r.Expect(&tb)
	require.Len(t, tb.errors, 1)
	assert.Contains(t, tb.errors[0], "+ 1: disk 100%s full: retry in 0s")
}
