package promises_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

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

// A Final error is returned as it is, on the first attempt, on the last one, and between.
func TestFinalErrorsHaveOneShape(t *testing.T) {
	t.Parallel()
	for name, p := range everyWay() {
		for at := 1; at <= 3; at++ {
			for _, final := range []error{retry.MarkFinal(io.EOF), fmt.Errorf("step 2: %w", retry.MarkFinal(io.EOF)), fs.ErrNotExist} {
				c := play(t, p, func(_ context.Context, attempt int, _ context.CancelCauseFunc) error {
					if attempt == at {
						return final
					}
					return testkit.ErrPeer
				})
				assert.Same(t, final, c.err, "%s, attempt %d", name, at)
			}
		}
		d := p.Next(retry.State{Failures: 2}, fs.ErrNotExist, epoch)
		assert.Same(t, fs.ErrNotExist, d.Err, name)
	}
}

// Words around a mark survive, and so do the errors that it is joined with.
func TestWrappingAroundMarksSurvives(t *testing.T) {
	t.Parallel()
	for _, mark := range []func(error) error{retry.MarkFinal, retry.MarkRetryable} {
		for _, err := range []error{
			fmt.Errorf("step 2: %w", mark(testkit.ErrPeer)), errors.Join(io.EOF, mark(testkit.ErrPeer)),
			mark(fmt.Errorf("step 2: %w", mark(testkit.ErrPeer))),
		} {
			c := play(t, exact(0), always(err))
			assert.ErrorContains(t, c.err, err.Error())
			assert.ErrorIs(t, c.err, testkit.ErrPeer)
			assert.Equal(t, errors.Is(err, io.EOF), errors.Is(c.err, io.EOF))
		}
	}
}

// The end of the caller's context and that of a context of the operation are told apart.
func TestWhoseContextEnded(t *testing.T) {
	t.Parallel()
	own := play(t, exact(0), always(fmt.Errorf("query: %w", context.DeadlineExceeded)))
	assert.Equal(t, retry.StopAttempts, own.Stop)
	assert.NoError(t, own.Cause)
	assert.ErrorIs(t, own.err, context.DeadlineExceeded)
	callers := play(t, exact(0), func(ctx context.Context, _ int, end context.CancelCauseFunc) error {
		end(context.DeadlineExceeded)
		return ctx.Err()
	})
	assert.Equal(t, retry.StopCanceled, callers.Stop)
	assert.Equal(t, context.DeadlineExceeded, callers.Cause)
}

// Policies within policies do not multiply attempts, unless that is asked for.
func TestNestedPoliciesDoNotMultiply(t *testing.T) {
	t.Parallel()
	through := exact(0)
	through.Classifier = retry.ThroughGiveUp
	for _, tt := range []struct {
		outer *retry.Policy
		err   error
		calls int
	}{
		{exact(0), testkit.ErrPeer, 3},
		{exact(0), retry.MarkRetryable(testkit.ErrPeer), 3},
		{exact(0), retry.MarkFinal(testkit.ErrPeer), 1},
		{through, testkit.ErrPeer, 9},
	} {
		fn, calls := testkit.Failing(tt.err)
		err := tt.outer.Execute(t.Context(), func(ctx context.Context) error {
			return fmt.Errorf("inner: %w", exact(0).Execute(ctx, fn))
		})
		assert.Equal(t, tt.calls, *calls, "%v", tt.err)
		assert.ErrorIs(t, err, testkit.ErrPeer)
	}
}

// A mark of nil is nil, and an error that is a nil pointer harms nobody.
func TestNilErrors(t *testing.T) {
	t.Parallel()
	for _, err := range []error{retry.MarkFinal(nil), retry.MarkRetryable(nil), retry.MarkRateLimited(nil, 1), retry.Mark(nil, retry.Verdict{Category: "x"})} {
		assert.NoError(t, err)
	}
	for _, err := range []error{(*typedNil)(nil), (*retry.Error)(nil), (*fs.PathError)(nil)} {
		assert.NotPanics(t, func() {
			for _, e := range []error{err, retry.MarkRetryable(err), errors.Join(err, err), &retry.Error{Err: err}} {
				retry.Classify(e)
				retry.ThroughGiveUp(e)
			}
			c := play(t, exact(0), always(err))
			assert.Equal(t, 3, c.calls)
			assert.NotEmpty(t, c.err.Error())
		})
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

// Zero values of errors do not panic, and are no other error.
func TestZeroErrorsAreSafe(t *testing.T) {
	t.Parallel()
	zeros := []error{(*retry.Error)(nil), &retry.Error{}, &retry.Error{Stop: 200}, retry.MarkFinal((*retry.Error)(nil)), retry.StopNone, &retry.Error{Err: (*retry.Error)(nil)}}
	for i, err := range zeros {
		assert.NotPanics(t, func() {
			for _, target := range []error{nil, context.Canceled, list{"x"}, &retry.Error{}, (*retry.Error)(nil), retry.ErrLost} {
				_ = errors.Is(err, target)
			}
			_ = errors.As(err, new(*fs.PathError))
			assert.NotEmpty(t, fmt.Sprintf("%v %+v %q", err, err, err))
		}, i)
		assert.NotErrorIs(t, err, testkit.ErrPeer)
		assert.NotErrorIs(t, err, retry.StopAttempts)
	}
}

// A failure is never turned into nil.
func TestAFailureIsNeverNil(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		context.Canceled, context.DeadlineExceeded, io.EOF, retry.MarkFinal(context.Canceled), &retry.Error{}, (*retry.Error)(nil),
		retry.StopAttempts, &retry.Error{Stop: retry.StopCanceled, Cause: context.Canceled},
	} {
		for name, p := range everyWay() {
			for at := 1; at <= 2; at++ {
				c := play(t, p, func(_ context.Context, attempt int, end context.CancelCauseFunc) error {
					if attempt == at {
						end(nil)
					}
					return err
				})
				assert.ErrorIs(t, c.err, err, name)
			}
		}
	}
}

// No classifier switches a mark off.
func TestClassifiersDoNotOverruleMarks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		classifier retry.Class
		err        error
		calls      int
	}{
		{retry.Retryable, retry.MarkFinal(testkit.ErrPeer), 1},
		{retry.Retryable, errors.Join(io.EOF, retry.MarkFinal(testkit.ErrPeer)), 1},
		{retry.Final, retry.MarkRetryable(testkit.ErrPeer), 3},
		{retry.Final, retry.Mark(testkit.ErrPeer, retry.Verdict{}), 3},
		{retry.Final, testkit.ErrPeer, 1},
	} {
		p := exact(0)
		p.Classifier = func(error) retry.Verdict { return retry.Verdict{Class: tt.classifier} }
		assert.Equal(t, tt.calls, play(t, p, always(tt.err)).calls, "%v: %v", tt.classifier, tt.err)
	}
}

// A policy without a limit of attempts goes the same way as one with a limit.
func TestFiniteAndUnlimitedAreOnePath(t *testing.T) {
	t.Parallel()
	for _, last := range []error{nil, retry.MarkFinal(testkit.ErrPeer), retry.MarkRateLimited(testkit.ErrPeer, time.Hour), context.Canceled} {
		run := func(attempts int) (c course, events []retry.Event) {
			p := exact(time.Second)
			p.MaxAttempts = attempts
			p.Observer = retry.ObserverFunc(func(_ context.Context, e retry.Event) { events = append(events, e) })
			return play(t, p, func(_ context.Context, attempt int, _ context.CancelCauseFunc) error {
				if attempt == 4 {
					return last
				}
				return testkit.ErrPeer
			}), events
		}
		finite, events := run(1000)
		unlimited, same := run(retry.Unlimited)
		assert.Equal(t, finite, unlimited, "%v", last)
		assert.Equal(t, events, same)
		assert.Equal(t, 4, finite.calls)
	}
}

// The Observer hears of each retry once, and of the end once.
func TestEventsAreExact(t *testing.T) {
	t.Parallel()
	for at, want := range map[int]string{1: "1 succeeded", 3: "1 retrying, 2 retrying, 3 succeeded", 9: "1 retrying, 2 retrying, 3 gave_up"} {
		got, calls := "", 0
		p := &retry.Policy{Backoff: retry.Constant(0), Observer: retry.ObserverFunc(func(_ context.Context, e retry.Event) {
			got += fmt.Sprintf(", %d %v", e.Attempt, e.Kind)
			assert.Equal(t, calls, e.Attempt)
		})}
		_ = p.Execute(t.Context(), func(context.Context) error {
			if calls++; calls == at {
				return nil
			}
			return testkit.ErrPeer
		})
		assert.Equal(t, ", "+want, got)
	}
}
