package retrypolicies_test

import (
	"fmt"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypolicies"
)

func Example() {
	policies := &retrypolicies.Policies{
		// What is no data belongs to the names, and survives every reload.
		Parts: map[string]retrypolicies.Parts{"payments": {Budget: &retry.Budget{Ratio: 0.2}}},
	}
	err := policies.Load("policies.json", []byte(`{
	  "default":  {"max_attempts": 4, "backoff": {"exponential": {"initial": "100ms"}}},
	  "policies": {
	    "payments": {"max_elapsed": "10s"},
	    "search":   {"max_attempts": 2}
	  }
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range policies.Names() {
		policy, _ := policies.Get(name)
		fmt.Println(policy)
	}

	_, err = policies.Get("paymnets")
	fmt.Println(err)

	// A file with faults changes nothing.
	err = policies.Load("policies.json", []byte(`{
	  "policies": {"payments": {
	    "max_attempts": 0
	  }}
	}`))
	fmt.Println(err)
	policy, _ := policies.Get("payments")
	fmt.Println(policy.MaxAttempts, "attempts as before")
	// Output:
	// default: 4 attempts, 100ms ×2 ≤30s, full jitter: waits 0–100ms, 0–200ms, 0–400ms
	// payments: 4 attempts within 10s, 100ms ×2 ≤30s, full jitter: waits 0–100ms, 0–200ms, 0–400ms
	// search: 2 attempts, 100ms ×2 ≤30s, full jitter: waits 0–100ms
	// retrypolicies: unknown policy "paymnets": must be one of "default", "payments", "search"
	// retrypolicies: policies.json:3:6: policies.payments.max_attempts: 0: must be at least 1; leave it out for the default
	// 4 attempts as before
}
