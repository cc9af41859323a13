package retrytest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

var (
	_ retry.Clock    = (*clock.Mock)(nil)
	_ retrytest.Mock = (*clock.Mock)(nil)
	_ retry.Clock    = (*retrytest.AutoClock)(nil)
)

func TestAuto(t *testing.T) {
	t.Parallel()
	mock := clock.NewMock()
	began := mock.Now()
	auto := retrytest.Auto(mock)
	op := retrytest.Script(errBoom, retry.MarkRetryable(errBoom), errBoom, nil)
	var recorder retrytest.Recorder
	policy := retry.Policy{
		MaxAttempts: 4,
		Backoff:     retry.Schedule{time.Second, 0, time.Minute},
		Jitter:      retry.NoJitter,
		Clock:       auto,
		Observer:    &recorder,
	}
	require.NoError(t, policy.Execute(t.Context(), op.Run))
	recorder.ExpectWaits(t, time.Second, 0, time.Minute)
	assert.Equal(t, []time.Duration{time.Second, time.Minute}, auto.Sleeps())
	assert.Equal(t, 61*time.Second, mock.Now().Sub(began))
	assert.Equal(t, mock.Now(), auto.Now())
}

func TestAutoHoldsTheTimeThen(t *testing.T) {
	t.Parallel()
	mock := clock.NewMock()
	began := mock.Now()
	auto := retrytest.Auto(mock)
	tests := []struct {
		d, at time.Duration
	}{
		{time.Hour, time.Hour},
		{0, time.Hour},
		{-time.Hour, time.Hour},
		{1, time.Hour + 1},
	}
	for _, tt := range tests {
		ch := auto.After(tt.d)
		require.Len(t, ch, 1, "After(%v)", tt.d)
		assert.Equal(t, tt.at, (<-ch).Sub(began), "After(%v)", tt.d)
	}
	assert.Equal(t, []time.Duration{time.Hour, 1}, auto.Sleeps())
	auto.Sleeps()[0] = 0
	assert.Equal(t, []time.Duration{time.Hour, 1}, auto.Sleeps(), "it is a copy")
}

func TestAutoConcurrentWaitsAddUp(t *testing.T) {
	t.Parallel()
	const goroutines, waits = 10, 10
	mock := clock.NewMock()
	began := mock.Now()
	auto := retrytest.Auto(mock)
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range waits {
				<-auto.After(time.Second)
				<-auto.After(0)
			}
		})
	}
	wg.Wait()
	assert.Equal(t, goroutines*waits*time.Second, mock.Now().Sub(began))
	assert.Len(t, auto.Sleeps(), goroutines*waits)
}

// The deadlines of contexts that the mock makes are in its time, which is years
// away from the system's.
func TestAutoWithDeadlineOfMock(t *testing.T) {
	t.Parallel()
	mock := clock.NewMock()
	ctx, cancel := mock.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var recorder retrytest.Recorder
	policy := retry.Policy{Jitter: retry.NoJitter, Clock: retrytest.Auto(mock), Observer: &recorder}
	err := policy.Execute(ctx, retrytest.Script(errBoom, errBoom, nil).Run)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	recorder.Expect(t, "1: boom: retry in 2s", "2: gave up (deadline): boom")
}
