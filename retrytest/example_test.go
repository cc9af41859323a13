package retrytest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

var errUnavailable = errors.New("unavailable")

// A policy on a Clock waits as long as it would in production, and the test
// takes no time.
func ExampleClock() {
	var clock retrytest.Clock
	policy := retry.Policy{Jitter: retry.NoJitter, Clock: &clock}

	op := retrytest.Script(errUnavailable, errUnavailable, nil)
	err := policy.Execute(context.Background(), op.Run)

	fmt.Println("error:", err)
	fmt.Println("calls:", op.Calls())
	fmt.Println("slept:", clock.Sleeps())
	fmt.Println("now:  ", clock.Now())
	// Output:
	// error: <nil>
	// calls: 3
	// slept: [2s 4s]
	// now:   2000-01-01 00:00:06 +0000 UTC
}

// A service is told to stop while it waits for a retry. The wait ends at that
// instant, in every run.
func ExampleClock_At() {
	var clock retrytest.Clock
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	clock.At(1500*time.Millisecond, func() { cancel(errors.New("shutting down")) })

	policy := retry.Policy{Jitter: retry.NoJitter, Clock: &clock}
	began := clock.Now()
	err := policy.Execute(ctx, retrytest.Script(errUnavailable, nil).Run)

	fmt.Println(err)
	fmt.Println("after", clock.Now().Sub(began))
	// Output:
	// failed after 1 attempt (context canceled: shutting down): unavailable
	// after 1.5s
}

// The timeout of an attempt and the deadline of the whole call follow the
// clock.
func ExampleClock_WithTimeout() {
	var (
		clock    retrytest.Clock
		recorder retrytest.Recorder
	)
	policy := retry.Policy{
		AttemptTimeout: time.Second,
		Jitter:         retry.NoJitter,
		Clock:          &clock,
		Observer:       recorder.Observer(),
	}
	ctx, cancel := clock.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()

	hangs := clock.Taking(time.Hour, retrytest.Script(nil).Run)
	err := policy.Execute(ctx, hangs)

	for _, line := range recorder.Timeline() {
		fmt.Println(line)
	}
	fmt.Println(errors.Is(err, context.DeadlineExceeded), clock.Now().Format("15:04:05"))
	// Output:
	// 1: context deadline exceeded: retry in 2s
	// 2: gave up (deadline): context deadline exceeded
	// true 00:00:04
}

// A test suite that has a mock clock can keep it: Auto makes it move while the
// policy waits.
func ExampleAuto() {
	mock := clock.NewMock()
	auto := retrytest.Auto(mock)
	policy := retry.Policy{Jitter: retry.NoJitter, Clock: auto}

	err := policy.Execute(context.Background(), retrytest.Script(errUnavailable, errUnavailable, nil).Run)

	fmt.Println(err, auto.Sleeps())
	fmt.Println(mock.Now().UTC())
	// Output:
	// <nil> [2s 4s]
	// 1970-01-01 00:00:06 +0000 UTC
}

// A mock clock is a Policy.Clock as it is, but the test has to call Add while
// the policy waits. One Add per wait is a trap: if it comes before the wait has
// begun, the wait never ends. So keep adding until the call is over.
//
// The policy then does the same every time, but the time at the end differs.
// For exact times, use Auto, or testing/synctest.
func ExampleAuto_without() {
	mock := clock.NewMock()
	var recorder retrytest.Recorder
	policy := retry.Policy{Jitter: retry.NoJitter, Clock: mock, Observer: recorder.Observer()}

	over := make(chan error, 1)
	go func() {
		over <- policy.Execute(context.Background(), retrytest.Script(errUnavailable, errUnavailable, nil).Run)
	}()
	for len(over) == 0 {
		mock.Add(time.Second)
	}

	fmt.Println(<-over, recorder.Waits())
	// Output:
	// <nil> [2s 4s]
}

// Repeatable jitter.
func ExampleRand() {
	var clock retrytest.Clock
	policy := retry.Policy{Clock: &clock, Rand: retrytest.NewRand(1)}

	_ = policy.Execute(context.Background(), retrytest.Script(errUnavailable, errUnavailable, nil).Run)

	fmt.Println(clock.Sleeps())
	// Output:
	// [1.13312315s 2.983127029s]
}

// A server that is down, then asks for a pause, and then works.
func ExampleScript() {
	op := retrytest.Script(
		errUnavailable,
		retry.MarkRateLimited(errors.New("too many requests"), 3*time.Second),
		nil,
	)
	policy := retry.Policy{Clock: new(retrytest.Clock)}
	err := policy.Execute(context.Background(), op.Run)

	fmt.Println(err, op.Calls())
	fmt.Println(op.Run(context.Background()))
	// Output:
	// <nil> 3
	// retrytest: call 4 of an operation with a script for 3
}

func ExampleRecorder() {
	var recorder retrytest.Recorder
	policy := retry.Policy{
		Name:     "payments",
		Jitter:   retry.NoJitter,
		Clock:    new(retrytest.Clock),
		Observer: recorder.Observer(),
	}
	err := policy.Execute(context.Background(), retrytest.Script(errUnavailable, errUnavailable, errUnavailable).Run)

	fmt.Println(err)
	for _, line := range recorder.Timeline() {
		fmt.Println(line)
	}
	// Output:
	// payments failed after 3 attempts: unavailable
	// 1: unavailable: retry in 2s
	// 2: unavailable: retry in 4s
	// 3: gave up (attempts): unavailable
}

// Two layers of a program retry the same failure.
func ExampleNesting() {
	var nesting retrytest.Nesting
	inner := retry.Policy{Backoff: retry.Constant(0), Observer: nesting.Observer()}
	again := retry.On(retry.Retryable, retry.StopAttempts)
	outer := retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(0), Observer: nesting.Observer(), Classifier: again}
	_ = outer.Execute(context.Background(), func(ctx context.Context) error {
		return inner.Execute(ctx, func(context.Context) error { return errors.New("down") })
	})
	fmt.Println(nesting.Attempts(), nesting.Product())
	// Output: [4 3] 12
}

// In a test, Expect compares the timeline with the expected one. This is its
// report of a difference.
func ExampleRecorder_Expect() {
	var t printingTB // func TestPayments(t *testing.T)

	var recorder retrytest.Recorder
	policy := retry.Policy{
		Jitter:   retry.NoJitter,
		Clock:    new(retrytest.Clock),
		Observer: recorder.Observer(),
	}
	_ = policy.Execute(context.Background(), retrytest.Script(errUnavailable, errUnavailable, nil).Run)

	recorder.Expect(t,
		"1: unavailable: retry in 2s",
		"2: gave up (attempts): unavailable",
	)
	// Output:
	// retrytest: wrong timeline (- want, + got):
	//       1: unavailable: retry in 2s
	//     - 2: gave up (attempts): unavailable
	//     + 2: unavailable: retry in 4s
	//     + 3: succeeded
}

// printingTB prints the reports of a test.
type printingTB struct{ testing.TB }

func (printingTB) Helper() {}

func (printingTB) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// These tests are examples. testing/synctest needs a *testing.T, which an
// Example function does not have.

// In a bubble, time passes when all goroutines wait for it. So a policy needs no
// clock, context.WithTimeout is exact, and concurrent waits overlap.
func TestExampleSynctest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var recorder retrytest.Recorder
		policy := retry.Policy{Jitter: retry.NoJitter, Observer: recorder.Observer()}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()

		began := time.Now()
		err := policy.Execute(ctx, retrytest.Script(errUnavailable, errUnavailable, nil).Run)

		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 2*time.Second, time.Since(began))
		recorder.Expect(t,
			"1: unavailable: retry in 2s",
			"2: gave up (deadline): unavailable", // the next attempt would be at 6s
		)
	})
}

// If concurrent calls wait at the same time, a bubble takes as long as the
// longest of them. On one Clock they would add up.
func TestExampleSynctestConcurrent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		policy := retry.Policy{Jitter: retry.NoJitter}
		began := time.Now()
		for range 100 {
			go func() {
				err := policy.Execute(t.Context(), retrytest.Script(errUnavailable, errUnavailable, nil).Run)
				assert.NoError(t, err)
				assert.Equal(t, 6*time.Second, time.Since(began))
			}()
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
	})
}
