package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

type noWaits struct{}

// WithoutWaits returns a context under which policies with a [switchableClock] do not wait.
func WithoutWaits(ctx context.Context) context.Context {
	return context.WithValue(ctx, noWaits{}, true)
}

// switchableClock is the system's clock, except under contexts without waits.
type switchableClock struct{}

func (switchableClock) Now() time.Time { return time.Now() }

func (switchableClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

func (switchableClock) SleepContext(ctx context.Context, d time.Duration) error {
	if ctx.Value(noWaits{}) != nil {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The policy of a program. Its waits can be switched off for the calls of one test,
// without an effect on parallel tests.
var payments = &retry.Policy{Name: "payments", Clock: switchableClock{}}

func Example_withoutWaits() {
	began := time.Now()
	ctx := WithoutWaits(context.Background())
	err := payments.Execute(ctx, func(context.Context) error { return errors.New("unavailable") })
	fmt.Println(err)
	fmt.Println(time.Since(began) < time.Second)
	// Output:
	// payments failed after 3 attempts: unavailable
	// true
}
