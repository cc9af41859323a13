package retryquota_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryquota"
)

// 100,000 tenants are forgotten within a minute of their last call. One that is limited is not, and
// holds up nobody else; a Pacer that was kept is right afterwards.
func TestKeysForget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys := &retryquota.Keys[int]{MaxHold: time.Hour}
		call := func(key int, err error) error {
			p := &retry.Policy{Quota: keys.Of(key), MaxAttempts: 1}
			return p.Execute(t.Context(), func(context.Context) error { return err })
		}
		kept := keys.Of(7)
		began := time.Now()
		require.Error(t, call(0, retry.MarkRateLimited(errors.New("too many"), 10*time.Minute)))
		for key := 1; key <= 100_000; key++ {
			require.NoError(t, call(key, nil))
		}
		assert.Equal(t, began, time.Now(), "none waits for another's limit")
		assert.Equal(t, 100_001, keys.Len())
		time.Sleep(time.Minute)
		assert.Equal(t, 1, keys.Len(), "but the one that is held")
		require.ErrorIs(t, call(0, nil), retry.StopRetryAfter)

		turn, _, _ := kept.Take(nil, 1)
		kept.Tell(nil, turn, nil, retry.Verdict{})
		assert.Equal(t, 2, keys.Len())
		assert.Same(t, kept, keys.Of(7))
		time.Sleep(20 * time.Minute)
		assert.Zero(t, keys.Len())
		assert.NoError(t, call(0, nil))
	})
}

// A key of which an attempt was never told is forgotten after a while.
func TestKeysForgetWhatIsNeverTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys := &retryquota.Keys[int]{}
		q := keys.Of(1)
		for range 501 { // no limit is known after 500
			turn, n, _ := q.Take(nil, 1)
			require.Equal(t, 1, n)
			q.Tell(nil, turn, nil, retry.Verdict{})
		}
		_, n, _ := q.Take(nil, 1)
		require.Equal(t, 1, n)
		time.Sleep(time.Minute)
		assert.Equal(t, 1, keys.Len(), "it may run still")
		time.Sleep(time.Hour)
		assert.Zero(t, keys.Len())
	})
}
