package retry_test

import (
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// With a key, the wait is the same wherever and whenever it is computed: a
// stateless daemon computes from two columns whether a row is due.
func ExamplePolicy_Delay() {
	policy := &retry.Policy{
		MaxAttempts: 8,
		Backoff:     retry.Exponential{Initial: 5 * time.Minute},
		MaxDelay:    6 * time.Hour,
		Jitter:      retry.PlusMinus(30 * time.Second),
	}
	attemptCount, updatedAt := 2, time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

	due := updatedAt.Add(policy.Delay(retry.State{Failures: attemptCount, Key: "partition-17"}))
	again := updatedAt.Add(policy.Delay(retry.State{Failures: attemptCount, Key: "partition-17"}))
	fmt.Println(due.Round(time.Minute).Format(time.TimeOnly), due.Equal(again))
	// Output: 12:10:00 true
}

// The attempt is counted when the job is claimed, so that a job that kills its
// worker ends too. Ask Exhausted before it runs.
func ExamplePolicy_Exhausted() {
	policy := &retry.Policy{Name: "export"}
	claimed := 4 // the column of attempts, with the one that was just claimed

	d, exhausted := policy.Exhausted(retry.State{Failures: claimed - 1}, time.Now())
	fmt.Println(exhausted, d.Err)
	// Output: true export failed after 3 attempts
}
