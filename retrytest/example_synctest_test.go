package retrytest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

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
