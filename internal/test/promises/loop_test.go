package promises_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// A wait that the deadline would cut short is not begun.
func TestNoSleepPastDeadline(t *testing.T) {
	t.Parallel()
	for wait, calls := range map[time.Duration]int{time.Minute: 1, time.Second: 1, time.Second - 1: 2} {
		for _, hint := range []time.Duration{0, wait} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				p := exact(wait)
				c := playUnder(ctx, p, func(context.Context, int) error {
					return retry.Mark(testkit.ErrPeer, retry.Verdict{Class: retry.Retryable, After: hint})
				})
				assert.Equal(t, calls, c.calls)
				assert.Equal(t, retry.StopDeadline, c.Stop)
				assert.NoError(t, ctx.Err(), "the context has not ended")
				assert.ErrorIs(t, c.err, context.DeadlineExceeded)
				assert.ErrorIs(t, c.err, testkit.ErrPeer)
			})
		}
	}
}

// Under a dead context nothing is called.
func TestDeadContextNoCall(t *testing.T) {
	t.Parallel()
	cause := errors.New("shut down")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for name, p := range testkit.EveryWay() {
		c := playUnder(ctx, p, func(context.Context, int) error { return nil })
		assert.Zero(t, c.calls, name)
		assert.Zero(t, c.Attempts, name)
		assert.ErrorIs(t, c.err, cause, name)
		assert.ErrorIs(t, c.err, context.Canceled, name)
	}
}

// riggedClock ends a context at the very moment when a wait is over.
type riggedClock struct {
	cancel context.CancelFunc
	over   chan time.Time
}

func (c riggedClock) Now() time.Time { return epoch }

func (c riggedClock) After(time.Duration) <-chan time.Time {
	c.cancel()
	c.over <- epoch
	return c.over
}

// After a cancellation nothing is called, wherever it comes from.
func TestNoCallAfterCancel(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]func(context.CancelFunc) *retry.Policy{
		"observer": func(cancel context.CancelFunc) *retry.Policy {
			return &retry.Policy{Backoff: retry.Constant(0), Observer: &retry.Observer{Event: func(context.Context, retry.Event) { cancel() }}}
		},
		"classifier": func(cancel context.CancelFunc) *retry.Policy {
			return &retry.Policy{Backoff: retry.Constant(0), Classifier: func(error) retry.Verdict { cancel(); return retry.Verdict{Class: retry.Retryable} }}
		},
		"end of the wait": func(cancel context.CancelFunc) *retry.Policy {
			return &retry.Policy{Clock: riggedClock{cancel, make(chan time.Time, 1)}}
		},
	} {
		for range 1000 { // a select that is ready for both is a coin
			ctx, cancel := context.WithCancel(t.Context())
			fn, calls := testkit.Failing(testkit.ErrPeer)
			assert.ErrorIs(t, p(cancel).Execute(ctx, fn), context.Canceled)
			assert.Equal(t, 1, *calls, name)
		}
	}
}

// noClock is a clock that must not be asked.
type noClock struct{}

func (noClock) Now() time.Time { panic("the clock was read") }

func (noClock) After(time.Duration) <-chan time.Time { panic("a timer was started") }

// No text of an error says what it is.
func TestTextIsNotRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"read tcp 10.0.0.1:1->10.0.0.2:2: read: connection reset by peer", "dial tcp: connect: connection refused", "write: broken pipe",
		"i/o timeout", "context deadline exceeded", "context canceled", "EOF", "unexpected EOF", "x509: certificate signed by unknown authority",
		"no such host", "429: Too Many Requests", "503 Service Unavailable", "Retry-After: 120", "rate limit exceeded", "ThrottlingException: Rate exceeded",
		"rpc error: code = Unavailable desc = try again", "permanent", "pq: deadlock detected", "40001", "database is locked", "retry: worker lost", "",
	} {
		for _, err := range []error{errors.New(text), fmt.Errorf("call: %w", errors.New(text)), errors.Join(errors.New(text), testkit.ErrPeer)} {
			assert.Zero(t, retry.Classify(err), "%q", err)
			assert.Zero(t, retry.On(retry.Final, context.Canceled, errors.New(text))(err), "%q", err)
		}
	}
}

// Whatever ends the call, the last error of the operation is found in what is returned.
func TestTheLastErrorIsKept(t *testing.T) {
	t.Parallel()
	for stop, p := range map[retry.StopReason]*retry.Policy{
		retry.StopAttempts: {}, retry.StopElapsed: {MaxElapsed: 5 * time.Second, Jitter: retry.NoJitter},
		retry.StopBudget: {Budget: &retry.Budget{Reserve: 1}}, retry.StopMaybeApplied: {NonIdempotent: true},
		retry.StopRetryAfter: {Classifier: func(error) retry.Verdict { return retry.Verdict{After: time.Hour} }},
		retry.StopCanceled:   {MaxAttempts: retry.Unlimited},
	} {
		var last error
		c := play(t, p, func(_ context.Context, attempt int, end context.CancelCauseFunc) error {
			if last = fmt.Errorf("attempt %d", attempt); attempt == 50 {
				time.AfterFunc(1, func() { end(nil) })
			}
			return last
		})
		assert.Equal(t, stop, c.Stop)
		assert.Equal(t, c.calls, c.Attempts, "%v", stop)
		assert.ErrorIs(t, c.err, last)
		assert.ErrorIs(t, c.err, stop)
		assert.ErrorContains(t, c.err, last.Error())
	}
}

// Only the last error is kept.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	var early []weak.Pointer[fs.PathError]
	p := exact(0)
	p.MaxAttempts = 10_000
	c := play(t, p, func(_ context.Context, attempt int, _ context.CancelCauseFunc) error {
		last := &fs.PathError{Op: "open", Path: fmt.Sprint(attempt), Err: testkit.ErrPeer}
		if attempt%1000 == 1 {
			early = append(early, weak.Make(last))
		}
		return retry.MarkRetryable(last)
	})
	runtime.GC()
	for _, e := range early {
		assert.Nil(t, e.Value(), "an early error is still there")
	}
	assert.Len(t, early, 10)
	assert.Less(t, len(c.err.Error()), 200)
}

var epoch = time.Unix(1_700_000_000, 0)

// word is a source of jitter that is always the same word.
type word uint64

func (w word) Uint64() uint64 { return uint64(w) }

// course is how a call went.
type course struct {
	calls int
	took  time.Duration
	err   error
	*retry.Error
}

// play executes a policy in a bubble, where time does not pass while something runs. The operation
// gets the number of its attempt, and what ends the context of its caller.
func play(t *testing.T, p *retry.Policy, fn func(ctx context.Context, attempt int, end context.CancelCauseFunc) error) (c course) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		ctx, end := context.WithCancelCause(t.Context())
		defer end(nil)
		c = playUnder(ctx, p, func(ctx context.Context, attempt int) error { return fn(ctx, attempt, end) })
	})
	return c
}

func playUnder(ctx context.Context, p *retry.Policy, fn func(ctx context.Context, attempt int) error) (c course) {
	start := time.Now()
	c.err = p.Execute(ctx, func(ctx context.Context) error {
		c.calls++
		return fn(ctx, c.calls)
	})
	c.took = time.Since(start)
	if c.Error = new(retry.Error); !errors.As(c.err, &c.Error) {
		c.Error = &retry.Error{}
	}
	return c
}

// always is an operation that fails with the same error each time.
func always(err error) func(context.Context, int, context.CancelCauseFunc) error {
	return func(context.Context, int, context.CancelCauseFunc) error { return err }
}

// exact is a policy whose waits are d.
func exact(d time.Duration) *retry.Policy {
	return &retry.Policy{Backoff: retry.Constant(d), Jitter: retry.NoJitter}
}

// greedy is a backoff and a jitter that keep to no limit.
type greedy struct{}

func (greedy) Delay(int) time.Duration { return time.Hour }

func (greedy) Apply(d, limit time.Duration, _ uint64) time.Duration { return 3*max(d, limit) + 1 }
