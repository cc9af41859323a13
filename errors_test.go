package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

var (
	errRefused  = errors.New("connection refused")
	errShutdown = errors.New("shutting down")
)

func TestErrorText(t *testing.T) {
	t.Parallel()
	// refused is the end of a policy with a name, whose attempts were all refused.
	refused := func(attempts int, stop retry.StopReason, cause error) retry.Error {
		return retry.Error{Policy: "task", Attempts: attempts, Stop: stop, Err: errRefused, Cause: cause}
	}
	hinted := refused(1, retry.StopRetryAfter, nil)
	hinted.RetryAfter = 90 * time.Minute
	inner := refused(2, retry.StopAttempts, nil)
	for _, tt := range []struct {
		err  retry.Error
		want string
	}{
		{retry.Error{}, "not started"},
		{retry.Error{Attempts: 1}, "failed after 1 attempt"},
		{retry.Error{Attempts: 1, Err: errRefused}, "failed after 1 attempt: connection refused"},
		{retry.Error{Attempts: 2, Err: errRefused}, "failed after 2 attempts: connection refused"},
		{retry.Error{Policy: "task", Attempts: 3, Stop: retry.StopAttempts}, "task failed after 3 attempts"},

		{refused(3, retry.StopNone, nil), "task failed after 3 attempts: connection refused"},
		{refused(3, retry.StopAttempts, nil), "task failed after 3 attempts: connection refused"},
		{refused(1, retry.StopFinal, nil), "task failed after 1 attempt: connection refused"},
		{refused(4, retry.StopElapsed, nil), "task failed after 4 attempts (time limit reached): connection refused"},
		{refused(1, retry.StopBudget, nil), "task failed after 1 attempt (local retry budget exhausted): connection refused"},
		{hinted, "task failed after 1 attempt (server asks to wait 1h30m0s): connection refused"},
		{refused(1, retry.StopMaybeApplied, nil), "task failed after 1 attempt (it may have taken effect): connection refused"},
		{refused(3, retry.StopBackoff+1, nil), "task failed after 3 attempts: connection refused"},

		{refused(2, retry.StopDeadline, nil), "task failed after 2 attempts (next attempt would miss the context's deadline): connection refused"},
		{refused(2, retry.StopDeadline, context.DeadlineExceeded), "task failed after 2 attempts (context deadline exceeded): connection refused"},
		{refused(2, retry.StopDeadline, errShutdown), "task failed after 2 attempts (context deadline exceeded: shutting down): connection refused"},
		{refused(2, retry.StopCanceled, nil), "task failed after 2 attempts (context canceled): connection refused"},
		{refused(2, retry.StopCanceled, context.Canceled), "task failed after 2 attempts (context canceled): connection refused"},
		{refused(2, retry.StopCanceled, errShutdown), "task failed after 2 attempts (context canceled: shutting down): connection refused"},

		{retry.Error{Policy: "task", Stop: retry.StopCanceled, Cause: context.Canceled}, "task not started: context canceled"},
		{retry.Error{Policy: "task", Stop: retry.StopCanceled, Cause: errShutdown}, "task not started: context canceled: shutting down"},
		{retry.Error{Stop: retry.StopDeadline, Cause: context.DeadlineExceeded}, "not started: context deadline exceeded"},
		{retry.Error{Policy: "task", Stop: retry.StopElapsed}, "task not started: time limit reached"},

		// The error of an inner policy reads on, nothing is said twice, and a mark does not change the text.
		{
			retry.Error{Policy: "outer", Attempts: 1, Stop: retry.StopAttempts, Err: &inner},
			"outer failed after 1 attempt: task failed after 2 attempts: connection refused",
		},
		{
			retry.Error{Attempts: 1, Stop: retry.StopDeadline, Err: context.DeadlineExceeded, Cause: context.DeadlineExceeded},
			"failed after 1 attempt: context deadline exceeded",
		},
		{retry.Error{Attempts: 2, Stop: retry.StopAttempts, Err: retry.MarkRetryable(errRefused)}, "failed after 2 attempts: connection refused"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			t.Parallel()
			assert.EqualError(t, &tt.err, tt.want)
		})
	}
}

// TestErrorTextOfEveryReason checks that the text names every reason but the
// attempts.
func TestErrorTextOfEveryReason(t *testing.T) {
	t.Parallel()
	plain := (&retry.Error{Attempts: 3, Err: errRefused}).Error()
	texts := map[string]retry.StopReason{}
	for _, r := range stopReasons {
		text := (&retry.Error{Attempts: 3, Stop: r.reason, RetryAfter: time.Hour, Err: errRefused}).Error()
		if r.reason <= retry.StopAttempts { // nothing, Final or the attempts
			assert.Equal(t, plain, text, "%v", r.reason)
			continue
		}
		assert.NotEqual(t, plain, text, "%v", r.reason)
		other, twice := texts[text]
		assert.False(t, twice, "%v and %v read alike: %s", r.reason, other, text)
		texts[text] = r.reason
	}
}

func TestErrorIs(t *testing.T) {
	t.Parallel()
	for _, r := range stopReasons {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			err := fmt.Errorf("wrapped: %w", &retry.Error{Attempts: 2, Stop: r.reason, Err: fmt.Errorf("get: %w", errRefused)})
			for _, other := range stopReasons {
				assert.Equal(t, r.reason == other.reason && r.reason != retry.StopNone, errors.Is(err, other.reason), "%v", other.name)
			}
			for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
				assert.Equal(t, r.end == end, errors.Is(err, end), "%v", end)
			}
			assert.ErrorIs(t, err, errRefused)
			assert.NotErrorIs(t, err, io.EOF)
			var e *retry.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, r.reason, e.Stop)
		})
	}
}

// countingError counts how often its text is asked for.
type countingError struct{ asked int }

func (e *countingError) Error() string {
	e.asked++
	return "boom"
}

// TestErrorAsksOnce checks that nested errors do not double the work of their texts with
// each layer.
func TestErrorAsksOnce(t *testing.T) {
	t.Parallel()
	inner := &countingError{}
	err := error(inner)
	for range 10 {
		err = &retry.Error{Attempts: 1, Stop: retry.StopDeadline, Err: err}
	}
	assert.Contains(t, err.Error(), "boom")
	assert.Equal(t, 1, inner.asked)
}

// TestErrorZeroAndNil checks that neither the zero value nor a nil pointer
// panics, alone or in a chain.
func TestErrorZeroAndNil(t *testing.T) {
	t.Parallel()
	var none *retry.Error
	assert.Equal(t, "<nil>", none.Error())
	assert.False(t, none.Is(io.EOF))
	assert.False(t, none.Is(nil))
	assert.NotErrorIs(t, none, io.EOF)
	assert.NotErrorIs(t, fmt.Errorf("wrapped: %w", none), retry.StopElapsed)
	assert.Equal(t, "failed after 1 attempt: <nil>", (&retry.Error{Attempts: 1, Err: none}).Error())

	zero := &retry.Error{}
	assert.False(t, zero.Is(nil), "no reason is not the nil error")
	assert.NotErrorIs(t, zero, io.EOF)
	var path *fs.PathError
	assert.NotErrorAs(t, error(zero), &path)
}

type panickingError struct{}

func (panickingError) Error() string { panic("no text") }

// incomparableError must not meet ==.
type incomparableError []string

func (e incomparableError) Error() string { return fmt.Sprint([]string(e)) }

func TestErrorOfForeignErrors(t *testing.T) {
	t.Parallel()
	broken := &retry.Error{Policy: "task", Attempts: 2, Stop: retry.StopAttempts, Err: panickingError{}}
	assert.NotPanics(t, func() {
		assert.Contains(t, broken.Error(), "task failed after 2 attempts: ")
		assert.Contains(t, broken.Error(), "no text", "what it panicked with")
	})
	cause := &retry.Error{Policy: "task", Stop: retry.StopCanceled, Cause: panickingError{}}
	assert.NotPanics(t, func() {
		assert.Contains(t, cause.Error(), "task not started: context canceled: ")
	})
	incomparable := &retry.Error{
		Attempts: 1, Stop: retry.StopCanceled, Err: incomparableError{"a"}, Cause: incomparableError{"b", "c"},
	}
	assert.NotPanics(t, func() {
		assert.EqualError(t, incomparable, "failed after 1 attempt (context canceled: [b c]): [a]")
		assert.NotErrorIs(t, incomparable, incomparableError{"a"})
		assert.ErrorIs(t, incomparable, context.Canceled)
	})
	var list incomparableError
	if assert.ErrorAs(t, incomparable, &list) {
		assert.Equal(t, incomparableError{"a"}, list, "the last error comes first")
	}
}

// stopReasons has all of them, with the ends of contexts that two of them stand for.
var stopReasons = []struct {
	reason retry.StopReason
	name   string
	end    error
}{
	{retry.StopNone, "none", nil},
	{retry.StopFinal, "final", nil},
	{retry.StopAttempts, "attempts", nil},
	{retry.StopElapsed, "elapsed", nil},
	{retry.StopDeadline, "deadline", context.DeadlineExceeded},
	{retry.StopCanceled, "canceled", context.Canceled},
	{retry.StopBudget, "budget", nil},
	{retry.StopRetryAfter, "retry_after", nil},
	{retry.StopMaybeApplied, "maybe_applied", nil},
	{retry.StopTimeout, "timeout", nil},
	{retry.StopBackoff, "backoff", nil},
}

func TestStopReasonText(t *testing.T) {
	t.Parallel()
	for i, r := range stopReasons {
		assert.EqualValues(t, i, r.reason, "the numbers may be stored")
		assert.Equal(t, r.name, r.reason.Error())
	}
	assert.Equal(t, "none(200)", retry.StopReason(200).Error())
}

// TestPanicError checks its forms.
func TestPanicError(t *testing.T) {
	t.Parallel()
	assert.EqualError(t, &retry.PanicError{Value: "odd"}, "panic: odd")
	assert.EqualError(t, &retry.PanicError{Value: "odd", In: "OnEnd", Stack: []byte("main.go:1")}, "panic in OnEnd: odd\n\nmain.go:1")
	assert.ErrorIs(t, &retry.PanicError{Value: errBoom}, errBoom)
	assert.Equal(t, retry.Final, retry.Classify(&retry.PanicError{Value: errors.New("odd")}).Class)
}

// assertSameError checks that an error is this very one, and not only equal to
// it.
func assertSameError(t *testing.T, want, got error, about string) {
	t.Helper()
	same := want == got
	assert.True(t, same, "%v is not %v: %s", got, want, about)
}
