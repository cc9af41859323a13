package retryaws_test

import (
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryaws"
)

func ExampleRetryer() {
	policy := &retry.Policy{
		MaxAttempts: 5,
		Backoff:     retry.Exponential{Initial: 100 * time.Millisecond},
		Budget:      &retry.Budget{},
	}
	var cfg aws.Config // of config.LoadDefaultConfig

	cfg.Retryer = func() aws.Retryer { return &retryaws.Retryer{Policy: policy} }
	fmt.Println(cfg.Retryer().MaxAttempts())
	// Output: 5
}
