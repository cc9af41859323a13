package retrytest_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

var (
	errBoom = errors.New("boom")
	start   = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)
)

// A Policy finds both of these by assertion, so a wrong signature would go
// unnoticed elsewhere.
var _ interface {
	retry.Clock
	SleepContext(ctx context.Context, d time.Duration) error
	AttemptContext(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
} = (*retrytest.Clock)(nil)

func passed(c *retrytest.Clock) time.Duration { return c.Now().Sub(start) }

func TestClockStart(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("somewhere", 3600)
	instant := time.Date(2026, time.November, 21, 6, 48, 0, 5, zone)
	withMonotonic := time.Now()
	for _, tt := range []struct {
		name  string
		clock *retrytest.Clock
		want  time.Time
	}{
		{"zero", new(retrytest.Clock), start},
		{"zero time", retrytest.NewClock(time.Time{}), start},
		{"instant", retrytest.NewClock(instant), instant},
		{"wall time only", retrytest.NewClock(withMonotonic), withMonotonic.Round(0)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// The location and the lack of a monotonic reading count, so not
			// time.Time's Equal.
			assert.Equal(t, tt.want, tt.clock.Now())
			tt.clock.Advance(time.Second)
			assert.Equal(t, tt.want.Add(time.Second), tt.clock.Now())
		})
	}
}

func TestClockAfter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		d      time.Duration
		moves  time.Duration
		sleeps []time.Duration
	}{
		{"positive", 90 * time.Second, 90 * time.Second, []time.Duration{90 * time.Second}},
		{"zero", 0, 0, nil},
		{"negative", -time.Second, 0, nil},
		{"longest", math.MaxInt64, math.MaxInt64, []time.Duration{math.MaxInt64}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var c retrytest.Clock
			ch := c.After(tt.d)
			require.Len(t, ch, 1)
			assert.Equal(t, start.Add(tt.moves), <-ch)
			assert.Equal(t, start.Add(tt.moves), c.Now())
			assert.Equal(t, tt.sleeps, c.Sleeps())
			if tt.moves == math.MaxInt64 {
				return // there is no time after that
			}
			require.NoError(t, c.SleepContext(t.Context(), tt.d))
			assert.Equal(t, start.Add(2*tt.moves), c.Now())
			assert.Equal(t, append(tt.sleeps, tt.sleeps...), c.Sleeps())
			for i := range tt.sleeps {
				c.Sleeps()[i] = 0
			}
			assert.NotContains(t, c.Sleeps(), 0, "it is a copy")
		})
	}
}

func TestClockAdvanceIsNotASleep(t *testing.T) {
	t.Parallel()
	var c retrytest.Clock
	c.Advance(time.Hour)
	c.Advance(0)
	c.Advance(-time.Hour)
	require.NoError(t, c.AdvanceContext(t.Context(), time.Hour))
	assert.Equal(t, 2*time.Hour, passed(&c))
	assert.Empty(t, c.Sleeps())
}

// seen notes what ran and when.
type seen struct {
	clock *retrytest.Clock
	notes []string
}

func (s *seen) fn(name string) func() {
	return func() { s.notes = append(s.notes, fmt.Sprint(name, " ", passed(s.clock))) }
}

func TestClockAtOrder(t *testing.T) {
	t.Parallel()
	moves := map[string]func(c *retrytest.Clock, d time.Duration){
		"After":          func(c *retrytest.Clock, d time.Duration) { c.After(d) },
		"Advance":        (*retrytest.Clock).Advance,
		"SleepContext":   func(c *retrytest.Clock, d time.Duration) { _ = c.SleepContext(context.Background(), d) },
		"AdvanceContext": func(c *retrytest.Clock, d time.Duration) { _ = c.AdvanceContext(context.Background(), d) },
	}
	for name, move := range moves {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c retrytest.Clock
			s := seen{clock: &c}
			c.At(3*time.Second, s.fn("at the end"))
			c.At(2*time.Second, s.fn("second"))
			c.At(time.Second, s.fn("first"))
			c.At(2*time.Second, s.fn("third"))
			c.At(3*time.Second+1, s.fn("later"))
			c.At(0, s.fn("at once"))
			c.At(-time.Second, s.fn("in the past"))
			want := []string{"at once 0s", "in the past 0s"}
			require.Equal(t, want, s.notes)

			move(&c, 3*time.Second)
			want = append(want, "first 1s", "second 2s", "third 2s", "at the end 3s")
			assert.Equal(t, want, s.notes)
			assert.Equal(t, 3*time.Second, passed(&c))

			move(&c, 1)
			assert.Equal(t, append(want, "later 3.000000001s"), s.notes)
			assert.Equal(t, 3*time.Second+1, passed(&c))
		})
	}
}

func TestClockCallbacksUseTheClock(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		inner func(c *retrytest.Clock, s *seen)
		want  []string
		end   time.Duration // after a sleep of 10s
	}{
		{
			"At later in the same sleep",
			func(c *retrytest.Clock, s *seen) { c.At(2*time.Second, s.fn("inner")) },
			[]string{"outer 4s", "inner 6s", "last 9s"},
			10 * time.Second,
		},
		{
			"At in the same instant",
			func(c *retrytest.Clock, s *seen) { c.At(0, s.fn("inner")) },
			[]string{"outer 4s", "inner 4s", "last 9s"},
			10 * time.Second,
		},
		{
			"Advance adds to the sleep",
			func(c *retrytest.Clock, s *seen) {
				c.Advance(3 * time.Second)
				s.fn("inner")()
			},
			[]string{"outer 4s", "inner 7s", "last 9s"},
			13 * time.Second,
		},
		{
			"a sleep over other events",
			func(c *retrytest.Clock, s *seen) {
				<-c.After(20 * time.Second)
				s.fn("inner")()
			},
			[]string{"outer 4s", "last 9s", "inner 24s"},
			30 * time.Second,
		},
		{
			"contexts",
			func(c *retrytest.Clock, s *seen) {
				ctx, cancel := c.WithTimeout(context.Background(), time.Second)
				defer cancel()
				c.At(500*time.Millisecond, s.fn("inner"))
				if c.SleepContext(ctx, time.Hour) != nil {
					s.fn("expired")()
				}
			},
			[]string{"outer 4s", "inner 4.5s", "expired 5s", "last 9s"},
			11 * time.Second,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var c retrytest.Clock
			s := seen{clock: &c}
			c.At(9*time.Second, s.fn("last"))
			c.At(4*time.Second, func() {
				s.fn("outer")()
				tt.inner(&c, &s)
			})
			c.After(10 * time.Second)
			assert.Equal(t, tt.want, s.notes)
			assert.Equal(t, tt.end, passed(&c))
		})
	}
}

func TestClockPanicInCallback(t *testing.T) {
	t.Parallel()
	var c retrytest.Clock
	c.At(time.Second, func() { panic("boom") })
	assert.PanicsWithValue(t, "boom", func() { c.After(time.Minute) })
	assert.Equal(t, time.Second, passed(&c))
	c.Advance(time.Second) // no lock was left held
	assert.Equal(t, 2*time.Second, passed(&c))
}

// An event after the end of a context in the same instant is not lost: it runs
// when the time moves on.
func TestClockStopsExactlyAtTheEvent(t *testing.T) {
	t.Parallel()
	var c retrytest.Clock
	s := seen{clock: &c}
	ctx, cancel := context.WithCancel(t.Context())
	c.At(time.Second, s.fn("before"))
	c.At(time.Second, cancel)
	c.At(time.Second, s.fn("behind"))
	require.ErrorIs(t, c.SleepContext(ctx, time.Minute), context.Canceled)
	require.Equal(t, []string{"before 1s"}, s.notes)
	c.Advance(time.Second)
	assert.Equal(t, []string{"before 1s", "behind 1s"}, s.notes)
}

func TestClockConcurrentSleepersAddUp(t *testing.T) {
	t.Parallel()
	const goroutines, sleeps = 8, 200
	var c retrytest.Clock
	var mu sync.Mutex
	ran := 0
	for i := range goroutines * sleeps {
		c.At(time.Duration(i+1)*time.Millisecond, func() {
			mu.Lock()
			defer mu.Unlock()
			ran++
		})
	}
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range sleeps {
				ctx, cancel := c.WithTimeout(context.Background(), time.Hour)
				if err := c.SleepContext(ctx, time.Millisecond); err != nil {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	assert.Equal(t, goroutines*sleeps*time.Millisecond, passed(&c))
	assert.Len(t, c.Sleeps(), goroutines*sleeps)
	assert.Equal(t, goroutines*sleeps, ran)
}

func TestClockTaking(t *testing.T) {
	t.Parallel()
	var c retrytest.Clock
	op := retrytest.Script(errBoom, nil)
	slow := c.Taking(3*time.Second, op.Run)

	assert.Equal(t, errBoom, slow(t.Context()))
	assert.Equal(t, 3*time.Second, passed(&c))

	ctx, cancel := c.WithTimeout(t.Context(), time.Second)
	defer cancel()
	assert.Equal(t, context.DeadlineExceeded, slow(ctx))
	assert.Equal(t, 4*time.Second, passed(&c))
	assert.Equal(t, 1, op.Calls(), "it ended before its work was done")

	assert.NoError(t, slow(t.Context()))
	assert.Equal(t, 7*time.Second, passed(&c))
	assert.Empty(t, c.Sleeps())
}

// Not parallel: AllocsPerRun counts the allocations of all goroutines.
func TestClockSleepAllocs(t *testing.T) { //nolint:paralleltest // see above
	var c retrytest.Clock
	ctx, cancel := c.WithTimeout(t.Context(), 1000*time.Hour)
	defer cancel()
	allocs := testing.AllocsPerRun(1000, func() { _ = c.SleepContext(ctx, time.Second) })
	assert.Zero(t, allocs, "but for the record, which grows now and then")
}

// TestClockManyEvents has more events than a list could hold in order, many of them at the same
// instant, and removes some. It compares the order and the instants with an oracle that sorts
// them.
func TestClockManyEvents(t *testing.T) {
	t.Parallel()
	type event struct {
		id int
		at time.Duration
	}
	var c retrytest.Clock
	var got, want []event
	random := rand.New(rand.NewPCG(1, 2))
	for id := range 100_000 {
		d := time.Duration(random.IntN(10_000))
		if random.IntN(1000) == 0 {
			c.Advance(time.Duration(random.IntN(8)))
		}
		if id%3 == 0 {
			_, cancel := c.WithTimeout(t.Context(), d)
			cancel()
			continue
		}
		want = append(want, event{id, passed(&c) + d})
		c.At(d, func() { got = append(got, event{id, passed(&c)}) })
	}
	c.Advance(time.Second)
	// Events for the present run at once, and so in the order of the calls too.
	slices.SortStableFunc(want, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	require.True(t, slices.Equal(want, got))
}

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
		Observer:       recorder.Observer(),
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
