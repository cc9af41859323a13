package main

import (
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// newPolicy is RetryConfig, and its Next is calculate_next_retry. The waits are to be
// exact, so that an operator can tell when a run comes back.
//
// The number of waits that a service asks for by retry_after has a limit that no honest
// service comes to; after that they count as failures.
func newPolicy(maxAttempts int, initial, longest time.Duration, multiplier float64) *retry.Policy {
	return &retry.Policy{
		Name:           "run",
		MaxAttempts:    maxAttempts,
		Backoff:        retry.Exponential{Initial: initial, Multiplier: multiplier},
		MaxDelay:       longest,
		Jitter:         retry.NoJitter,     // exact delays are wanted
		FreeRateLimits: 1000,               // with a retry_after, retry_count stays
		MaxRetryAfter:  7 * 24 * time.Hour, // whoever wants more has to be asked
		Classifier:     retryhttp.Classify,
	}
}

// errorClass is the error_class of a verdict: error_class_to_string. What nobody
// knows is retried, so it is retryable.
func errorClass(v retry.Verdict) string {
	if v.Class == retry.Unknown {
		return retry.Retryable.String()
	}
	return v.Class.String()
}
