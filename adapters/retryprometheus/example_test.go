package retryprometheus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryprometheus"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func ExampleNew() {
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer

	retries := retryprometheus.New(nil)
	registry.MustRegister(retries)
	policy := &retry.Policy{Name: "fetch", Observer: retries.Observer()}

	policy.Clock = &retrytest.Clock{} // so that the example does not wait
	_ = policy.Execute(context.Background(), func(context.Context) error {
		return retry.Mark(errors.New("no answer"), retry.Verdict{Class: retry.Retryable, Category: "timeout"})
	})

	err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP retry_retries_total Retries that were decided on, by kind of the failure before.
# TYPE retry_retries_total counter
retry_retries_total{category="timeout",policy="fetch"} 2
`), "retry_retries_total")
	fmt.Println(err)
	// Output: <nil>
}
