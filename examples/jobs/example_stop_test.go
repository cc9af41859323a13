package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// untilClosing is a Backoff of your own: every minute, until a shop closes.
type untilClosing struct {
	now     func() time.Time
	closing time.Time
}

// Delay returns a negative delay to stop.
func (b untilClosing) Delay(int) time.Duration {
	if b.now().Add(time.Minute).After(b.closing) {
		return -1
	}
	return time.Minute
}

func Example_backoffThatStops() {
	closed := untilClosing{now: time.Now, closing: time.Now()}
	policy := &retry.Policy{MaxAttempts: retry.Unlimited, Backoff: closed}
	err := policy.Execute(context.Background(), func(context.Context) error { return errors.New("sold out") })
	fmt.Println(errors.Is(err, retry.StopBackoff))
	// Output: true
}
