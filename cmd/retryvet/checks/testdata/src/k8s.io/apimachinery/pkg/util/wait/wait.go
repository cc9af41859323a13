// Package wait stands for the one of Kubernetes.
package wait

import (
	"context"
	"time"
)

func Jitter(d time.Duration, maxFactor float64) time.Duration { return d }

func PollUntilContextTimeout(ctx context.Context, interval, timeout time.Duration, immediate bool, fn func(context.Context) (bool, error)) error {
	return nil
}
