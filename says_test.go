package retry_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
)

// The errors below say one thing through one method. They are functions, so
// that a nil one panics when it is asked, as the methods of typed nil pointers
// do, and so that comparing two of them panics as well.
type (
	saysRetryAfterError     func() time.Duration
	saysGetRetryAfterError  func() time.Duration
	saysNextRetryDelayError func() time.Duration

	saysRetryableError       func() bool
	saysIsRetryableError     func() bool
	saysSmithyRetryableError func() bool
	saysIsRetriableError     func() bool
	saysShouldRetryError     func() bool
	saysNonRetryableError    func() bool
	saysCanceledError        func() bool
	saysSafeToRetryError     func() bool
	saysTimeoutError         func() bool
	saysTemporaryError       func() bool

	saysHTTPStatusCodeError func() int
	saysHTTPCodeError       func() int
	saysStatusCodeError     func() int

	saysSQLStateError  func() string
	saysSQLNumberError func() int32
	saysCodeError      func() string
	saysLabelError     func(string) bool
)

func (f saysRetryAfterError) Error() string             { return "x" }
func (f saysRetryAfterError) RetryAfter() time.Duration { return f() }
func (f saysGetRetryAfterError) Error() string          { return "x" }
func (f saysGetRetryAfterError) GetRetryAfter() time.Duration {
	return f()
}
func (f saysNextRetryDelayError) Error() string { return "x" }
func (f saysNextRetryDelayError) NextRetryDelay() time.Duration {
	return f()
}

func (f saysRetryableError) Error() string              { return "x" }
func (f saysRetryableError) Retryable() bool            { return f() }
func (f saysIsRetryableError) Error() string            { return "x" }
func (f saysIsRetryableError) IsRetryable() bool        { return f() }
func (f saysSmithyRetryableError) Error() string        { return "x" }
func (f saysSmithyRetryableError) RetryableError() bool { return f() }
func (f saysIsRetriableError) Error() string            { return "x" }
func (f saysIsRetriableError) IsRetriable() bool        { return f() }
func (f saysShouldRetryError) Error() string            { return "x" }
func (f saysShouldRetryError) ShouldRetry() bool        { return f() }
func (f saysNonRetryableError) Error() string           { return "x" }
func (f saysNonRetryableError) NonRetryable() bool      { return f() }
func (f saysCanceledError) Error() string               { return "x" }
func (f saysCanceledError) CanceledError() bool         { return f() }
func (f saysSafeToRetryError) Error() string            { return "x" }
func (f saysSafeToRetryError) SafeToRetry() bool        { return f() }
func (f saysTimeoutError) Error() string                { return "x" }
func (f saysTimeoutError) Timeout() bool                { return f() }
func (f saysTemporaryError) Error() string              { return "x" }
func (f saysTemporaryError) Temporary() bool            { return f() }

func (f saysHTTPStatusCodeError) Error() string       { return "x" }
func (f saysHTTPStatusCodeError) HTTPStatusCode() int { return f() }
func (f saysHTTPCodeError) Error() string             { return "x" }
func (f saysHTTPCodeError) HTTPCode() int             { return f() }
func (f saysStatusCodeError) Error() string           { return "x" }
func (f saysStatusCodeError) StatusCode() int         { return f() }

func (f saysSQLStateError) Error() string            { return "x" }
func (f saysSQLStateError) SQLState() string         { return f() }
func (f saysSQLNumberError) Error() string           { return "x" }
func (f saysSQLNumberError) SQLErrorNumber() int32   { return f() }
func (f saysCodeError) Error() string                { return "x" }
func (f saysCodeError) ErrorCode() string            { return f() }
func (f saysLabelError) Error() string               { return "x" }
func (f saysLabelError) HasErrorLabel(s string) bool { return f(s) }

// says returns a method that always gives the same answer.
func says[T any](answer T) func() T { return func() T { return answer } }

// aWhile is the usual hint of these tests.
const aWhile = 5 * time.Second

// The verdicts that tests want. A "may" verdict leaves open whether the
// operation took effect; with "can" it is proved that it did not.
func wantFinal(category string) retry.Verdict {
	return retry.Verdict{Class: retry.Final, Category: category}
}

func mayRetry(category string) retry.Verdict {
	return retry.Verdict{Class: retry.Retryable, Category: category}
}

func canRetry(category string) retry.Verdict {
	return retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: category}
}

func mayLimit(category string) retry.Verdict {
	return retry.Verdict{Class: retry.RateLimited, Category: category}
}

func canLimit(category string) retry.Verdict {
	return retry.Verdict{Class: retry.RateLimited, NotApplied: true, Category: category}
}

// hinted adds the usual hint.
func hinted(v retry.Verdict) retry.Verdict {
	v.After = aWhile
	return v
}

// abstains is no opinion.
var abstains retry.Verdict

// assertVerdict compares verdicts. NotApplied of a Final one has no meaning,
// because nothing follows.
func assertVerdict(t *testing.T, want, got retry.Verdict, about ...any) bool {
	t.Helper()
	if want.Class == retry.Final {
		got.NotApplied = want.NotApplied
	}
	return assert.Equal(t, want, got, about...)
}

// assertClassified checks what Classify says about err: about itself, wrapped,
// and beside an error that nobody knows.
func assertClassified(t *testing.T, want retry.Verdict, err error) {
	t.Helper()
	if !assertVerdict(t, want, retry.Classify(err), "%T: %v", err, err) {
		return
	}
	nobody := errors.New("nobody knows this")
	assertVerdict(t, want, retry.Classify(fmt.Errorf("a: %w", fmt.Errorf("b: %w", err))), "wrapped")
	assertVerdict(t, want, retry.Classify(errors.Join(err, nobody)), "joined, first")
	assertVerdict(t, want, retry.Classify(errors.Join(nobody, err)), "joined, last")
	assertVerdict(t, want, retry.Classify(fmt.Errorf("%w: %w", nobody, err)), "two verbs")
}

// The errors below say something and wrap a cause.

// overStatusError is the shape of the AWS SDK: the status outside, the name of
// the error within.
type overStatusError struct {
	saysHTTPStatusCodeError
	cause error
}

func (e overStatusError) Unwrap() error { return e.cause }

type overSafeError struct {
	saysSafeToRetryError
	cause error
}

func (e overSafeError) Unwrap() error { return e.cause }

type overHintError struct {
	saysRetryAfterError
	cause error
}

func (e overHintError) Unwrap() error { return e.cause }

type overTimeoutError struct {
	saysTimeoutError
	cause error
}

func (e overTimeoutError) Unwrap() error { return e.cause }

type overRetryableError struct {
	saysRetryableError
	cause error
}

func (e overRetryableError) Unwrap() error { return e.cause }
