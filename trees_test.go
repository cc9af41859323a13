package retry_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

// joins are pairs of errors that stand side by side.
var joins = []struct {
	name string
	a, b error
	want retry.Verdict
}{
	{"reset, and the file closed", syscall.ECONNRESET, fs.ErrClosed, mayRetry("conn_reset")},
	{
		"no IPv6, and IPv4 refused",
		&net.OpError{Op: "dial", Net: "tcp6", Err: os.NewSyscallError("socket", syscall.EAFNOSUPPORT)},
		&net.OpError{Op: "dial", Net: "tcp4", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		canRetry("conn_refused"),
	},
	{"certificate, and DNS timeout", x509.UnknownAuthorityError{}, &net.DNSError{IsTimeout: true}, mayRetry("dns")},
	{"final mark, and reset", retry.MarkFinal(errNobody), syscall.ECONNRESET, wantFinal("")},
	{"two hints", saysRetryAfterError(says(2 * time.Second)), saysRetryAfterError(says(aWhile)), hinted(mayLimit(""))},
	{
		"two marked hints",
		retry.MarkRateLimited(errNobody, 2*time.Second), retry.MarkRateLimited(errNobody, aWhile),
		hinted(canLimit("")),
	},
	{"final and rate-limited marks", retry.MarkFinal(errNobody), retry.MarkRateLimited(errNobody, aWhile), wantFinal("")},
	{"retryable and rate-limited marks", retry.MarkRetryable(errNobody), retry.MarkRateLimited(errNobody, 0), canLimit("")},
	{"marks that differ in proof", retry.MarkRetryable(errNobody), retry.Mark(errNobody, mayRetry("mine")), mayRetry("mine")},
	{"retryable mark, and final error", retry.MarkRetryable(errNobody), fs.ErrNotExist, canRetry("")},
	{"unknown mark, and final error", retry.Mark(errNobody, retry.Verdict{}), fs.ErrNotExist, abstains},
	{"rate limit, and refused", saysStatusCodeError(says(429)), syscall.ECONNREFUSED, canLimit("http_429")},
	{"rate limit, and reset", saysStatusCodeError(says(429)), syscall.ECONNRESET, mayLimit("http_429")},
	{"refused, and reset", syscall.ECONNREFUSED, syscall.ECONNRESET, mayRetry("conn_refused")},
	{"timeout, and refused", os.ErrDeadlineExceeded, syscall.ECONNREFUSED, mayRetry("conn_refused")},
	{"timeout, and no timeout", saysTimeoutError(says(true)), saysTimeoutError(says(false)), mayRetry("timeout")},
	{"two finals", fs.ErrNotExist, fs.ErrPermission, wantFinal("not_found")},
	{"deadline of another context", errNobody, context.DeadlineExceeded, mayRetry("timeout")},
	{"cancellation of another context", errNobody, context.Canceled, wantFinal("canceled")},
	{"panic, and refused", throwingError{}, syscall.ECONNREFUSED, canRetry("conn_refused")},
	{"nil pointer, and refused", (*fs.PathError)(nil), syscall.ECONNREFUSED, canRetry("conn_refused")},
	{"incomparable, and refused", slicedError{}, syscall.ECONNREFUSED, canRetry("conn_refused")},
	{"nothing known", errNobody, errors.New("x"), abstains},
}

func TestJoinsInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, tt := range joins {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assertClassified(t, tt.want, errors.Join(tt.a, tt.b))
			assertClassified(t, tt.want, errors.Join(tt.b, tt.a))
			assertClassified(t, tt.want, fmt.Errorf("%w (%w)", tt.b, tt.a))
			assertClassified(t, tt.want, errors.Join(errors.Join(tt.b), errors.Join(errNobody, fmt.Errorf("x: %w", tt.a))))
			assertClassified(t, tt.want, errors.Join(tt.a, tt.b, tt.a))
		})
	}
}

func TestJoinsOnAChain(t *testing.T) {
	t.Parallel()
	limit := statusHintError{says(429), says(aWhile)}
	tests := []struct {
		name string
		err  error
		want retry.Verdict
	}{
		{"mark around a join", retry.MarkFinal(errors.Join(limit, syscall.ECONNRESET)), wantFinal("")},
		{"dial around a join", &net.OpError{Op: "dial", Err: errors.Join(syscall.ECONNRESET, syscall.ENETUNREACH)}, canRetry("conn_reset")},
		{"answer around a join", overRetryableError{says(false), errors.Join(limit, errNobody)}, wantFinal("permanent")},
		{"hint around a join", overHintError{says(aWhile), errors.Join(errNobody, syscall.ECONNRESET)}, hinted(mayRetry("conn_reset"))},
		{"timeout around a join", overTimeoutError{says(true), errors.Join(errNobody, fs.ErrNotExist)}, wantFinal("not_found")},
		{"timeout around a join of unknowns", overTimeoutError{says(true), errors.Join(errNobody, errNobody)}, mayRetry("timeout")},
		{"join of nothing", saysManyCausesError(nil), abstains},
		{"join with nil", saysManyCausesError{nil, syscall.ECONNREFUSED, nil}, canRetry("conn_refused")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assertClassified(t, tt.want, tt.err)
		})
	}
}

// saysManyCausesError may have nil among its causes, unlike errors.Join.
type saysManyCausesError []error

func (saysManyCausesError) Error() string     { return "x" }
func (e saysManyCausesError) Unwrap() []error { return e }

func TestJoinOfNothingIsSuccess(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{}
	require.NoError(t, p.Execute(t.Context(), func(context.Context) error { return errors.Join(nil, nil) }))
	state := retry.State{Failures: 2}
	assert.Equal(t, retry.Decision{State: state}, p.Next(state, errors.Join(), time.Time{}))
}

// TestDeadlineOfTheCaller is the same error under a context that lives and
// under one that is done.
func TestDeadlineOfTheCaller(t *testing.T) {
	t.Parallel()
	errMine, errCause := errors.New("mine"), errors.New("cause")
	failure := fmt.Errorf("%w: %w", errMine, context.DeadlineExceeded)
	assertClassified(t, mayRetry("timeout"), failure)

	ctx, cancel := context.WithCancelCause(t.Context())
	calls := 0
	err := (&retry.Policy{Backoff: retry.Constant(0)}).Execute(ctx, func(context.Context) error {
		calls++
		cancel(errCause)
		return failure
	})
	var e *retry.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, retry.StopCanceled, e.Stop)
	require.ErrorIs(t, err, errCause)
	require.ErrorIs(t, err, errMine)
	assert.Equal(t, 1, calls)
}

// endlessError wraps itself.
type endlessError struct{}

func (*endlessError) Error() string   { return "endless" }
func (e *endlessError) Unwrap() error { return e }

// growingError wraps another one every time.
type growingError int

func (growingError) Error() string   { return "growing" }
func (e growingError) Unwrap() error { return e + 1 }

// branchingError joins itself with itself.
type branchingError struct{}

func (*branchingError) Error() string     { return "branching" }
func (e *branchingError) Unwrap() []error { return []error{e, e} }

// chainOf wraps err until there are so many errors.
func chainOf(length int, err error) error {
	for range length - 1 {
		err = fmt.Errorf("%w", err)
	}
	return err
}

func TestTreesWithoutEnd(t *testing.T) {
	t.Parallel()
	wide := make([]error, 5000)
	for i := range wide {
		wide[i] = syscall.ECONNREFUSED
	}
	nest := error(syscall.ECONNREFUSED)
	for range 10_000 {
		nest = saysManyCausesError{nest, errNobody}
	}
	for name, err := range map[string]error{
		"endless":       &endlessError{},
		"growing":       growingError(0),
		"branching":     &branchingError{},
		"10000 deep":    chainOf(10_000, syscall.ECONNREFUSED),
		"10000 joins":   nest,
		"5000 wide":     saysManyCausesError(wide),
		"a known error": overTimeoutError{says(true), &endlessError{}},
	} {
		assert.Zero(t, retry.Classify(err), name)
		assert.Zero(t, retry.ThroughGiveUp(err), name)
		assert.Equal(t, wantFinal(""), retry.Classify(retry.MarkFinal(err)), name)

		// Not all is seen, so that what is seen depends on the order.
		for _, leg := range []error{syscall.ECONNREFUSED, retry.MarkFinal(errNobody), gaveUp(retry.StopAttempts, fs.ErrNotExist)} {
			first, last := errors.Join(leg, err), errors.Join(err, leg)
			assert.Zero(t, retry.Classify(first), name)
			assert.Zero(t, retry.Classify(last), name)
			assert.Equal(t, retry.ThroughGiveUp(first), retry.ThroughGiveUp(last), name)
		}
	}
}

func TestTreesOf1000Errors(t *testing.T) {
	t.Parallel()
	const limit = 1000
	assert.Equal(t, canRetry("conn_refused"), retry.Classify(chainOf(limit, syscall.ECONNREFUSED)))
	assert.Zero(t, retry.Classify(chainOf(limit+1, syscall.ECONNREFUSED)))
	assert.Equal(t, canRetry(""), retry.Classify(chainOf(limit, retry.MarkRetryable(errNobody))))
	assert.Zero(t, retry.Classify(chainOf(limit+1, retry.MarkRetryable(errNobody))))

	legs := make([]error, limit-1) // and the join itself
	for i := range legs {
		legs[i] = errNobody
	}
	legs[limit-2] = syscall.ECONNREFUSED
	assert.Equal(t, canRetry("conn_refused"), retry.Classify(errors.Join(legs...)))
	legs[limit-2] = retry.MarkRetryable(errNobody)
	assert.Equal(t, canRetry(""), retry.Classify(errors.Join(legs...)))
	assert.Zero(t, retry.Classify(errors.Join(append(legs, errNobody)...)))
}

// throwingError panics in every method that a classification may call.
type throwingError struct{}

func (throwingError) Error() string             { panic("Error") }
func (throwingError) Unwrap() error             { panic("Unwrap") }
func (throwingError) Is(error) bool             { panic("Is") }
func (throwingError) As(any) bool               { panic("As") }
func (throwingError) RetryAfter() time.Duration { panic("RetryAfter") }
func (throwingError) Retryable() bool           { panic("Retryable") }
func (throwingError) StatusCode() int           { panic("StatusCode") }
func (throwingError) Timeout() bool             { panic("Timeout") }
func (throwingError) Temporary() bool           { panic("Temporary") }

// strictIsError makes the usual mistake in Is: it expects only its own kind.
type strictIsError struct {
	saysStatusCodeError
	code int
}

func (strictIsError) Error() string { return "x" }

func (e strictIsError) Is(target error) bool {
	return target.(strictIsError).code == e.code
}

func TestMethodsThatPanic(t *testing.T) {
	t.Parallel()
	assert.Zero(t, retry.Classify(throwingError{}))
	assert.Zero(t, retry.Classify(&throwingError{}))
	assert.Zero(t, retry.Classify((*throwingError)(nil)))
	assert.Zero(t, retry.ThroughGiveUp(throwingError{}))
	assert.Zero(t, retry.On(retry.Final, errNobody)(throwingError{}))
	assertVerdict(t, mayRetry("http_503"), retry.Classify(strictIsError{says(503), 1}), "a panic in Is")

	// Texts survive as well.
	assert.NotPanics(t, func() {
		_ = retry.MarkFinal(throwingError{}).Error()
		_ = gaveUp(retry.StopAttempts, throwingError{}).Error()
	})
}

func TestIncomparableErrors(t *testing.T) {
	t.Parallel()
	err := slicedError{"x"}
	assert.Zero(t, retry.Classify(err))
	assert.Zero(t, retry.Classify(errors.Join(err, err)))
	assert.Equal(t, wantFinal(""), retry.Classify(retry.MarkFinal(err)))
	assert.Equal(t, "incomparable", retry.MarkFinal(err).Error())
	assert.Equal(t, retry.Verdict{Category: "gave_up"}, retry.ThroughGiveUp(gaveUp(retry.StopAttempts, err)))
}
