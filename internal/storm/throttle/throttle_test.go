package throttle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/internal/storm/throttle"
)

// retries returns how many of n retries are allowed at now, none of which is
// done yet.
func retries(t throttle.Throttle, n int, now time.Duration) (allowed int) {
	for range n {
		if t.Allow(2, now) {
			allowed++
		}
	}
	return allowed
}

// call makes n calls that succeed at once.
func call(t throttle.Throttle, n int, now time.Duration) {
	for range n {
		t.Allow(1, now)
		t.Done(1, true, now)
	}
}

func TestNone(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 1000, retries(throttle.None{}, 1000, 0))
}

func TestBucketPerSuccess(t *testing.T) {
	t.Parallel()
	b := &throttle.Bucket{Cap: 10, Cost: 1, PerSuccess: 0.125}
	assert.Equal(t, 10, retries(b, 100, 0), "it begins full")
	assert.True(t, b.Allow(1, 0), "first attempts are free")
	b.Done(1, false, 0)
	assert.Equal(t, 0, retries(b, 100, time.Hour), "neither failures nor time earn anything")
	call(b, 16, 0)
	assert.Equal(t, 2, retries(b, 100, 0))
	call(b, 1000, 0)
	assert.Equal(t, 10, retries(b, 100, 0), "it is never more than full")
}

func TestBucketPerCall(t *testing.T) {
	t.Parallel()
	b := &throttle.Bucket{Cap: 3, Cost: 1, PerCall: 0.5}
	assert.Equal(t, 3, retries(b, 100, 0))
	for range 4 {
		b.Allow(1, 0)
		b.Done(1, false, 0)
	}
	assert.Equal(t, 2, retries(b, 100, 0), "calls earn, successful or not")
}

func TestBucketRefund(t *testing.T) {
	t.Parallel()
	b := &throttle.Bucket{Cap: 500, Cost: 14, PerSuccess: 1, Refund: true}
	assert.Equal(t, 35, retries(b, 100, 0))
	b.Done(2, true, 0)
	assert.Equal(t, 1, retries(b, 100, 0), "a retry that succeeds gets its cost back")
	call(b, 14, 0)
	assert.Equal(t, 1, retries(b, 100, 0), "a first attempt earns 1")
}

func TestGRPC(t *testing.T) {
	t.Parallel()
	g := &throttle.GRPC{Max: 10, Ratio: 0.5}
	for failures := range 5 {
		assert.True(t, g.Allow(2, 0), failures)
		g.Done(1, false, 0)
	}
	assert.False(t, g.Allow(2, 0), "half is left")
	assert.True(t, g.Allow(1, 0))
	g.Done(1, true, 0)
	assert.True(t, g.Allow(2, 0), "more than half is left")
	for range 100 {
		g.Done(1, false, 0)
	}
	call(g, 10, 0)
	assert.False(t, g.Allow(2, 0))
	call(g, 1, 0)
	assert.True(t, g.Allow(2, 0), "it never was below 0")
}

func TestConcurrency(t *testing.T) {
	t.Parallel()
	c := &throttle.Concurrency{Ratio: 0.2, Min: 3}
	assert.Equal(t, 3, retries(c, 100, 0), "the least")
	c.Done(2, false, 0)
	assert.Equal(t, 1, retries(c, 100, 0), "one has ended")
	for range 30 {
		c.Allow(1, 0)
	}
	assert.Equal(t, 4, retries(c, 100, 0), "33 in progress allow 6, and each retry is one more of them")
	for range 30 {
		c.Done(1, false, 0)
	}
	assert.False(t, c.Allow(2, 0))
}

func TestWindow(t *testing.T) {
	t.Parallel()
	w := &throttle.Window{Ratio: 0.1, TTL: 10 * time.Second}
	call(w, 25, time.Second)
	assert.Equal(t, 2, retries(w, 100, 2*time.Second))
	assert.Equal(t, 0, retries(w, 100, 10*time.Second))
	call(w, 25, 11*time.Second)
	assert.Equal(t, 0, retries(w, 100, 11*time.Second), "the old calls are forgotten, the old retries not yet")
	assert.Equal(t, 2, retries(w, 100, 12*time.Second))

	floor := &throttle.Window{Ratio: 0.1, PerSecond: 2, TTL: 10 * time.Second}
	assert.Equal(t, 20, retries(floor, 100, 0), "2 per second")
}
