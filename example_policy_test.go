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
	// retry: invalid policy: jiter: "full": unknown key
	// max_attempts: 0: must be at least 1; leave it out for the default
	// backoff.exponential.multiplier: 0.5: must be a number of at least 1, or 0 for the default
	// backoff.exponential.initial: 2s: is above max_delay 1s
}

// An API that accepts a policy with every job bounds what it accepts.
func ExampleLimits() {
	limits := retry.Limits{MaxAttempts: 10, MaxDelay: time.Hour, MaxElapsed: 24 * time.Hour}
	fmt.Println(limits.Check(&retry.Policy{MaxAttempts: 5, MaxElapsed: time.Hour}))
	fmt.Println(limits.Check(&retry.Policy{MaxAttempts: retry.Unlimited}))
	// Output:
	// <nil>
	// retry: invalid policy: max_attempts: unlimited: must be at most 10
	// max_elapsed: none: must be at most 24h0m0s
}

// One Budget for all calls to a dependency bounds the load that retries add.
func ExampleBudget() {
	policy := &retry.Policy{
		Name:    "billing",
		Backoff: retry.Constant(time.Second),
		Budget:  &retry.Budget{}, // 10 % of the successes, and a reserve of 3
		Clock:   new(retrytest.Clock),
	}
	outage := func(context.Context) error { return errors.New("unavailable") }
	for range 3 {
		fmt.Println(policy.Execute(context.Background(), outage))
	}
	// Output:
	// billing failed after 3 attempts: unavailable
	// billing failed after 2 attempts (local retry budget exhausted): unavailable
	// billing failed after 1 attempt (local retry budget exhausted): unavailable
}

func ExampleObserver() {
	policy := &retry.Policy{
		Backoff: retry.Constant(time.Second),
		Jitter:  retry.NoJitter,
		Clock:   new(retrytest.Clock),
		Observer: retry.ObserverFunc(func(_ context.Context, e retry.Event) {
			fmt.Println(e.Kind, e.Attempt, e.Delay, e.Err)
		}),
	}
	op := retrytest.Script(errors.New("boom"), errors.New("boom"), nil)
	_ = policy.Execute(context.Background(), op.Run)
	// Output:
	// retrying 1 1s boom
	// retrying 2 1s boom
	// succeeded 3 0s <nil>
}
