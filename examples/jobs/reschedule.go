package jobs

import (
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Reschedule returns the values to store in the row of a job that has failed: its state,
// and when it is due, or that it has ended.
func Reschedule(state retry.State, failure error, now time.Time) (next retry.State, due time.Time, ended bool) {
	policy := &retry.Policy{
		MaxAttempts: 4, Backoff: retry.Exponential{Initial: time.Minute}, MaxDelay: time.Hour, Jitter: retry.NoJitter,
	}
	d := policy.Next(state, failure, now)
	return d.State, d.At, !d.Retry
}
