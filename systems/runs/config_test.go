package main

import (
	"errors"
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
)

var (
	errPassing = retry.MarkRetryable(errors.New("connection reset"))
	errBroken  = retry.MarkFinal(errors.New("no such test"))
)

// defaultPolicy has the defaults of the flags.
var defaultPolicy = newConfig(flag.NewFlagSet("runs", flag.ContinueOnError)).Retry.policy()

func limited(after time.Duration) error {
	return retry.MarkRateLimited(errors.New("too many requests"), after)
}

// calculate is calculate_next_retry; it returns the retry_count to store too.
func calculate(retryCount int, err error) (d time.Duration, again bool, count int) {
	next := defaultPolicy.Next(retry.State{Failures: retryCount}, err, time.Unix(0, 0))
	return next.Delay, next.Retry, next.State.Failures
}

func TestExponentialBackoffCalculation(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errPassing, errors.New("unknown"), limited(0), retry.ErrLost} {
		for retryCount, minutes := range []int{1, 2, 4, 8, 16, 32, 60} {
			d, again, count := calculate(retryCount, err)
			assert.True(t, again)
			assert.Equal(t, time.Duration(minutes)*time.Minute, d, "%v after %d retries", err, retryCount)
			assert.Equal(t, retryCount+1, count)
		}
	}
	long := (&RetryConfig{retry.Unlimited, time.Minute, time.Hour, 2}).policy()
	for _, retryCount := range []int{7, 100, 1_000_000} {
		assert.Equal(t, time.Hour, long.Next(retry.State{Failures: retryCount}, errPassing, time.Time{}).Delay)
	}
}

func TestMaxAttemptsEnforcement(t *testing.T) {
	t.Parallel()
	for retryCount := range 20 {
		_, again, count := calculate(retryCount, errPassing)
		assert.Equal(t, retryCount < 7, again, "the attempt %d of 8", retryCount+1)
		assert.Equal(t, retryCount+1, count)
		_, again, _ = calculate(retryCount, limited(0))
		assert.Equal(t, retryCount < 7, again, "without retry_after it is a failure like others")
	}
	d := defaultPolicy.Next(retry.State{Failures: 7}, errPassing, time.Time{})
	assert.ErrorIs(t, d.Err, retry.StopAttempts)
	assert.EqualError(t, d.Err, "run failed after 8 attempts: connection reset")
}

func TestRateLimitedRetryScheduling(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{time.Second, 90 * time.Second, time.Hour, 3 * time.Hour, 7 * 24 * time.Hour} {
		for _, retryCount := range []int{0, 3, 7} {
			d, again, count := calculate(retryCount, limited(after))
			assert.True(t, again)
			assert.Equal(t, retryCount, count, "retry_count stays")
			assert.Equal(t, after, d, "not cut by max_backoff either")
		}
	}
	d, _, _ := calculate(0, limited(time.Nanosecond))
	assert.GreaterOrEqual(t, d, time.Second, "a service that says now is not hammered")
	next := defaultPolicy.Next(retry.State{}, limited(8*24*time.Hour), time.Time{})
	assert.Equal(t, retry.StopRetryAfter, next.Stop, "the ceiling")
	d, again, count := calculate(5, limited(0))
	assert.True(t, again)
	assert.Equal(t, 32*time.Minute, d, "no retry_after: exponential backoff")
	assert.Equal(t, 6, count)
}

func TestFinalErrorHandling(t *testing.T) {
	t.Parallel()
	for _, retryCount := range []int{0, 3, 7} {
		d, again, _ := calculate(retryCount, errBroken)
		assert.False(t, again)
		assert.Zero(t, d)
	}
}

func TestErrorClassToString(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		errBroken: "final", errPassing: "retryable", limited(0): "rate_limited", limited(time.Hour): "rate_limited",
		errors.New("unknown"): "retryable", retry.ErrLost: "retryable",
	} {
		assert.Equal(t, want, errorClass(defaultPolicy.Classify(err)), err)
	}
}
