package retrytest_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// result has everything that a test can see of a run.
type result struct {
	timeline []string
	sleeps   []time.Duration
	err      string
	calls    int
	now      time.Time
}

func cancelInMidSleep() result {
	var (
		clock    retrytest.Clock
		recorder retrytest.Recorder
	)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	clock.At(4500*time.Millisecond, func() { cancel(errors.New("shutting down")) })
	op := retrytest.Script(errBoom, errBoom, errBoom, nil)
	policy := retry.Policy{
		MaxAttempts:    5,
		AttemptTimeout: time.Second,
		Jitter:         retry.NoJitter,
		Clock:          &clock,
		Observer:       &recorder,
	}
	err := policy.Execute(ctx, clock.Taking(100*time.Millisecond, op.Run))
	return result{recorder.Timeline(), clock.Sleeps(), err.Error(), op.Calls(), clock.Now()}
}

// Not parallel: it counts goroutines.
func TestClockRunsAreIdentical(t *testing.T) { //nolint:paralleltest // see above
	want := result{
		timeline: []string{
			"1: boom: retry in 2s",
			"2: boom: retry in 4s",
			"2: gave up (canceled): boom",
		},
		sleeps: []time.Duration{2 * time.Second, 4 * time.Second},
		err:    "failed after 2 attempts (context canceled: shutting down): boom",
		calls:  2,
		now:    start.Add(4500 * time.Millisecond),
	}
	before := runtime.NumGoroutine()
	for range 1000 {
		require.Equal(t, want, cancelInMidSleep())
	}
	// The runtime's goroutine for finalizers counts while it runs one.
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(end); {
		runtime.Gosched()
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), before)
}

func TestClockInAndOutsideBubbles(t *testing.T) {
	t.Parallel()
	outside := retrytest.NewClock(time.Time{})
	outer, cancelOuter := outside.WithTimeout(context.Background(), time.Minute)
	defer cancelOuter()
	// Package context makes this channel at its first use, which would otherwise
	// be inside the bubble, and bind the context to it.
	require.NotNil(t, outer.Done())
	var inside *retrytest.Clock

	synctest.Test(t, func(t *testing.T) {
		// One from outside, and a child of a context from there.
		ctx, cancel := outside.AttemptContext(outer, time.Second)
		defer cancel()
		assert.Equal(t, context.DeadlineExceeded, outside.SleepContext(ctx, time.Hour))
		assert.Equal(t, time.Second, passed(outside))
		assert.Len(t, outside.After(time.Second), 1)

		// One from inside, which leaves the time of the bubble alone.
		inside = new(retrytest.Clock)
		before := time.Now()
		assert.Equal(t, before.UTC(), inside.Now(), "both start at the same instant")
		inside.At(time.Hour, func() {})
		inside.After(time.Second)
		assert.Equal(t, before, time.Now())
	})

	assert.Equal(t, 2*time.Second, passed(outside))
	require.NoError(t, outer.Err())
	assert.Equal(t, context.DeadlineExceeded, outside.SleepContext(outer, time.Hour))
	inside.After(2 * time.Hour)
	assert.Equal(t, 2*time.Hour+time.Second, passed(inside))
}
