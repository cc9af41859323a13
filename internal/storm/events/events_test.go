package events_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/storm/events"
)

func TestEventsComeInOrderOfTime(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	var q events.Queue[time.Duration]
	var want []time.Duration
	for range 1000 {
		d := time.Duration(rng.IntN(300))
		want = append(want, d)
		q.After(d, d)
	}
	slices.Sort(want)
	for _, at := range want {
		got, ok := q.Next(math.MaxInt64)
		require.True(t, ok)
		require.Equal(t, at, got)
		require.Equal(t, at, q.Now())
	}
	_, ok := q.Next(math.MaxInt64)
	assert.False(t, ok)
}

func TestEventsOfOneInstantKeepTheirOrder(t *testing.T) {
	t.Parallel()
	var q events.Queue[int]
	for i := range 100 {
		q.After(time.Second, i)
	}
	for i := range 100 {
		got, _ := q.Next(time.Hour)
		require.Equal(t, i, got)
	}
}

func TestAfterCountsFromNow(t *testing.T) {
	t.Parallel()
	var q events.Queue[string]
	q.After(time.Second, "first")
	q.Next(time.Hour)
	q.After(time.Second, "second")
	q.After(-time.Second, "at once")
	q.After(math.MaxInt64, "at the end of time")

	what, ok := q.Next(time.Hour)
	assert.Equal(t, "at once", what)
	assert.True(t, ok)
	what, _ = q.Next(time.Hour)
	assert.Equal(t, "second", what)
	assert.Equal(t, 2*time.Second, q.Now())

	_, ok = q.Next(time.Hour)
	assert.False(t, ok, "it is later than end")
	assert.Equal(t, 2*time.Second, q.Now())
}

func TestNextLeavesOutTheEnd(t *testing.T) {
	t.Parallel()
	var q events.Queue[int]
	q.After(time.Second, 1)
	_, ok := q.Next(time.Second)
	assert.False(t, ok)
	_, ok = q.Next(time.Second + 1)
	assert.True(t, ok)
}
