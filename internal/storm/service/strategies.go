package service

import (
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/storm/throttle"
)

// initial is the first wait of all strategies that back off.
const initial = 100 * time.Millisecond

// NoRetries is what every other strategy is compared with.
func NoRetries() Strategy {
	return Strategy{Name: "no retries", Policy: retry.Policy{MaxAttempts: 1}}
}

// Immediate retries without waiting.
func Immediate(attempts int) Strategy {
	return Strategy{Name: "naive", Policy: retry.Policy{MaxAttempts: attempts, Backoff: retry.Constant(0)}}
}

// Fixed retries after 100 ms.
func Fixed(attempts int) Strategy {
	return Strategy{Name: "fixed 100 ms", Policy: retry.Policy{
		MaxAttempts: attempts, Backoff: retry.Constant(initial), Jitter: retry.NoJitter,
	}}
}

// Exponential backs off, with some jitter, and without a budget.
func Exponential(attempts int, j retry.Jitter) Strategy {
	return Strategy{Name: "exponential", Policy: backoff(attempts, j)}
}

// Budgeted is Exponential with 3 attempts, full jitter, and a Budget.
func Budgeted(budget func() *retry.Budget) Strategy {
	return Strategy{Name: "ours", Policy: backoff(3, retry.FullJitter), Budget: budget}
}

// Throttled is Exponential with 3 attempts, full jitter, and what others hold
// retries back with.
func Throttled(name string, t func() throttle.Throttle) Strategy {
	return Strategy{Name: name, Policy: backoff(3, retry.FullJitter), Throttle: t}
}

func backoff(attempts int, j retry.Jitter) retry.Policy {
	return retry.Policy{MaxAttempts: attempts, Backoff: retry.Exponential{Initial: initial}, MaxDelay: 20 * time.Second, Jitter: j}
}
