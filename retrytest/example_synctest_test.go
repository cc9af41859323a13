package retrytest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// These tests are examples. testing/synctest needs a *testing.T, which an
// Example function does not have.

// In a bubble, time passes when all goroutines wait for it. So a policy needs no
// clock, context.WithTimeout is exact, and concurrent waits overlap.
func TestExampleSynctest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var recorder retrytest.Recorder
		policy := retry.Policy{Jitter: retry.NoJitter, Observer: &recorder}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()

		began := time.Now()
		err := policy.Execute(ctx, retrytest.Script(errUnavailable, errUnavailable, nil).Run)

		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 2*time.Second, time.Since(began))
		recorder.Expect(t,
			"1: unavailable: retry in 2s",
			"2: gave up (deadline): unavailable", // the next attempt would be at 6s
		)
	})
}

// If concurrent calls wait at the same time, a bubble takes as long as the
// longest of them. On one Clock they would add up.
func TestExampleSynctestConcurrent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		policy := retry.Policy{Jitter: retry.NoJitter}
		began := time.Now()
		for range 100 {
			go func() {
				err := policy.Execute(t.Context(), retrytest.Script(errUnavailable, errUnavailable, nil).Run)
				assert.NoError(t, err)
				assert.Equal(t, 6*time.Second, time.Since(began))
			}()
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
	})
}

// A mock clock that stands still can be moved step by step in a bubble:
// synctest.Wait returns when the policy has begun its wait, so no step comes too
// early.
func TestExampleSynctestWithMock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mock := clock.NewMock()
		policy := retry.Policy{Jitter: retry.NoJitter, Clock: mock}
		op := retrytest.Script(errUnavailable, errUnavailable, nil)
		over := make(chan error, 1)
		go func() { over <- policy.Execute(t.Context(), op.Run) }()

		steps := []struct {
			add   time.Duration
			calls int
		}{
			{0, 1},
			{2*time.Second - 1, 1},
			{1, 2},
			{4*time.Second - 1, 2},
			{1, 3},
		}
		for _, step := range steps {
			synctest.Wait()
			mock.Add(step.add)
			synctest.Wait()
			assert.Equal(t, step.calls, op.Calls(), "at %v", mock.Now().UTC())
		}
		require.NoError(t, <-over)
	})
}
