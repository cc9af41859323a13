package promises_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

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

// everyWay are policies that take every way through the loop: each has something else that has to
// happen around an attempt.
func everyWay() map[string]*retry.Policy {
	return map[string]*retry.Policy{
		"nil":             nil,
		"unlimited":       {MaxAttempts: retry.Unlimited},
		"attempt timeout": {AttemptTimeout: time.Hour},
		"max elapsed":     {MaxElapsed: time.Hour},
		"observer":        {Observer: retry.ObserverFunc(func(context.Context, retry.Event) {})},
		"budget":          {Budget: &retry.Budget{Reserve: 1000}},
		"classifier":      {Classifier: retry.On(retry.Retryable, testkit.ErrPeer)},
		"no delay":        {Backoff: retry.Constant(0)},
	}
}

// typedNil is an error whose methods need a receiver.
type typedNil struct{ text string }

func (e *typedNil) Error() string { return e.text }

func (e *typedNil) RetryAfter() time.Duration { return time.Duration(len(e.text)) }

// list is an error that == panics on.
type list []string

func (list) Error() string { return "not comparable" }

// greedy is a backoff and a jitter that keep to no limit.
type greedy struct{}

func (greedy) Delay(int) time.Duration { return time.Hour }

func (greedy) Apply(d, limit time.Duration, _ uint64) time.Duration { return 3*max(d, limit) + 1 }
