package retry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// A policy with faults runs nevertheless, so look for them where the program starts.
func ExamplePolicy_Validate() {
	policy := &retry.Policy{
		MaxAttempts: -1,
		Backoff:     retry.Exponential{Initial: 5}, // nanoseconds: the unit is missing
	}
	fmt.Println(policy.Validate())
	// Output:
	// retry: invalid policy: max_attempts: -1: must be at least 1, or 0 for the default
	// backoff.exponential.initial: 5ns: is less than a microsecond; write 5 * time.Second or 5 * time.Millisecond
}

func ExamplePolicy_String() {
	fmt.Println(&retry.Policy{})
	fmt.Println(&retry.Policy{Name: "sync", MaxAttempts: 8, Backoff: retry.Fibonacci{Initial: time.Second}, Jitter: retry.NoJitter})
	fmt.Println(&retry.Policy{MaxAttempts: retry.Unlimited, MaxElapsed: time.Hour, Backoff: retry.Constant(10 * time.Second), MaxDelay: 15 * time.Second})
	// Output:
	// 3 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s
	// sync: 8 attempts, fibonacci 1s ≤30s, no jitter: waits 1s, 1s, 2s, 3s, 5s, …
	// unlimited attempts within 1h0m0s, constant 10s ≤15s, ±10% jitter: waits 9s–11s, 9s–11s, 9s–11s, 9s–11s, 9s–11s, …
}

func ExamplePolicy_Bounds() {
	policy := &retry.Policy{MaxAttempts: 10, Jitter: retry.EqualJitter}
	for _, n := range []int{1, 2, 9} {
		lo, hi := policy.Bounds(n)
		fmt.Println(n, lo, hi)
	}
	// Output:
	// 1 1s 2s
	// 2 2s 4s
	// 9 15s 30s
}

func ExampleBackoff() {
	for _, b := range []retry.Backoff{
		retry.Exponential{Initial: time.Second, Multiplier: 3},
		retry.Linear{Initial: time.Second, Step: 2 * time.Second},
		retry.Fibonacci{Initial: time.Second},
		retry.Constant(5 * time.Second),
		retry.Schedule{time.Second, 10 * time.Second, time.Minute},
	} {
		fmt.Print(b, ":")
		for n := 1; n <= 5; n++ {
			fmt.Print(" ", b.Delay(n))
		}
		fmt.Println()
	}
	// Output:
	// 1s ×3: 1s 3s 9s 27s 1m21s
	// 1s +2s: 1s 3s 5s 7s 9s
	// fibonacci 1s: 1s 1s 2s 3s 5s
	// constant 5s: 5s 5s 5s 5s 5s
	// schedule 1s, 10s, 1m0s: 1s 10s 1m0s 1m0s 1m0s
}

func ExampleJitter() {
	const delay, limit = 10 * time.Second, 10500 * time.Millisecond
	for _, j := range []retry.Jitter{
		retry.FullJitter, retry.EqualJitter, retry.NoJitter,
		retry.Proportional(0.1), retry.PlusMinus(2 * time.Second),
	} {
		fmt.Println(j, j.Apply(delay, limit, 0), j.Apply(delay, limit, 1<<63), j.Apply(delay, limit, 1<<64-1))
	}
	// Output:
	// full jitter 0s 5s 10s
	// equal jitter 5s 7.5s 10s
	// no jitter 10s 10s 10s
	// ±10% jitter 9s 9.75s 10.5s
	// ±2s jitter 8s 9.25s 10.5s
}

func ExamplePolicy_UnmarshalJSON() {
	var policy retry.Policy
	err := json.Unmarshal([]byte(`{
		"max_attempts": 4,
		"backoff": {"exponential": {"initial": "2s", "multiplier": 2}},
		"max_delay": "30s",
		"jitter": "full",
		"max_elapsed": "2m",
		"overrides": {"unknown": {"max_attempts": 2}}
	}`), &policy)
	fmt.Println(policy, err)

	err = json.Unmarshal([]byte(`{
		"max_attempts": 0,
		"max_delay": "1s",
		"backoff": {"exponential": {"initial": "2s", "multiplier": 0.5}},
		"jiter": "full"
	}`), &policy)
	fmt.Println(err)
	// Output:
	// 4 attempts within 2m0s, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s, 0–8s; unknown: 2 attempts <nil>
	// retry: invalid policy: jiter: "full": unknown key; did you mean jitter? (line 5 of the policy)
	// max_attempts: 0: must be at least 1; leave it out for the default (line 2 of the policy)
	// backoff.exponential.multiplier: 0.5: must be a number of at least 1, or 0 for the default (line 4 of the policy)
	// backoff.exponential.initial: 2s: is above max_delay 1s (line 4 of the policy)
}

// The whole call, attempts and waits, takes no longer than Timeout.
func ExamplePolicy_timeout() {
	policy := &retry.Policy{Timeout: time.Millisecond}
	err := policy.Execute(context.Background(), func(ctx context.Context) error {
		<-ctx.Done() // an attempt that hangs
		return ctx.Err()
	})
	fmt.Println(errors.Is(err, retry.StopTimeout))
	// Output: true
}

// Attempts that hang share the ten seconds that the caller has. What one leaves belongs to
// the others.
func ExampleEqualShare() {
	clock := &retrytest.Clock{} // tests only: waits take no time
	policy := &retry.Policy{AttemptTimeout: retry.EqualShare, Backoff: retry.Constant(500 * time.Millisecond), Jitter: retry.NoJitter, Clock: clock}
	fmt.Println(policy)

	ctx, cancel := clock.WithDeadline(context.Background(), clock.Now().Add(10*time.Second))
	defer cancel()
	start := clock.Now()
	fmt.Println(policy.Execute(ctx, func(ctx context.Context) error {
		began := clock.Now().Sub(start)
		err := clock.AdvanceContext(ctx, time.Hour) // an attempt that hangs
		fmt.Println(began.Round(time.Millisecond), "to", clock.Now().Sub(start).Round(time.Millisecond))
		return err
	}))
	// Output:
	// 3 attempts, constant 500ms, no jitter: waits 500ms, 500ms; attempts share the time left
	// 0s to 3.333s
	// 3.833s to 6.917s
	// 7.417s to 10s
	// failed after 3 attempts: context deadline exceeded
}

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
