package promises_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// An attempt that panics costs nothing, and what a retry has cost comes back.
func TestPanicIsNotCharged(t *testing.T) {
	t.Parallel()
	for _, end := range []func(){func() { panic("boom") }, func() { panic(nil) }, runtime.Goexit} {
		for at := 1; at <= 2; at++ {
			b := &retry.Budget{Reserve: 200}
			p := &retry.Policy{Budget: b, Backoff: retry.Constant(0)}
			for range 100 {
				calls := 0
				testkit.Isolated(func() {
					_ = p.Execute(t.Context(), func(context.Context) error {
						if calls++; calls == at {
							end()
						}
						return testkit.ErrPeer
					})
				})
			}
			assert.Equal(t, 200-100*(at-1), testkit.Drain(b, time.Now()))
		}
	}
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

// A refusal tells the wait that would have been, jitter and hint included.
func TestRefusalTellsTheWait(t *testing.T) {
	t.Parallel()
	for err, least := range map[error]time.Duration{testkit.ErrPeer: time.Second, retry.MarkRateLimited(testkit.ErrPeer, time.Minute): time.Minute} {
		p := &retry.Policy{Jitter: retry.EqualJitter, Budget: &retry.Budget{Reserve: retry.NoReserve}}
		c := play(t, p, always(err))
		assert.Equal(t, retry.StopBudget, c.Stop)
		assert.GreaterOrEqual(t, c.RetryAfter, least)
		assert.LessOrEqual(t, c.RetryAfter, least*2)
	}
}

// However many goroutines ask at once, each retry is granted once.
func TestConcurrentUseKeepsTheLimit(t *testing.T) {
	t.Parallel()
	const goroutines, reserve = 64, 1_000_000
	b := &retry.Budget{Ratio: 0.25, Reserve: reserve}
	var granted atomic.Int64
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for range goroutines {
		wg.Go(func() {
			<-begin
			granted.Add(int64(testkit.Drain(b, epoch)))
			for range 1000 {
				b.Deposit(epoch)
			}
		})
	}
	close(begin)
	wg.Wait()
	total := granted.Load() + int64(testkit.Drain(b, epoch))
	assert.LessOrEqual(t, total, int64(reserve+goroutines*1000/4))
	assert.GreaterOrEqual(t, total, int64(reserve), "what was there is lost")
}

// Successes refill a budget that is empty, whatever its settings are.
func TestSuccessRefills(t *testing.T) {
	t.Parallel()
	for _, set := range []*retry.Budget{{}, {Reserve: retry.NoReserve}, {Ratio: 1}, {Ratio: 0.001, Reserve: 1}, {TTL: time.Hour}, {Ratio: 5, Reserve: retry.NoReserve}} {
		for name, p := range everyWay() {
			if p == nil {
				p = &retry.Policy{}
			}
			b := &retry.Budget{Ratio: set.Ratio, TTL: set.TTL, Reserve: set.Reserve}
			p.Budget = b
			testkit.Drain(b, time.Now())
			successes := 0
			for ; !b.TryWithdraw(time.Now()) && successes < 4096; successes++ {
				assert.NoError(t, p.Execute(t.Context(), func(context.Context) error { return nil }))
			}
			assert.Less(t, successes, 4096, "%s: never refilled: %+v", name, set)
		}
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

// A process with few calls gets its retries: one call in an hour, one in ten fails.
func TestLowTrafficGetsItsRetries(t *testing.T) {
	t.Parallel()
	b, now := &retry.Budget{}, epoch
	for n := range 1000 {
		if n%10 == 0 {
			assert.True(t, b.TryWithdraw(now), "call %d", n)
		}
		b.Deposit(now)
		now = now.Add(time.Hour)
	}
	assert.Equal(t, 3, testkit.Drain(b, now.AddDate(0, 0, 1)), "after an idle day")
	first := play(t, &retry.Policy{Budget: &retry.Budget{}}, always(testkit.ErrPeer))
	assert.Equal(t, 3, first.calls, "the first call of a process")
}
