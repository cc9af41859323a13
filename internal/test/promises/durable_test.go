package promises_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// The next attempt is never in the past, whatever the clock and the counts say.
func TestNextIsNeverInThePast(t *testing.T) {
	t.Parallel()
	for _, now := range []time.Time{{}, epoch, time.Unix(1<<62, 0), time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		for _, b := range []retry.Backoff{nil, retry.Constant(math.MaxInt64), retry.Exponential{Initial: time.Hour, Multiplier: 1e300}, retry.Fibonacci{Initial: 1 << 61}} {
			for _, hint := range []time.Duration{0, math.MinInt64, time.Minute, math.MaxInt64} {
				for _, n := range []int{math.MinInt, 0, 63, 64, math.MaxInt - 2} {
					p := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: b, MaxDelay: math.MaxInt64, MaxRetryAfter: math.MaxInt64, Rand: ^word(0)}
					d := p.Decide(retry.State{Failures: n, RateLimited: n}, retry.Verdict{Class: retry.Retryable, After: hint}, now)
					require.True(t, d.Retry)
					require.False(t, d.At.Before(now.Round(0)), "%v + %v = %v", now, d.Delay, d.At)
					require.GreaterOrEqual(t, d.Delay, max(hint, 0))
					require.Positive(t, d.State.Failures)
				}
			}
		}
	}
	p := retry.Policy{MaxElapsed: time.Hour}
	assert.True(t, p.Next(retry.State{First: epoch.AddDate(1000, 0, 0)}, testkit.ErrPeer, epoch).Retry, "a clock that was set back")
}

// A decision depends on the policy, the stored state, the time and the error alone.
func TestDecisionsArePure(t *testing.T) {
	t.Parallel()
	p := retry.Policy{MaxAttempts: 5, MaxElapsed: time.Hour, FreeRateLimits: 2}
	text, err := json.Marshal(p)
	require.NoError(t, err)
	stored := retry.Policy{Clock: noClock{}}
	require.NoError(t, json.Unmarshal(text, &stored))
	stored.Clock = noClock{}
	for _, err := range []error{testkit.ErrPeer, retry.MarkRateLimited(testkit.ErrPeer, time.Minute), retry.MarkFinal(testkit.ErrPeer)} {
		for failures := range 6 {
			s := retry.State{Failures: failures, RateLimited: failures % 3, First: epoch.UTC(), Key: "job-1"}
			again := retry.State{Key: "job-1"}
			column, _ := json.Marshal(s)
			require.NoError(t, json.Unmarshal(column, &again))
			assert.Equal(t, p.Next(s, err, epoch), stored.Next(again, err, epoch))
		}
	}
	d := p.Next(retry.State{Failures: 1}, retry.MarkRateLimited(testkit.ErrPeer, time.Minute), epoch)
	assert.Equal(t, retry.State{Failures: 1, RateLimited: 1}, d.State, "a snooze costs no attempt")
}

// A policy is shared by any number of callers, and none sees the other.
func TestSharedPolicy(t *testing.T) {
	t.Parallel()
	for _, b := range []retry.Backoff{nil, retry.Exponential{Initial: 1}, retry.Fibonacci{Initial: 1}, retry.Schedule{1, 2}} {
		p := retry.Policy{MaxAttempts: 6, AttemptTimeout: time.Hour, Backoff: b, MaxDelay: 1, Classifier: retry.Chain(retry.On(retry.Retryable, testkit.ErrPeer))}
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				own, calls := fmt.Errorf("caller %d: %w", i, testkit.ErrPeer), 0
				got, err := retry.Do(t.Context(), &p, func(context.Context) (int, error) {
					if calls++; calls == i%8+1 {
						return i, nil
					}
					return -calls, own
				})
				if i%8 < 6 {
					assert.Equal(t, i, got)
				} else {
					assert.ErrorIs(t, err, own, "the error of another caller")
				}
				assert.Equal(t, min(i%8+1, 6), calls)
			})
		}
		wg.Wait()
	}
}

// Each call has its own context, and that allocates nothing. Allocations are counted for the whole
// process.
func TestContextPerCall(t *testing.T) { //nolint:paralleltest // see above
	p, n, wrong := &retry.Policy{MaxAttempts: 5}, 0, 0
	contexts := []context.Context{t.Context(), context.WithValue(t.Context(), testkit.Key{}, 1), context.Background()}
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		n++
		ctx := contexts[n%len(contexts)]
		_ = p.Execute(ctx, func(got context.Context) error {
			if got != ctx {
				wrong++
			}
			return nil
		})
	}))
	assert.Zero(t, wrong, "calls with another context")
}

// A success allocates nothing. Allocations are counted for the whole process.
func TestSuccessDoesNotAllocate(t *testing.T) { //nolint:paralleltest // see above
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, p := range everyWay() {
		if name == "attempt timeout" {
			continue // which needs a context
		}
		calls := 0
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			_ = p.Execute(ctx, func(context.Context) error {
				calls++
				return nil
			})
			v, _ := retry.Do(ctx, p, func(context.Context) ([4]int, error) { return [4]int{calls}, nil })
			calls = v[0]
		}), name)
		assert.Equal(t, 101, calls)
	}
}
