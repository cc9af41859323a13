// Package promises is the list of what this library promises because another retry library breaks
// it. Each test is named by its promise, and is the shortest program that fails on such a library.
package promises_test

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

var jitters = []retry.Jitter{
	nil, retry.FullJitter, retry.EqualJitter, retry.Proportional(0.1), retry.Proportional(1), retry.PlusMinus(2 * time.Second),
	retry.PlusMinus(math.MaxInt64), retry.NoJitter,
}

// No wait is longer than MaxDelay: no jitter and no backoff goes beyond it.
func TestCapIsHard(t *testing.T) {
	t.Parallel()
	const limit = 10 * time.Second
	for _, jitter := range append([]retry.Jitter{greedy{}}, jitters...) {
		for _, backoff := range []retry.Backoff{retry.Exponential{Initial: time.Second}, greedy{}} {
			p := retry.Policy{Backoff: backoff, MaxDelay: limit, Jitter: jitter, Rand: seeded(1)}
			longest := time.Duration(0)
			for n := range 10_000 {
				longest = max(longest, p.Delay(retry.State{Failures: n%64 + 1}))
			}
			assert.LessOrEqual(t, longest, limit, "%v", p)
			assert.GreaterOrEqual(t, longest, limit*9/10, "%v", p)
		}
	}
}

// At the cap the clients are still spread.
func TestJitterSurvivesCap(t *testing.T) {
	t.Parallel()
	for _, jitter := range jitters[:len(jitters)-1] {
		p := retry.Policy{MaxDelay: 20 * time.Second, Jitter: jitter, Rand: seeded(1)}
		distinct := map[time.Duration]bool{}
		for range 1000 {
			distinct[p.Delay(retry.State{Failures: 50})] = true
		}
		assert.Greater(t, len(distinct), 990, "%v", jitter)
	}
}

// hinted are the verdicts of a hint, by a mark and by the method of an error.
func hinted(hint time.Duration) []retry.Verdict {
	return []retry.Verdict{
		retry.Classify(retry.MarkRateLimited(testkit.ErrPeer, hint)), retry.Classify(hintError(hint)), {Class: retry.RateLimited, After: hint},
	}
}

type hintError time.Duration

func (hintError) Error() string { return "slow down" }

func (e hintError) RetryAfter() time.Duration { return time.Duration(e) }

// A hint above MaxRetryAfter ends the call, and is in its error.
func TestLongHintEndsTheCall(t *testing.T) {
	t.Parallel()
	for limit, p := range map[time.Duration]*retry.Policy{
		time.Minute: {}, time.Hour: {MaxRetryAfter: time.Hour}, time.Second: {MaxRetryAfter: time.Second}, 2 * time.Hour: {MaxDelay: 2 * time.Hour},
	} {
		p.FreeRateLimits, p.MaxAttempts = 1, 2
		c := play(t, p, always(retry.MarkRateLimited(testkit.ErrPeer, limit+1)))
		assert.Equal(t, retry.StopRetryAfter, c.Stop)
		assert.Equal(t, limit+1, c.RetryAfter)
		assert.Zero(t, c.took)
		assert.ErrorContains(t, c.err, (limit + 1).String())
		for _, v := range hinted(limit) {
			assert.True(t, p.Decide(retry.State{}, v, epoch).Retry, "%v", limit)
		}
	}
}

// A hint of centuries is long, and not negative.
func TestHintOverflow(t *testing.T) {
	t.Parallel()
	for _, hint := range []time.Duration{math.MaxInt64, math.MaxInt64 / 10 * 9, math.MaxInt64/11*10 + 11, 1 << 62} {
		for _, v := range hinted(hint) {
			assert.Equal(t, retry.StopRetryAfter, new(retry.Policy).Decide(retry.State{}, v, epoch).Stop)
			p := retry.Policy{MaxRetryAfter: math.MaxInt64, Rand: ^word(0)}
			d := p.Decide(retry.State{}, v, epoch)
			assert.True(t, d.Retry)
			assert.GreaterOrEqual(t, d.Delay, hint)
			assert.True(t, d.At.After(epoch))
		}
	}
	for _, limit := range []string{"9223372037", "-9223372037", "1e30", `"2562048h"`} {
		assert.ErrorContains(t, json.Unmarshal([]byte(`{"max_retry_after":`+limit+`}`), new(retry.Policy)), "max_retry_after", limit)
	}
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

// A budget refuses before the wait, and says that the refusal is local.
func TestRefusedBeforeTheWait(t *testing.T) {
	t.Parallel()
	for _, hint := range []time.Duration{0, time.Minute} {
		p := &retry.Policy{Budget: &retry.Budget{Reserve: retry.NoReserve}, FreeRateLimits: 9}
		c := play(t, p, always(retry.Mark(testkit.ErrPeer, retry.Verdict{After: hint, Category: "x"})))
		assert.Equal(t, 1, c.calls)
		assert.Zero(t, c.took, "refused after a wait")
		assert.Equal(t, retry.StopBudget, c.Stop)
		assert.ErrorIs(t, c.err, testkit.ErrPeer)
		assert.ErrorContains(t, c.err, "local retry budget")
	}
}

// A call pays for the retries that it made, and for no other, however it ends.
func TestEveryEndSettles(t *testing.T) {
	t.Parallel()
	for _, last := range []error{retry.MarkFinal(testkit.ErrPeer), retry.MarkRateLimited(testkit.ErrPeer, time.Hour), testkit.ErrPeer, context.Canceled} {
		for at := 1; at <= 3; at++ {
			b := &retry.Budget{Reserve: 10}
			p := exact(time.Second)
			p.Budget = b
			var left int
			play(t, p, func(_ context.Context, attempt int, end context.CancelCauseFunc) error {
				if left = 10 - (attempt - 1); attempt < at {
					return testkit.ErrPeer
				}
				if last == testkit.ErrPeer {
					end(nil)
				}
				return last
			})
			assert.Equal(t, 11-at, left)
			assert.Equal(t, left, testkit.Drain(b, epoch), "%v on attempt %d", last, at)
		}
	}
}
