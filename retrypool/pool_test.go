package retrypool_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypool"
)

var errBoom = errors.New("boom")

func fails(context.Context) error { return errBoom }

func succeeds(context.Context) error { return nil }

// A task that waits holds no worker.
func TestWaitingHoldsNoWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 1, Policy: &retry.Policy{Backoff: retry.Constant(time.Hour), Jitter: retry.NoJitter}}
		old, err := pool.Submit(t.Context(), fails)
		require.NoError(t, err)
		start := time.Now()
		task, err := pool.Submit(t.Context(), succeeds)
		require.NoError(t, err)
		require.NoError(t, task.Wait(t.Context()))
		assert.Equal(t, start, time.Now())
		err = old.Wait(t.Context())
		require.ErrorIs(t, err, errBoom)
		require.EqualError(t, err, "failed after 3 attempts: boom")
		assert.Equal(t, 2*time.Hour, time.Since(start))
	})
}

func TestCloseHandsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 1, Policy: &retry.Policy{Backoff: retry.Constant(time.Hour), Jitter: retry.NoJitter}}
		task, err := pool.Submit(t.Context(), fails)
		require.NoError(t, err)
		synctest.Wait()
		left, err := pool.Close(t.Context())
		require.NoError(t, err)
		require.Equal(t, []*retrypool.Task{task}, left)
		require.ErrorIs(t, task.Err(), retrypool.ErrClosed)
		require.ErrorIs(t, task.Err(), errBoom)
		s, at := task.State()
		assert.Equal(t, 1, s.Failures)
		assert.True(t, at.Equal(time.Now().Add(time.Hour)))
	})
}
