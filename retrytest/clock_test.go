package retrytest_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
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
	tests := []struct {
		name  string
		clock *retrytest.Clock
		want  time.Time
	}{
		{"zero", new(retrytest.Clock), start},
		{"zero time", retrytest.NewClock(time.Time{}), start},
		{"instant", retrytest.NewClock(instant), instant},
		{"wall time only", retrytest.NewClock(withMonotonic), withMonotonic.Round(0)},
	}
	for _, tt := range tests {
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
	tests := []struct {
		name   string
		d      time.Duration
		moves  time.Duration
		sleeps []time.Duration
	}{
		{"positive", 90 * time.Second, 90 * time.Second, []time.Duration{90 * time.Second}},
		{"zero", 0, 0, nil},
		{"negative", -time.Second, 0, nil},
		{"longest", math.MaxInt64, math.MaxInt64, []time.Duration{math.MaxInt64}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var c retrytest.Clock
			ch := c.After(tt.d)
			require.Len(t, ch, 1)
			assert.Equal(t, start.Add(tt.moves), <-ch)
			assert.Equal(t, start.Add(tt.moves), c.Now())
			assert.Equal(t, tt.sleeps, c.Sleeps())
		})
	}
}

func TestClockSleepsIsACopy(t *testing.T) {
	t.Parallel()
	var c retrytest.Clock
	c.After(time.Second)
	c.Sleeps()[0] = 0
	assert.Equal(t, []time.Duration{time.Second}, c.Sleeps())
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
	names []string
	times []time.Duration
}

func (s *seen) fn(name string) func() {
	return func() {
		s.names = append(s.names, name)
		s.times = append(s.times, passed(s.clock))
	}
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
			require.Equal(t, []string{"at once", "in the past"}, s.names)

			move(&c, 3*time.Second)
			assert.Equal(t, []string{"at once", "in the past", "first", "second", "third", "at the end"}, s.names)
			assert.Equal(t, []time.Duration{0, 0, time.Second, 2 * time.Second, 2 * time.Second, 3 * time.Second}, s.times)
			assert.Equal(t, 3*time.Second, passed(&c))

			move(&c, 1)
			assert.Equal(t, "later", s.names[len(s.names)-1])
			assert.Equal(t, 3*time.Second+1, passed(&c))
		})
	}
}

// The order and the instants of events against an oracle that sorts them.
func TestClockAtProperty(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var c retrytest.Clock
		type ran struct {
			id int
			at time.Duration
		}
		var got, want []ran
		for id := range 50 {
			d := time.Duration(rnd.IntN(20)) // many at the same instant
			at := passed(&c) + d
			want = append(want, ran{id, at})
			c.At(d, func() { got = append(got, ran{id, passed(&c)}) })
			if rnd.IntN(5) == 0 {
				c.Advance(time.Duration(rnd.IntN(8)))
			}
		}
		c.Advance(20)
		// Events for the present run at once, and so in the order of the
		// calls too: the stable sort by instant is all there is to it, as all
		// that was due before has run.
		slices.SortStableFunc(want, func(a, b ran) int { return int(a.at - b.at) })
		require.Equal(t, want, got, "seed %d", seed)
	}
}

func TestClockCallbacksUseTheClock(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		inner func(c *retrytest.Clock, s *seen)
		names []string
		times []time.Duration
		end   time.Duration // after a sleep of 10s
	}{
		{
			name:  "At later in the same sleep",
			inner: func(c *retrytest.Clock, s *seen) { c.At(2*time.Second, s.fn("inner")) },
			names: []string{"outer", "inner", "last"},
			times: []time.Duration{4 * time.Second, 6 * time.Second, 9 * time.Second},
			end:   10 * time.Second,
		},
		{
			name:  "At in the same instant",
			inner: func(c *retrytest.Clock, s *seen) { c.At(0, s.fn("inner")) },
			names: []string{"outer", "inner", "last"},
			times: []time.Duration{4 * time.Second, 4 * time.Second, 9 * time.Second},
			end:   10 * time.Second,
		},
		{
			name: "Advance adds to the sleep",
			inner: func(c *retrytest.Clock, s *seen) {
				c.Advance(3 * time.Second)
				s.fn("inner")()
			},
			names: []string{"outer", "inner", "last"},
			times: []time.Duration{4 * time.Second, 7 * time.Second, 9 * time.Second},
			end:   13 * time.Second,
		},
		{
			name: "a sleep over other events",
			inner: func(c *retrytest.Clock, s *seen) {
				<-c.After(20 * time.Second)
				s.fn("inner")()
			},
			names: []string{"outer", "last", "inner"},
			times: []time.Duration{4 * time.Second, 9 * time.Second, 24 * time.Second},
			end:   30 * time.Second,
		},
		{
			name: "contexts",
			inner: func(c *retrytest.Clock, s *seen) {
				ctx, cancel := c.WithTimeout(context.Background(), time.Second)
				defer cancel()
				c.At(500*time.Millisecond, s.fn("inner"))
				if c.SleepContext(ctx, time.Hour) != nil {
					s.fn("expired")()
				}
			},
			names: []string{"outer", "inner", "expired", "last"},
			times: []time.Duration{4 * time.Second, 4500 * time.Millisecond, 5 * time.Second, 9 * time.Second},
			end:   11 * time.Second,
		},
	}
	for _, tt := range tests {
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
			assert.Equal(t, tt.names, s.names)
			assert.Equal(t, tt.times, s.times)
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

func TestClockSleepContext(t *testing.T) {
	t.Parallel()
	errCause := errors.New("cause")
	tests := []struct {
		name    string
		context func(c *retrytest.Clock) (context.Context, context.CancelFunc)
		err     error
		cause   error
		end     time.Duration // of a sleep of 2s
		sleeps  []time.Duration
	}{
		{
			name: "to the end",
			context: func(*retrytest.Clock) (context.Context, context.CancelFunc) {
				return context.WithCancel(context.Background())
			},
			end:    2 * time.Second,
			sleeps: []time.Duration{2 * time.Second},
		},
		{
			name: "deadline after the end",
			context: func(c *retrytest.Clock) (context.Context, context.CancelFunc) {
				return c.WithTimeout(context.Background(), 2*time.Second+1)
			},
			end:    2 * time.Second,
			sleeps: []time.Duration{2 * time.Second},
		},
		{
			name: "deadline in mid-sleep",
			context: func(c *retrytest.Clock) (context.Context, context.CancelFunc) {
				return c.WithTimeout(context.Background(), 1500*time.Millisecond)
			},
			err:    context.DeadlineExceeded,
			cause:  context.DeadlineExceeded,
			end:    1500 * time.Millisecond,
			sleeps: []time.Duration{2 * time.Second},
		},
		{
			name: "deadline at the end",
			context: func(c *retrytest.Clock) (context.Context, context.CancelFunc) {
				return c.WithTimeout(context.Background(), 2*time.Second)
			},
			err:    context.DeadlineExceeded,
			cause:  context.DeadlineExceeded,
			end:    2 * time.Second,
			sleeps: []time.Duration{2 * time.Second},
		},
		{
			name: "cancel in mid-sleep",
			context: func(c *retrytest.Clock) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(context.Background())
				c.At(700*time.Millisecond, func() {})
				c.At(700*time.Millisecond, func() { cancel(errCause) })
				return ctx, func() { cancel(nil) }
			},
			err:    context.Canceled,
			cause:  errCause,
			end:    700 * time.Millisecond,
			sleeps: []time.Duration{2 * time.Second},
		},
		{
			name: "deadline of the parent",
			context: func(c *retrytest.Clock) (context.Context, context.CancelFunc) {
				parent, cancel := c.WithTimeout(context.Background(), time.Second)
				ctx, cancelChild := c.WithTimeout(parent, time.Minute)
				return ctx, func() { cancelChild(); cancel() }
			},
			err:    context.DeadlineExceeded,
			cause:  context.DeadlineExceeded,
			end:    time.Second,
			sleeps: []time.Duration{2 * time.Second},
		},
		{
			name: "canceled already",
			context: func(*retrytest.Clock) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				return ctx, cancel
			},
			err:   context.Canceled,
			cause: context.Canceled,
		},
		{
			name: "expired already",
			context: func(c *retrytest.Clock) (context.Context, context.CancelFunc) {
				return c.WithTimeout(context.Background(), 0)
			},
			err:   context.DeadlineExceeded,
			cause: context.DeadlineExceeded,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var c retrytest.Clock
			ctx, cancel := tt.context(&c)
			defer cancel()
			assert.Equal(t, tt.err, c.SleepContext(ctx, 2*time.Second))
			assert.Equal(t, tt.cause, context.Cause(ctx))
			assert.Equal(t, tt.end, passed(&c))
			assert.Equal(t, tt.sleeps, c.Sleeps())
		})
		t.Run(tt.name+", as work", func(t *testing.T) {
			t.Parallel()
			var c retrytest.Clock
			ctx, cancel := tt.context(&c)
			defer cancel()
			assert.Equal(t, tt.err, c.AdvanceContext(ctx, 2*time.Second))
			assert.Equal(t, tt.end, passed(&c))
			assert.Empty(t, c.Sleeps())
		})
	}
}

func TestClockSleepContextOfNoTime(t *testing.T) {
	t.Parallel()
	var c retrytest.Clock
	for _, d := range []time.Duration{0, -1, math.MinInt64} {
		require.NoError(t, c.SleepContext(t.Context(), d))
	}
	assert.Equal(t, start, c.Now())
	assert.Empty(t, c.Sleeps())
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
	require.Equal(t, []string{"before"}, s.names)
	c.Advance(time.Second)
	assert.Equal(t, []string{"before", "behind"}, s.names)
	assert.Equal(t, []time.Duration{time.Second, time.Second}, s.times)
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

// TestClockManyEvents has more events than a list could hold in order, and removes some.
func TestClockManyEvents(t *testing.T) {
	t.Parallel()
	var c retrytest.Clock
	random := rand.New(rand.NewPCG(1, 2))
	last, ran := time.Duration(0), 0
	for n := range 100_000 {
		d := time.Duration(1 + random.IntN(1_000_000))
		if n%3 == 0 {
			_, cancel := c.WithTimeout(t.Context(), d)
			cancel()
			continue
		}
		c.At(d, func() {
			assert.GreaterOrEqual(t, passed(&c), last)
			last, ran = passed(&c), ran+1
		})
	}
	c.Advance(time.Second)
	assert.Equal(t, 66_666, ran)
}
