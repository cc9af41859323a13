// Package compose holds what docs/compose.md shows: a policy with a circuit breaker, a rate
// limiter, a bulkhead, a hedge and a fallback, around it and inside. It has tests only.
package compose_test

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// The limiter is inside the policy: each attempt waits for its turn. That it cannot have
// one in time is Final, because the mark says so.
func Example_limiterInside() {
	limiter := rate.NewLimiter(rate.Every(time.Hour), 2)
	policy := &retry.Policy{MaxAttempts: 5, Clock: &retrytest.Clock{}} // tests only: waits take no time
	op, calls := counted()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	err := policy.Execute(ctx, func(ctx context.Context) error {
		if err := limiter.Wait(ctx); err != nil {
			return retry.MarkFinal(err)
		}
		return op(ctx)
	})
	fmt.Println(err)
	fmt.Println(*calls, "attempts")
	// Output:
	// rate: Wait(n=1) would exceed context deadline
	// 2 attempts
}

// The trap: without the mark, the error of Wait is Unknown, and so retried. It is an error
// of no type and wraps none, so that nobody can tell what it is.
func Example_limiterTrap() {
	limiter := rate.NewLimiter(rate.Every(time.Hour), 2)
	policy := &retry.Policy{MaxAttempts: 5, Clock: &retrytest.Clock{}}
	op, calls := counted()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	err := policy.Execute(ctx, func(ctx context.Context) error {
		if err := limiter.Wait(ctx); err != nil {
			return err
		}
		return op(ctx)
	})
	fmt.Println(err)
	fmt.Println(*calls, "attempts")
	// Output:
	// failed after 5 attempts: rate: Wait(n=1) would exceed context deadline
	// 2 attempts
}

// retryLimiter makes a limiter a Throttle: it limits retries, and lets first attempts pass.
type retryLimiter struct{ *rate.Limiter }

func (retryLimiter) Deposit(time.Time) {}

func (l retryLimiter) TryWithdraw(now time.Time) bool { return l.AllowN(now, 1) }

// The limiter is the budget of the policy: the calls of the program make one retry a
// second, and ten at once.
func Example_limiterOfRetries() {
	policy := &retry.Policy{
		Backoff: retry.Constant(0), // for the output below: no time passes
		Budget:  retryLimiter{rate.NewLimiter(1, 10)},
		Clock:   &retrytest.Clock{},
	}
	op, calls := counted()
	for range 100 {
		_ = policy.Execute(context.Background(), op)
	}
	fmt.Println(*calls, "attempts of 100 calls")
	// Output: 110 attempts of 100 calls
}

// turns makes a limiter a Limiter of a Line, for a limit that is known.
type turns struct{ *rate.Limiter }

func (l turns) Take(now time.Time, n int) (turn retry.Turn, granted int, wait time.Duration) {
	next := l.ReserveN(now, 1)
	if wait = next.DelayFrom(now); wait > 0 || n == 0 {
		next.CancelAt(now)
		return 0, 0, wait
	}
	return 0, 1, 0
}

func (turns) Return(time.Time, retry.Turn, int) {}

func (turns) Tell(time.Time, retry.Turn, error, retry.Verdict) (held time.Duration) { return 0 }

// Behind a Line, calls and stored jobs have the turns of the limiter in the order of their arrival.
func Example_limiterInLine() {
	clock := &retrytest.Clock{}
	began := clock.Now()
	policy := &retry.Policy{Quota: &retryquota.Line{Limiter: turns{rate.NewLimiter(2, 1)}}, Clock: clock}
	for range 5 {
		_ = policy.Execute(context.Background(), func(context.Context) error { return nil })
	}
	fmt.Println(clock.Now().Sub(began))
	// Output: 2s
}
