package promises_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// T-41.
func TestPanicIsNotCharged(t *testing.T) {
	t.Parallel()
	ends := map[string]func(){
		"panic":     func() { panic("boom") },
		"panic nil": func() { panic(nil) },
		"error":     func() { panic(testkit.ErrPeer) },
		"goexit":    runtime.Goexit,
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const reserve = 5
				b := &retry.Budget{Reserve: reserve}
				p := &retry.Policy{Budget: b, Backoff: retry.Constant(0)}
				for range 100 {
					testkit.Isolated(func() {
						_ = p.Execute(t.Context(), func(context.Context) error { end(); return nil })
					})
				}
				// The first attempt of an idle budget's 101st call panics no
				// more, and gets its retries.
				fn, calls := testkit.Failing(testkit.ErrPeer)
				assert.ErrorIs(t, p.Execute(t.Context(), fn), retry.StopAttempts)
				assert.Equal(t, 3, *calls)

				// A panic in a retry costs that retry, and not for ever.
				testkit.Isolated(func() {
					calls := 0
					_ = p.Execute(t.Context(), func(context.Context) error {
						if calls++; calls == 2 {
							end()
						}
						return testkit.ErrPeer
					})
				})
				for range 10 * reserve {
					require.NoError(t, p.Execute(t.Context(), func(context.Context) error { return nil }))
				}
				assert.GreaterOrEqual(t, testkit.Drain(b, time.Now()), reserve)
			})
		})
	}
}

// T-42.
func TestRefusedBeforeTheWait(t *testing.T) {
	t.Parallel()
	policies := map[string]retry.Policy{
		"plain":           {},
		"unlimited":       {MaxAttempts: retry.Unlimited},
		"attempt timeout": {AttemptTimeout: time.Minute},
		"hinted":          {Classifier: func(error) retry.Verdict { return retry.Verdict{After: time.Minute} }},
		"free rate limit": {FreeRateLimits: 9, Classifier: func(error) retry.Verdict { return retry.Verdict{After: time.Minute} }},
	}
	for name, p := range policies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := p
				p.Budget = &retry.Budget{Reserve: retry.NoReserve}
				p.Backoff, p.Jitter = retry.Constant(10*time.Second), retry.NoJitter
				start := time.Now()
				fn, calls := testkit.Failing(testkit.ErrPeer)
				err := p.Execute(t.Context(), fn)
				assert.Equal(t, 1, *calls)
				assert.Zero(t, time.Since(start), "refused after a wait")
				e := testkit.As[*retry.Error](t, err)
				assert.Equal(t, retry.StopBudget, e.Stop)
				assert.Zero(t, e.Waited)
				assert.ErrorIs(t, err, retry.StopBudget)
				assert.ErrorIs(t, err, testkit.ErrPeer)
				assert.ErrorContains(t, err, "local retry budget")
				assert.ErrorContains(t, err, testkit.ErrPeer.Error())
			})
		})
	}
}

// T-43.
func TestConcurrentUseKeepsTheLimit(t *testing.T) {
	t.Parallel()
	const goroutines = 64
	stress := func(fn func(i int)) {
		var wg sync.WaitGroup
		begin := make(chan struct{})
		for i := range goroutines {
			wg.Go(func() {
				<-begin
				fn(i)
			})
		}
		close(begin)
		wg.Wait()
	}
	now := time.Unix(1_700_000_000, 0)

	// all takes what there is, from many goroutines. A check that is not one
	// step with what follows on it grants some of it twice.
	all := func(b *retry.Budget) int64 {
		var granted atomic.Int64
		stress(func(int) {
			n := testkit.Drain(b, now)
			granted.Add(int64(n))
		})
		return granted.Load()
	}
	t.Run("withdrawals", func(t *testing.T) {
		t.Parallel()
		// One after the other, so that each has all processors to itself.
		const rounds, much = 3, 1_000_000
		for range rounds {
			require.EqualValues(t, much, all(&retry.Budget{Reserve: much}))

			b := &retry.Budget{Ratio: 1, Reserve: retry.NoReserve}
			for range much {
				b.Deposit(now)
			}
			require.EqualValues(t, much, all(b))
		}
	})
	t.Run("deposits meanwhile", func(t *testing.T) {
		t.Parallel()
		const (
			reserve  = 100
			deposits = 100 // by each other goroutine
			earned   = goroutines / 2 * deposits / 4
		)
		for range 20 {
			b := &retry.Budget{Ratio: 0.25, Reserve: reserve}
			var granted atomic.Int64
			stress(func(i int) {
				for range deposits {
					switch {
					case i%2 == 0:
						b.Deposit(now)
					case b.TryWithdraw(now):
						granted.Add(1)
					}
				}
			})
			total := granted.Load() + int64(testkit.Drain(b, now))
			require.LessOrEqual(t, total, int64(reserve+earned))
			// What is lost is the credit that found the reserve full: none of
			// it, but for two fractions of a retry.
			require.GreaterOrEqual(t, total, int64(reserve+earned-2))
		}
	})
	t.Run("calls", func(t *testing.T) {
		t.Parallel()
		const reserve = 50
		p := &retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(0), Budget: &retry.Budget{Reserve: reserve}}
		var calls atomic.Int64
		stress(func(int) {
			err := p.Execute(t.Context(), func(context.Context) error {
				calls.Add(1)
				runtime.Gosched()
				return testkit.ErrPeer
			})
			assert.ErrorIs(t, err, retry.StopBudget)
		})
		assert.EqualValues(t, goroutines+reserve, calls.Load())
	})
}

// T-54.
func TestSuccessRefills(t *testing.T) {
	t.Parallel()
	succeed := func(context.Context) error { return nil }
	modes := map[string]*retry.Budget{
		"zero":               {},
		"reserve":            {Reserve: 10},
		"no reserve":         {Reserve: retry.NoReserve},
		"every success":      {Ratio: 1},
		"low ratio":          {Ratio: 0.01},
		"long TTL":           {TTL: time.Hour},
		"low ratio, reserve": {Ratio: 0.001, Reserve: 1},
		"ratio not a one":    {Ratio: 5, Reserve: retry.NoReserve},
		"short TTL, short":   {TTL: 1, Reserve: 1},
	}
	drivers := map[string]func(ctx context.Context, p *retry.Policy) error{
		"Execute": func(ctx context.Context, p *retry.Policy) error { return p.Execute(ctx, succeed) },
		"Execute with an attempt timeout": func(ctx context.Context, p *retry.Policy) error {
			q := *p
			q.AttemptTimeout = time.Minute
			return q.Execute(ctx, succeed)
		},
		"Do": func(ctx context.Context, p *retry.Policy) error {
			_, err := retry.Do(ctx, p, func(context.Context) (int, error) { return 1, nil })
			return err
		},
		"a driver of the user's": func(_ context.Context, p *retry.Policy) error {
			p.Budget.Deposit(time.Now())
			return nil
		},
	}
	for mode := range modes {
		for name, drive := range drivers {
			t.Run(mode+", "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					m := modes[mode] // settings only
					b := &retry.Budget{Ratio: m.Ratio, TTL: m.TTL, Reserve: m.Reserve}
					p := &retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(0), Budget: b}
					for range 3 { // again and again
						fn, calls := testkit.Failing(testkit.ErrPeer)
						require.ErrorIs(t, p.Execute(t.Context(), fn), retry.StopBudget)
						require.Less(t, *calls, 100)
						successes := 0
						for !b.TryWithdraw(time.Now()) {
							successes++
							require.NoError(t, drive(t.Context(), p))
							require.LessOrEqual(t, successes, 4096, "never refilled")
						}
						assert.Positive(t, successes)
					}
				})
			})
		}
	}
	t.Run("a success after retries", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := &retry.Budget{Ratio: 1, Reserve: 1}
			p := &retry.Policy{Backoff: retry.Constant(0), Budget: b}
			for range 10 {
				calls := 0
				require.NoError(t, p.Execute(t.Context(), func(context.Context) error {
					if calls++; calls == 1 {
						return testkit.ErrPeer
					}
					return nil
				}))
			}
			assert.Equal(t, 1, testkit.Drain(b, time.Now()))
		})
	})
}

// T-55.
func TestRefusalTellsTheWait(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		p      retry.Policy
		err    error
		lo, hi time.Duration
	}{
		{"backoff", retry.Policy{Jitter: retry.NoJitter}, testkit.ErrPeer, 2 * time.Second, 2 * time.Second},
		{"jitter", retry.Policy{Jitter: retry.EqualJitter}, testkit.ErrPeer, time.Second, 2 * time.Second},
		{"hint", retry.Policy{}, retry.MarkRateLimited(testkit.ErrPeer, time.Minute), time.Minute, 66 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := tt.p
				p.Budget = &retry.Budget{Reserve: retry.NoReserve}
				fn, _ := testkit.Failing(tt.err)
				e := testkit.As[*retry.Error](t, p.Execute(t.Context(), fn))
				assert.Equal(t, retry.StopBudget, e.Stop)
				assert.GreaterOrEqual(t, e.RetryAfter, tt.lo)
				assert.LessOrEqual(t, e.RetryAfter, tt.hi)

				d := decided(&p, t.Context(), tt.err)
				assert.Equal(t, retry.StopBudget, d.Stop)
				assert.GreaterOrEqual(t, d.Delay, tt.lo)
				assert.LessOrEqual(t, d.Delay, tt.hi)
				assert.True(t, d.At.Equal(time.Now().Add(d.Delay)))
			})
		})
	}
}

// T-56.
func TestEveryEndSettles(t *testing.T) {
	t.Parallel()
	const reserve = 10
	// An operation that fails with err, and with last on attempt number at.
	tests := []struct {
		name    string
		p       retry.Policy
		at      int
		last    error
		timeout time.Duration
		charged int
	}{
		{"final at once", retry.Policy{}, 1, retry.MarkFinal(testkit.ErrPeer), 0, 0},
		{"final after two retries", retry.Policy{}, 3, retry.MarkFinal(testkit.ErrPeer), 0, 2},
		{"attempts", retry.Policy{}, 0, nil, 0, 2},
		{"no retries", retry.Policy{MaxAttempts: 1}, 0, nil, 0, 0},
		{"non-idempotent", retry.Policy{NonIdempotent: true}, 0, nil, 0, 0},
		{"elapsed", retry.Policy{MaxElapsed: time.Second}, 0, nil, 0, 0},
		{"elapsed after a retry", retry.Policy{MaxElapsed: 3 * time.Second}, 0, nil, 0, 1},
		{"deadline", retry.Policy{}, 0, nil, time.Second, 0},
		{"deadline after a retry", retry.Policy{}, 0, nil, 3 * time.Second, 1},
		{"hint too long", retry.Policy{}, 1, retry.MarkRateLimited(testkit.ErrPeer, time.Hour), 0, 0},
		{"hint too long after a retry", retry.Policy{}, 2, retry.MarkRateLimited(testkit.ErrPeer, time.Hour), 0, 1},
		{"canceled in fn", retry.Policy{}, 1, context.Canceled, -1, 0},
		{"canceled in fn after a retry", retry.Policy{}, 2, context.Canceled, -1, 1},
		{"not started", retry.Policy{}, 0, nil, -2, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &retry.Budget{Reserve: reserve}
				p := tt.p
				p.Budget, p.Jitter = b, retry.NoJitter
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				switch {
				case tt.timeout > 0:
					var stop context.CancelFunc
					ctx, stop = context.WithTimeout(ctx, tt.timeout)
					defer stop()
				case tt.timeout == -2:
					cancel()
				}
				calls := 0
				require.Error(t, p.Execute(ctx, func(context.Context) error {
					calls++
					if calls != tt.at {
						return testkit.ErrPeer
					}
					if tt.timeout == -1 {
						cancel()
					}
					return tt.last
				}))
				assert.Equal(t, tt.charged, max(calls-1, 0), "retries that were made")
				assert.Equal(t, tt.charged, reserve-testkit.Drain(b, time.Now()), "retries that were paid for")

				// Whatever the end was, successes pay all of it back.
				for range 10 * reserve {
					require.NoError(t, p.Execute(t.Context(), func(context.Context) error { return nil }))
				}
				assert.GreaterOrEqual(t, testkit.Drain(b, time.Now()), reserve)
			})
		})
	}
}

// T-57.
func TestLowTrafficGetsItsRetries(t *testing.T) {
	t.Parallel()
	errOnce := errors.New("one in ten")
	t.Run("one call per second", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := &retry.Policy{Budget: &retry.Budget{}, Backoff: retry.Constant(0)}
			for n := range 10_000 {
				calls := 0
				err := p.Execute(t.Context(), func(context.Context) error {
					if calls++; calls == 1 && n%10 == 0 {
						return errOnce
					}
					return nil
				})
				require.NoError(t, err, "call %d", n)
				time.Sleep(time.Second)
			}
		})
	})
	t.Run("one call per hour", func(t *testing.T) {
		t.Parallel()
		now := time.Unix(1_700_000_000, 0)
		b := &retry.Budget{}
		for n := range 1000 {
			if n%10 == 0 {
				require.True(t, b.TryWithdraw(now), "call %d", n)
			}
			b.Deposit(now)
			now = now.Add(time.Hour)
		}
	})
	t.Run("the first calls of a process", func(t *testing.T) {
		t.Parallel()
		fn, calls := testkit.Failing(testkit.ErrPeer)
		p := &retry.Policy{Budget: &retry.Budget{}, Backoff: retry.Constant(0)}
		assert.ErrorIs(t, p.Execute(t.Context(), fn), retry.StopAttempts)
		assert.Equal(t, 3, *calls)
	})
	t.Run("after an idle day", func(t *testing.T) {
		t.Parallel()
		now := time.Unix(1_700_000_000, 0)
		b := &retry.Budget{}
		for range 1000 {
			b.Deposit(now)
		}
		assert.Equal(t, 3, testkit.Drain(b, now.AddDate(0, 0, 1)))
	})
}
