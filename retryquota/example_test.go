package retryquota_test

import (
	"context"
	"fmt"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryquota"
)

// A Quota learns the limit that calls share: if one of them is refused, all wait, and then go
// one by one.
func ExampleQuota() {
	ctx := context.Background()
	ask := func(context.Context) error { return nil }

	quota := &retryquota.Quota{} // one for all calls with this API key
	policy := &retry.Policy{Name: "prompt", Quota: quota}
	err := policy.Execute(ctx, ask)
	fmt.Println(err, quota.Status(policy).State)
	// Output: <nil> start
}

// Each tenant has a limit of its own, which is forgotten when it is not used.
func ExampleKeys() {
	ctx, tenant := context.Background(), "acme"
	ask := func(context.Context) error { return nil }

	quotas := &retryquota.Keys[string]{}
	policy := &retry.Policy{Quota: quotas.Of(tenant)}
	err := policy.Execute(ctx, ask)
	fmt.Println(err, quotas.Len())
	// Output: <nil> 1
}
