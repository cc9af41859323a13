package retrypool_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypool"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func TestOrderOfSubmission(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 1, Policy: every(1500 * time.Millisecond)}
		var j journal
		op := retrytest.Script(errBoom, errBoom, nil)
		submit(t.Context(), t, pool, j.noted("old", taking(time.Second, op.Run))) // due at 2.5 and at 5.5
		var last *retrypool.Task
		for i := range 6 {
			last = submit(t.Context(), t, pool, j.noted("new "+strconv.Itoa(i), taking(time.Second, succeeds)))
		}
		require.NoError(t, last.Wait(t.Context()))
		assert.Equal(t, []string{
			"old", "new 0", "new 1", "old", "new 2", "new 3", "old", "new 4", "new 5",
		}, j.lines)
	})
}

// The queue is never empty, and still every retry is made when it is due.
func TestFloodDoesNotStarveRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 2, Queue: 10, Policy: every(time.Minute)}
		ctx, stop := context.WithCancel(t.Context())
		flood := make(chan int)
		go func() {
			n := 0
			for ctx.Err() == nil {
				if _, err := pool.Submit(ctx, taking(time.Second, succeeds)); err == nil {
					n++
				}
			}
			flood <- n
		}()
		synctest.Wait()
		var at []time.Duration
		start := time.Now()
		task := submit(t.Context(), t, pool, func(context.Context) error {
			at = append(at, time.Since(start))
			return errBoom
		})
		require.ErrorIs(t, task.Wait(t.Context()), errBoom)
		require.Len(t, at, 3)
		assert.LessOrEqual(t, at[1]-at[0], time.Minute+time.Second)
		assert.LessOrEqual(t, at[2]-at[1], time.Minute+time.Second)
		stop()
		assert.Greater(t, <-flood, 200)
		shut(t, pool)
	})
}

// Tasks that are due at the same instant run in order of submission, however they
// came to wait, and also if they are so many that workers come between.
func TestSimultaneousRetriesInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		policy := every(time.Second)
		policy.Clock = pausingClock{}
		pool := &retrypool.Pool{Workers: 1, Policy: policy}
		var j journal
		var want []string
		at := time.Now().Add(time.Second)
		for i := range 2500 {
			name := strconv.Itoa(i)
			want = append(want, name)
			_, err := pool.Resume(t.Context(), retry.State{}, at, j.noted(name, succeeds))
			require.NoError(t, err)
		}
		time.Sleep(time.Minute)
		shut(t, pool)
		assert.True(t, slices.Equal(want, j.lines), "%v", j.lines)
	})
}

// pausingClock lets others run whenever it is asked for the time.
type pausingClock struct{ plainClock }

func (c pausingClock) Now() time.Time {
	time.Sleep(time.Nanosecond)
	return c.plainClock.Now()
}
