package main

import (
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// newPolicy is the RetryConfig of the document, and its Next is what the document
// calls calculate_next_retry.
func newPolicy(maxAttempts int, initial, longest time.Duration, multiplier float64) *retry.Policy {
	return &retry.Policy{
		Name:           "run",
		MaxAttempts:    maxAttempts,
		Backoff:        retry.Exponential{Initial: initial, Multiplier: multiplier},
		MaxDelay:       longest,
		Jitter:         retry.NoJitter,     // the document names the delays
		FreeRateLimits: retry.Unlimited,    // with a retry_after, retry_count stays
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
