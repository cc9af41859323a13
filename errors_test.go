package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"syscall"
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
	tests := []struct {
		err  retry.Error
		want string
	}{
		{retry.Error{}, "not started"},
		{retry.Error{Attempts: 1}, "failed after 1 attempt"},
		{retry.Error{Attempts: 1, Err: errRefused}, "failed after 1 attempt: connection refused"},
		{retry.Error{Attempts: 2, Err: errRefused}, "failed after 2 attempts: connection refused"},
		{
			retry.Error{Policy: "task", Attempts: 3, Err: errRefused},
			"task failed after 3 attempts: connection refused",
		},
		{
			retry.Error{Policy: "task", Attempts: 3, Stop: retry.StopAttempts, Err: errRefused},
			"task failed after 3 attempts: connection refused",
		},
		{
			retry.Error{Policy: "task", Attempts: 3, Stop: retry.StopAttempts},
			"task failed after 3 attempts",
		},
		{
			retry.Error{Policy: "task", Attempts: 1, Stop: retry.StopFinal, Err: errRefused},
			"task failed after 1 attempt: connection refused",
		},
		{
			retry.Error{Policy: "task", Attempts: 4, Stop: retry.StopElapsed, Err: errRefused},
			"task failed after 4 attempts (time limit reached): connection refused",
		},
		{
			retry.Error{Policy: "task", Attempts: 1, Stop: retry.StopBudget, Err: errRefused},
			"task failed after 1 attempt (local retry budget exhausted): connection refused",
		},
		{
			retry.Error{
				Policy: "task", Attempts: 1, Stop: retry.StopRetryAfter, RetryAfter: 90 * time.Minute, Err: errRefused,
			},
			"task failed after 1 attempt (server asks to wait 1h30m0s): connection refused",
		},
		{
			retry.Error{Policy: "task", Attempts: 1, Stop: retry.StopMaybeApplied, Err: errRefused},
			"task failed after 1 attempt (it may have taken effect): connection refused",
		},
		{
			retry.Error{Policy: "task", Attempts: 2, Stop: retry.StopDeadline, Err: errRefused},
			"task failed after 2 attempts (next attempt would miss the context's deadline): connection refused",
		},
		{
			retry.Error{
				Policy: "task", Attempts: 2, Stop: retry.StopDeadline, Err: errRefused, Cause: context.DeadlineExceeded,
			},
			"task failed after 2 attempts (context deadline exceeded): connection refused",
		},
		{
			retry.Error{Policy: "task", Attempts: 2, Stop: retry.StopDeadline, Err: errRefused, Cause: errShutdown},
			"task failed after 2 attempts (context deadline exceeded: shutting down): connection refused",
		},
		{
			retry.Error{Policy: "task", Attempts: 2, Stop: retry.StopCanceled, Err: errRefused},
			"task failed after 2 attempts (context canceled): connection refused",
		},
		{
			retry.Error{
				Policy: "task", Attempts: 2, Stop: retry.StopCanceled, Err: errRefused, Cause: context.Canceled,
			},
			"task failed after 2 attempts (context canceled): connection refused",
		},
		{
			retry.Error{Policy: "task", Attempts: 2, Stop: retry.StopCanceled, Err: errRefused, Cause: errShutdown},
			"task failed after 2 attempts (context canceled: shutting down): connection refused",
		},
		{
			retry.Error{Policy: "task", Stop: retry.StopCanceled, Cause: context.Canceled},
			"task not started: context canceled",
		},
		{
			retry.Error{Policy: "task", Stop: retry.StopCanceled, Cause: errShutdown},
			"task not started: context canceled: shutting down",
		},
		{
			retry.Error{Stop: retry.StopDeadline, Cause: context.DeadlineExceeded},
			"not started: context deadline exceeded",
		},
		{
			retry.Error{Policy: "task", Stop: retry.StopElapsed},
			"task not started: time limit reached",
		},
		{
			retry.Error{Policy: "task", Attempts: 3, Stop: retry.StopBackoff + 1, Err: errRefused},
			"task failed after 3 attempts: connection refused",
		},
		{
			// The error of an inner policy reads on.
			retry.Error{
				Policy: "outer", Attempts: 1, Stop: retry.StopAttempts,
				Err: &retry.Error{Policy: "inner", Attempts: 2, Stop: retry.StopAttempts, Err: errRefused},
			},
			"outer failed after 1 attempt: inner failed after 2 attempts: connection refused",
		},
		{
			// Nothing is said twice.
			retry.Error{Attempts: 1, Stop: retry.StopDeadline, Err: context.DeadlineExceeded, Cause: context.DeadlineExceeded},
			"failed after 1 attempt: context deadline exceeded",
		},
		{
			// A mark does not change the text.
			retry.Error{Attempts: 2, Stop: retry.StopAttempts, Err: retry.MarkRetryable(errRefused)},
			"failed after 2 attempts: connection refused",
		},
	}
	for _, tt := range tests {
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

func TestErrorTimeoutAndTemporary(t *testing.T) {
	t.Parallel()
	last := func(err error) *retry.Error { return &retry.Error{Attempts: 3, Stop: retry.StopAttempts, Err: err} }
	yes, no := says(true), says(false)
	tests := []struct {
		name      string
		err       *retry.Error
		timeout   bool
		temporary bool
	}{
		{"nil", nil, false, false},
		{"zero", &retry.Error{}, false, false},
		{"not started", &retry.Error{Stop: retry.StopCanceled, Cause: context.Canceled}, false, false},
		{"deadline", &retry.Error{Stop: retry.StopDeadline, Err: errNobody}, true, true},
		{"deadline before the start", &retry.Error{Stop: retry.StopDeadline, Cause: context.DeadlineExceeded}, true, true},
		{"no time left", &retry.Error{Attempts: 3, Stop: retry.StopElapsed, Err: errNobody}, false, false},
		{"the cause is not asked", &retry.Error{Stop: retry.StopCanceled, Cause: os.ErrDeadlineExceeded}, false, false},

		{"the last attempt ran out of time", last(fmt.Errorf("x: %w", os.ErrDeadlineExceeded)), true, true},
		{"another failure", last(syscall.ECONNREFUSED), false, false},
		{"temporary only", last(fmt.Errorf("x: %w", syscall.EMFILE)), false, true},
		{"timeout only", last(saysTimeoutError(yes)), true, false},
		{"temporary, says a method", last(saysTemporaryError(yes)), false, true},
		{"nobody knows", last(errNobody), false, false},

		{"one of two", last(errors.Join(errNobody, os.ErrDeadlineExceeded)), true, true},
		{"the outermost answer", last(overTimeoutError{no, os.ErrDeadlineExceeded}), false, true},
		{"the first of two answers", last(errors.Join(saysTimeoutError(no), os.ErrDeadlineExceeded)), false, true},
		{"deep in a URL", last(&url.Error{Op: "Get", Err: fmt.Errorf("x: %w", os.ErrDeadlineExceeded)}), true, true},
		{"a dial", last(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ETIMEDOUT)}), true, true},
		{"a refused dial", last(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}), false, false},

		{"an inner policy", last(fmt.Errorf("x: %w", last(os.ErrDeadlineExceeded))), true, true},
		{"an inner deadline", last(&url.Error{Op: "Get", Err: &retry.Error{Stop: retry.StopDeadline}}), true, true},
		{"an inner nil", last((*retry.Error)(nil)), false, false},

		{"a method that panics", last((*panicsTimeoutError)(nil)), false, false},
		{"a method that panics, and one that does not", last(errors.Join((*panicsTimeoutError)(nil), os.ErrDeadlineExceeded)), true, true},
		{"a nil URL", last((*url.Error)(nil)), false, false},
		{"a nil dial", last((*net.OpError)(nil)), false, false},
		{"a wrapper that panics", last(throwingError{}), false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.timeout, tt.err.Timeout(), "timeout")
			assert.Equal(t, tt.temporary, tt.err.Temporary(), "temporary")
			client := &url.Error{Op: "Get", Err: tt.err}
			assert.Equal(t, tt.timeout, client.Timeout(), "timeout of an http.Client")
			assert.Equal(t, tt.temporary, client.Temporary(), "temporary of an http.Client")
		})
	}
}

type panicsTimeoutError struct{ yes bool }

func (*panicsTimeoutError) Error() string     { return "panics" }
func (e *panicsTimeoutError) Timeout() bool   { return e.yes }
func (e *panicsTimeoutError) Temporary() bool { return e.yes }

// TestErrorTimeoutEnds on trees without end, and on trees that are so wide that
// visiting all of it would take forever.
func TestErrorTimeoutEnds(t *testing.T) {
	t.Parallel()
	loop := &loopingError{}
	fan := &fanningError{}
	own := &retry.Error{Attempts: 1, Stop: retry.StopAttempts}
	own.Err = own
	ownURL := &retry.Error{Attempts: 1, Stop: retry.StopAttempts}
	ownURL.Err = &url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: ownURL}}
	ownJoin := &retry.Error{Attempts: 1, Stop: retry.StopAttempts}
	ownJoin.Err = errors.Join(fmt.Errorf("x: %w", error(fan)), ownJoin, ownJoin)
	wide := errNobody
	for range 100 { // 2¹⁰⁰ paths
		wide = errors.Join(wide, wide)
	}
	for name, err := range map[string]error{
		"loop": loop, "fan": fan, "its own": own, "its own by way of a URL": ownURL,
		"its own by way of a join": ownJoin, "wide": wide,
	} {
		e := &retry.Error{Attempts: 1, Stop: retry.StopAttempts, Err: err}
		done := make(chan bool, 1)
		go func() { done <- e.Timeout() || e.Temporary() || (&url.Error{Err: e}).Temporary() }()
		select {
		case yes := <-done:
			assert.False(t, yes, name)
		case <-time.After(10 * time.Second):
			assert.Fail(t, "does not end", name)
		}
	}
	// An answer before the limit counts.
	found := &retry.Error{Attempts: 1, Stop: retry.StopAttempts, Err: errors.Join(os.ErrDeadlineExceeded, loop)}
	assert.True(t, found.Timeout())
	assert.True(t, found.Temporary())
}

type (
	loopingError struct{}
	fanningError struct{}
)

func (*loopingError) Error() string     { return "loop" }
func (e *loopingError) Unwrap() error   { return e }
func (*fanningError) Error() string     { return "fan" }
func (e *fanningError) Unwrap() []error { return []error{e, e} }

// TestErrorIsANetError checks that code that looks for a net.Error finds the
// Error itself, and that this changes nothing for the classification.
func TestErrorIsANetError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := &retry.Policy{Backoff: retry.Constant(time.Hour)}
	err := p.Execute(ctx, func(context.Context) error { return &net.DNSError{IsNotFound: false} })
	var e *retry.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, retry.StopDeadline, e.Stop)

	for _, err := range []error{err, fmt.Errorf("wrapped: %w", err), &url.Error{Op: "Get", Err: err}} {
		var found net.Error
		require.ErrorAs(t, err, &found)
		assert.True(t, found.Timeout(), "%T", err)
	}
	var found net.Error
	require.ErrorAs(t, fmt.Errorf("wrapped: %w", err), &found)
	assert.Same(t, e, found)

	for _, r := range stopReasons {
		want := wantFinal("gave_up")
		switch r.reason {
		case retry.StopDeadline, retry.StopCanceled, retry.StopTimeout:
			want = mayRetry("gave_up")
		case retry.StopRetryAfter:
			want = mayLimit("gave_up")
		}
		assertClassified(t, want, &retry.Error{Attempts: 1, Stop: r.reason, Err: os.ErrDeadlineExceeded})
	}
	assertClassified(t, abstains, (*retry.Error)(nil))
}
