package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func ExampleMarkFinal() {
	var policy retry.Policy
	err := policy.Execute(context.Background(), func(context.Context) error {
		return retry.MarkFinal(errors.New("no such account"))
	})
	fmt.Println(err)
	// Output: no such account
}

func ExamplePolicy_Classify() {
	policy, err := &retry.Policy{}, io.ErrUnexpectedEOF
	verdict := policy.Classify(err)                  // Retryable, "eof"
	err = retry.MarkRateLimited(err, 10*time.Second) // the server asked for a wait
	policy.Clock = new(retrytest.Clock)              // in tests, waits take no time
	fmt.Println(verdict.Class, verdict.Category, policy.Classify(err).Class)
	// Output: retryable eof rate_limited
}

// A server's hint is a lower bound of the wait. Up to 10 % are added, so that
// clients with the same hint do not come back in step.
func ExampleMarkRateLimited() {
	var clock retrytest.Clock
	policy := &retry.Policy{Clock: &clock}
	op := retrytest.Script(retry.MarkRateLimited(errors.New("slow down"), 10*time.Second), nil)
	err := policy.Execute(context.Background(), op.Run)

	wait := clock.Sleeps()[0]
	fmt.Println(err, wait >= 10*time.Second, wait <= 11*time.Second)
	// Output: <nil> true true
}

func ExampleOn() {
	errSold := errors.New("sold out")
	policy := &retry.Policy{
		Classifier: retry.Chain(
			retry.On(retry.Final, errSold),
			retry.On(retry.Retryable, fs.ErrNotExist), // by default Final
		),
	}
	fmt.Println(policy.Classify(fmt.Errorf("order 7: %w", errSold)).Class)
	fmt.Println(policy.Classify(&fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}).Class)
	fmt.Println(policy.Classify(fs.ErrPermission).Class)
	// Output:
	// final
	// retryable
	// final
}

// A durable policy around a policy that blocks should classify the inner
// policy's last error. By default, the error of an inner policy that gave up is
// Final.
func ExampleThroughGiveUp() {
	inner := &retry.Policy{Clock: new(retrytest.Clock)}
	err := inner.Execute(context.Background(), func(context.Context) error {
		return context.DeadlineExceeded // of a call that it made
	})

	outer := &retry.Policy{Classifier: retry.ThroughGiveUp}
	fmt.Println(retry.Classify(err).Class, outer.Classify(err).Class)
	// Output: final retryable
}

// A stream that ended without an error is opened again, with the first waits of the
// backoff.
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

// "Not ready yet" is not a failure: it uses up no attempts.
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

// A server asks for three hours. By default the call ends there. To come back sooner than
// the server says, let the Classifier shorten the hint. To come back then, store the state
// and the time: see the example of Error.State.
func ExamplePolicy_maxRetryAfter() {
	clock := new(retrytest.Clock) // tests only: waits take no time
	policy := &retry.Policy{Jitter: retry.NoJitter, Clock: clock}
	call := func(context.Context) error { return quotaError{3 * time.Hour} }
	ctx := context.Background()
	fmt.Println(policy.Execute(ctx, call))

	policy.Classifier = func(err error) retry.Verdict {
		v := retry.Classify(err)
		v.After = min(v.After, 30*time.Second)
		return v
	}
	fmt.Println(policy.Execute(ctx, call), clock.Sleeps())
	// Output:
	// failed after 1 attempt (server asks to wait 3h0m0s): the quota is used up
	// failed after 3 attempts: the quota is used up [30s 30s]
}

// quotaError is what a client returns: it knows when the server would take it back.
type quotaError struct{ after time.Duration }

func (quotaError) Error() string { return "the quota is used up" }

func (e quotaError) RetryAfter() time.Duration { return e.after }

// The error has the exact delay.
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
