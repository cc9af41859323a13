package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// connect stands for a connection, a watch or a consumer: it returns when that ends.
func connect(context.Context) error { return errors.New("connection lost") }

// A loop that reconnects for ever: it waits up to 1s, 2s, 4s, … 30s, and from the start
// again after a connection that lasted a minute. An unknown host or a bad certificate is
// Final and ends it; the Classifier keeps it alive.
func Example_reconnect() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()

	policy := &retry.Policy{
		MaxAttempts: retry.Unlimited,
		Backoff:     retry.Exponential{Initial: time.Second},
		ResetAfter:  time.Minute,
		Classifier:  func(error) retry.Verdict { return retry.Verdict{Class: retry.Retryable} },
	}
	err := policy.Execute(ctx, connect)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

// A stream that ended well is to be opened again, and from the beginning of the backoff.
func ExampleMarkProgress() {
	errEnded := errors.New("stream ended")
	policy := &retry.Policy{MaxAttempts: 3, Clock: &retrytest.Clock{}}
	messages := 0
	err := policy.Execute(context.Background(), func(context.Context) error {
		if messages++; messages < 10 {
			return retry.MarkProgress(errEnded)
		}
		return errors.New("refused")
	})
	fmt.Println(messages, err)
	// Output: 11 failed after 3 attempts: refused
}

// "Not ready yet" is no failure: it uses up no attempts.
func ExampleMarkPending() {
	policy := &retry.Policy{
		Timeout:   10 * time.Minute,
		Overrides: map[string]retry.Override{"pending": {Backoff: retry.Constant(5 * time.Second)}},
		Clock:     &retrytest.Clock{},
	}
	polls := 0
	err := policy.Execute(context.Background(), func(context.Context) error {
		if polls++; polls < 7 {
			return retry.MarkPending(errors.New("not ready"))
		}
		return nil
	})
	fmt.Println(polls, err)
	// Output: 7 <nil>
}

// The whole call, attempts and waits, takes no longer than Timeout.
func ExamplePolicy_timeout() {
	policy := &retry.Policy{Timeout: time.Millisecond}
	err := policy.Execute(context.Background(), func(ctx context.Context) error {
		<-ctx.Done() // an attempt that hangs
		return ctx.Err()
	})
	fmt.Println(errors.Is(err, retry.ErrTimeout))
	// Output: true
}

// A delay that the error knows exactly.
func ExampleVerdict_exact() {
	policy := &retry.Policy{
		Classifier: func(err error) retry.Verdict {
			return retry.Verdict{Class: retry.Retryable, After: 1500 * time.Millisecond, Exact: true}
		},
	}
	d := policy.Next(retry.State{}, errors.New("busy"), time.Unix(0, 0))
	fmt.Println(d.Delay)
	// Output: 1.5s
}

// limiter adapts a rate limiter of the program's, such as one of golang.org/x/time/rate:
// its AllowN takes the same instant.
type limiter struct{ left int }

func (l *limiter) Deposit(time.Time) {}

func (l *limiter) TryWithdraw(time.Time) bool {
	l.left--
	return l.left >= 0
}

// All calls share a throttle of the program's own.
func ExampleThrottle() {
	policy := &retry.Policy{MaxAttempts: 10, Backoff: retry.Constant(0), Budget: &limiter{left: 2}}
	err := policy.Execute(context.Background(), func(context.Context) error { return errors.New("down") })
	fmt.Println(err)
	// Output: failed after 3 attempts (local retry budget exhausted): down
}

// spans is an Observer that sees attempts: it could start a span for each.
type spans struct{}

func (spans) Observe(context.Context, retry.Event) {}

func (spans) Attempt(ctx context.Context, n int) (context.Context, func(error)) {
	fmt.Println("attempt", n)
	return ctx, func(err error) { fmt.Println("ended:", err) }
}

func ExampleObserver_attempts() {
	policy := &retry.Policy{Observer: spans{}}
	_ = policy.Execute(context.Background(), func(context.Context) error { return nil })
	// Output:
	// attempt 1
	// ended: <nil>
}
