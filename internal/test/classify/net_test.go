package classify_test

import (
	"context"
	"errors"
	"fmt"
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

	for reason := retry.StopNone; reason <= retry.StopBackoff; reason++ {
		want := wantFinal("gave_up")
		switch reason {
		case retry.StopDeadline, retry.StopCanceled, retry.StopTimeout:
			want = mayRetry("gave_up")
		case retry.StopRetryAfter:
			want = mayLimit("gave_up")
		}
		assertClassified(t, want, &retry.Error{Attempts: 1, Stop: reason, Err: os.ErrDeadlineExceeded})
	}
	assertClassified(t, abstains, (*retry.Error)(nil))
}

func (*panicsTimeoutError) Error() string     { return "panics" }
func (e *panicsTimeoutError) Timeout() bool   { return e.yes }
func (e *panicsTimeoutError) Temporary() bool { return e.yes }

type (
	loopingError struct{}
	fanningError struct{}
)

func (*loopingError) Error() string     { return "loop" }
func (e *loopingError) Unwrap() error   { return e }
func (*fanningError) Error() string     { return "fan" }
func (e *fanningError) Unwrap() []error { return []error{e, e} }
