package retryjob_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retryjob"
)

// The end waits for the last beat, and no other one begins.
func TestKeep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var beats atomic.Int64
		begun := time.Now()
		end := new(retryjob.Overtime).Keep(time.Minute, func() {
			if beats.Add(1) == 3 {
				time.Sleep(time.Hour) // the engine is silent
			}
		}, nil)
		time.Sleep(150 * time.Second)
		assert.EqualValues(t, 2, beats.Load())
		time.Sleep(time.Minute)
		end()
		end()
		assert.EqualValues(t, 3, beats.Load())
		assert.Equal(t, 63*time.Minute, time.Since(begun))
	})
}

// Work that ignores its context is kept until its overtime is over, of which somebody is told
// once. Work that has returned has none.
func TestOvertime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, beats, told := &retryjob.Overtime{Most: 3 * time.Minute}, 0, []error(nil)
		end := o.Keep(time.Minute, func() { beats++ }, func(err error) { told = append(told, err) })
		work := o.Watch(func(ctx context.Context) error {
			time.Sleep(time.Hour) // whatever the context says
			return ctx.Err()
		})
		ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errors.New("limit"))
		cancelled, stop := context.WithCancel(t.Context())
		stop()
		quick := o.Watch(func(context.Context) error { return nil })
		require.NoError(t, quick(cancelled))
		defer cancel()
		require.ErrorIs(t, work(ctx), context.DeadlineExceeded)
		time.Sleep(time.Hour)
		end()
		assert.Equal(t, 3, beats, "the context ended before the first")
		require.Len(t, told, 1)
		require.ErrorContains(t, told[0], "its work goes on 3m0s after its context has ended (limit), and keeps its place")
		assert.True(t, o.Over())
	})
}
