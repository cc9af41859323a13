package main

import (
	"flag"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// RetryConfig says when a run that failed is processed again.
type RetryConfig struct {
	MaxAttempts       int           // the first one included
	InitialBackoff    time.Duration // after the first failure
	MaxBackoff        time.Duration
	BackoffMultiplier float64
}

// DaemonConfig is what a processor is told.
type DaemonConfig struct {
	Retry      RetryConfig
	Lease      time.Duration
	Poll       time.Duration
	Workers    int
	Categories string
}

// newConfig returns the settings with their defaults, which the flags change.
func newConfig(flags *flag.FlagSet) *DaemonConfig {
	c := &DaemonConfig{}
	flags.IntVar(&c.Retry.MaxAttempts, "max-attempts", 8, "how often a run is attempted, the first time included")
	flags.DurationVar(&c.Retry.InitialBackoff, "initial-backoff", time.Minute, "the delay after the first failure")
	flags.DurationVar(&c.Retry.MaxBackoff, "max-backoff", time.Hour, "the longest delay, unless a service asks for more")
	flags.Float64Var(&c.Retry.BackoffMultiplier, "backoff-multiplier", 2, "how much longer every delay is than the one before")
	flags.DurationVar(&c.Lease, "lease", time.Minute,
		"after how long a run is taken from a processor that is dead; an attempt gets half of it")
	flags.DurationVar(&c.Poll, "poll", time.Second, "the pause when there is nothing to do")
	flags.IntVar(&c.Workers, "workers", 2, "how many runs are processed at a time")
	flags.StringVar(&c.Categories, "categories", "", "the categories that may be processed, as in web,api; all if empty")
	return c
}

// policy is the policy whose Next is calculate_next_retry. The waits are to be exact, so
// that an operator can tell when a run comes back.
func (c *RetryConfig) policy() *retry.Policy {
	return &retry.Policy{
		Name:           "run",
		MaxAttempts:    c.MaxAttempts,
		Backoff:        retry.Exponential{Initial: c.InitialBackoff, Multiplier: c.BackoffMultiplier},
		MaxDelay:       c.MaxBackoff,
		Jitter:         retry.NoJitter,
		FreeRateLimits: 1,                  // with a retry_after, retry_count stays; nothing counts these waits
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
