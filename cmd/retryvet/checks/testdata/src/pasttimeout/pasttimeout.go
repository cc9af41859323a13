package pasttimeout

import (
	"time"

	"github.com/seed-5ff3c98e/retry"
)

var (
	never = retry.Policy{
		MaxAttempts: 4,
		Timeout:     time.Minute,
		Backoff:     retry.Schedule{time.Second, 10 * time.Second, time.Hour}, // want `the waits add up to 1h0m11s, and Timeout is 1m0s`
	}
	fits = retry.Policy{
		MaxAttempts: 3,
		Timeout:     time.Minute,
		Backoff:     retry.Schedule{time.Second, 10 * time.Second, time.Hour},
	}
)
