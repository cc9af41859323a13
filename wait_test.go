package retry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

// asleep is how long the machine of these tests sleeps.
const asleep = 8 * time.Hour

// laptopClock is the clock of a machine that sleeps in the middle of every wait. Now stands
// still meanwhile, as the monotonic clock does by which Go measures; wall goes on.
type laptopClock struct {
	now, wall time.Time
	waits     []time.Duration
}

func (c *laptopClock) Now() time.Time { return c.now }

func (c *laptopClock) After(time.Duration) <-chan time.Time { panic("SleepContext is there") }

func (c *laptopClock) SleepContext(_ context.Context, d time.Duration) error {
	c.waits = append(c.waits, d)
	c.now, c.wall = c.now.Add(d), c.wall.Add(asleep+d)
	return nil
}

// The wait of a call stands still while the machine sleeps, and no limit counts the sleep.
func TestCallOnASleepingMachine(t *testing.T) {
	t.Parallel()
	c := &laptopClock{now: firstAttempt, wall: firstAttempt}
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Hour))
	defer cancel()
	p := &retry.Policy{
		MaxAttempts: 4, MaxElapsed: time.Minute, Timeout: time.Minute, Backoff: retry.Constant(10 * time.Second),
		Jitter: retry.NoJitter, Clock: c,
	}
	var at []time.Duration // since the start, as the machine has run
	err := p.Execute(ctx, func(context.Context) error {
		at = append(at, c.now.Sub(firstAttempt))
		return retry.MarkRateLimited(errNobody, 15*time.Second)
	})
	require.ErrorIs(t, err, retry.StopAttempts)
	assert.Equal(t, []time.Duration{15 * time.Second, 15 * time.Second, 15 * time.Second}, c.waits)
	assert.Equal(t, []time.Duration{0, 15 * time.Second, 30 * time.Second, 45 * time.Second}, at)
	assert.Equal(t, 3*asleep+45*time.Second, c.wall.Sub(firstAttempt))
}

// A stored job goes by the wall clock: it is due when the machine wakes, and its limits of
// time count the sleep.
func TestStoredJobOnASleepingMachine(t *testing.T) {
	t.Parallel()
	fail := errors.New("unavailable")
	for limit, again := range map[time.Duration]bool{0: true, 2 * asleep: true, asleep: false} {
		for _, p := range []*retry.Policy{
			{MaxAttempts: 4, Backoff: retry.Constant(10 * time.Second), MaxElapsed: limit},
			{MaxAttempts: 4, Backoff: retry.Constant(10 * time.Second), Timeout: limit},
		} {
			first := p.Next(retry.State{First: firstAttempt}, fail, firstAttempt)
			require.True(t, first.Retry)
			awake := firstAttempt.Add(asleep + time.Second)
			assert.False(t, first.At.After(awake), "it is due at once")
			assert.Equal(t, again, p.Next(first.State, fail, awake).Retry, "%v", limit)
		}
	}
}
