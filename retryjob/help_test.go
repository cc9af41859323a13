package retryjob_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

var (
	errBoom      = errors.New("boom")
	errFinalMark = retry.MarkFinal(errors.New("bad request"))
	firstAttempt = time.Date(2026, 11, 21, 6, 48, 0, 0, time.UTC)
)

// recorded is a policy that tells no time but that of its clock.
func recorded() (*retry.Policy, *retrytest.Recorder) {
	events := &retrytest.Recorder{}
	return &retry.Policy{
		Backoff: retry.Exponential{Initial: time.Second}, Jitter: retry.NoJitter, Observer: events,
		Clock: retrytest.NewClock(firstAttempt),
	}, events
}

// tracer is an Observer that sees attempts.
type tracer struct{ log []string }

func (tr *tracer) Attempt(ctx context.Context, n int) (context.Context, func(error)) {
	tr.log = append(tr.log, fmt.Sprint("begin ", n))
	return ctx, func(err error) { tr.log = append(tr.log, fmt.Sprintf("end %d: %v", n, err)) }
}

func (tr *tracer) Observe(_ context.Context, e retry.Event) {
	tr.log = append(tr.log, fmt.Sprint(e.Kind, " ", e.Attempt))
}

// stillClock stands still, and limits no attempt.
type stillClock struct{ retry.Clock }

func (stillClock) Now() time.Time { return firstAttempt }

func (stillClock) AttemptContext(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return ctx, func() {}
}

// lateContext ends when done is closed.
type lateContext struct {
	context.Context //nolint:containedctx // how it ends
	done            chan struct{}
}

func (c lateContext) Done() <-chan struct{} { return c.done }
