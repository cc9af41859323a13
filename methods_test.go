package retry_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
)

// yesNo are the methods that answer with a bool. A false answers the question
// only where the method asks precisely whether to retry.
var yesNo = []struct {
	method string
	err    func(func() bool) error
	yes    retry.Verdict
	no     retry.Verdict
}{
	{"Retryable", func(f func() bool) error { return saysRetryableError(f) }, mayRetry("transient"), wantFinal("permanent")},
	{"IsRetryable", func(f func() bool) error { return saysIsRetryableError(f) }, mayRetry("transient"), wantFinal("permanent")},
	{"RetryableError", func(f func() bool) error { return saysSmithyRetryableError(f) }, mayRetry("transient"), wantFinal("permanent")},
	{"IsRetriable", func(f func() bool) error { return saysIsRetriableError(f) }, mayRetry("transient"), wantFinal("permanent")},
	{"ShouldRetry", func(f func() bool) error { return saysShouldRetryError(f) }, mayRetry("transient"), wantFinal("permanent")},
	{"NonRetryable", func(f func() bool) error { return saysNonRetryableError(f) }, wantFinal("permanent"), abstains},
	{"CanceledError", func(f func() bool) error { return saysCanceledError(f) }, wantFinal("canceled"), abstains},
	{"SafeToRetry", func(f func() bool) error { return saysSafeToRetryError(f) }, canRetry("unsent"), abstains},
	{"Timeout", func(f func() bool) error { return saysTimeoutError(f) }, mayRetry("timeout"), abstains},
	{"Temporary", func(f func() bool) error { return saysTemporaryError(f) }, mayRetry("temporary"), abstains},
	{"ConnectionError", func(f func() bool) error { return saysConnectionError(f) }, mayRetry("conn"), abstains},
}

// saysConnectionError is smithy's way to say that a request could not be sent.
type saysConnectionError func() bool

func (f saysConnectionError) Error() string         { return "x" }
func (f saysConnectionError) ConnectionError() bool { return f() }

// overConnectionError is the shape of smithy's RequestSendError, which wraps
// whatever the HTTP client returned.
type overConnectionError struct {
	saysConnectionError
	cause error
}

func (e overConnectionError) Unwrap() error { return e.cause }

func TestMethodsThatAnswerYesOrNo(t *testing.T) {
	t.Parallel()
	for _, tt := range yesNo {
		t.Run(tt.method, func(t *testing.T) {
			t.Parallel()
			assertClassified(t, tt.yes, tt.err(says(true)))
			assertClassified(t, tt.no, tt.err(says(false)))
			assertClassified(t, abstains, tt.err(func() bool { panic("method") }))
			assertClassified(t, abstains, tt.err(nil))
		})
	}
}

func TestMethodsThatHint(t *testing.T) {
	t.Parallel()
	tests := map[string]func(func() time.Duration) error{
		"RetryAfter":     func(f func() time.Duration) error { return saysRetryAfterError(f) },
		"GetRetryAfter":  func(f func() time.Duration) error { return saysGetRetryAfterError(f) },
		"NextRetryDelay": func(f func() time.Duration) error { return saysNextRetryDelayError(f) },
	}
	for method, saying := range tests {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			assertClassified(t, hinted(mayLimit("")), saying(says(aWhile)))
			assertClassified(t, abstains, saying(says(time.Duration(0))))
			assertClassified(t, abstains, saying(says(-aWhile)))
			assertClassified(t, abstains, saying(func() time.Duration { panic("method") }))
			assertClassified(t, abstains, saying(nil))
		})
	}
}

func TestMethodsThatGiveAStatus(t *testing.T) {
	t.Parallel()
	tests := map[string]func(func() int) error{
		"HTTPStatusCode": func(f func() int) error { return saysHTTPStatusCodeError(f) },
		"HTTPCode":       func(f func() int) error { return saysHTTPCodeError(f) },
		"StatusCode":     func(f func() int) error { return saysStatusCodeError(f) },
	}
	for method, saying := range tests {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			assertClassified(t, mayRetry("http_503"), saying(says(503)))
			assertClassified(t, canLimit("http_429"), saying(says(429)))
			assertClassified(t, wantFinal("http_404"), saying(says(404)))
			for _, nonsense := range []int{-1, 0, 1, 14, 99, 600, 999, 1 << 30} {
				assertClassified(t, abstains, saying(says(nonsense)))
			}
			assertClassified(t, abstains, saying(func() int { panic("method") }))
			assertClassified(t, abstains, saying(nil))
		})
	}
}

func TestMethodsThatGiveACode(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		err  error
		want retry.Verdict
	}{
		{"SQLState", saysSQLStateError(says("40P01")), canRetry("sql_40P01")},
		{"SQLState unknown", saysSQLStateError(says("00000")), abstains},
		{"SQLState empty", saysSQLStateError(says("")), abstains},
		{"SQLState panics", saysSQLStateError(func() string { panic("method") }), abstains},
		{"SQLState of nil", saysSQLStateError(nil), abstains},
		{"SQLErrorNumber", saysSQLNumberError(says(int32(1205))), canRetry("mssql_1205")},
		{"SQLErrorNumber unknown", saysSQLNumberError(says(int32(1))), abstains},
		{"SQLErrorNumber panics", saysSQLNumberError(func() int32 { panic("method") }), abstains},
		{"SQLErrorNumber of nil", saysSQLNumberError(nil), abstains},
		{"ErrorCode", saysCodeError(says("Throttling")), mayLimit("aws_Throttling")},
		{"ErrorCode unknown", saysCodeError(says("NoSuchKey")), abstains},
		{"ErrorCode panics", saysCodeError(func() string { panic("method") }), abstains},
		{"ErrorCode of nil", saysCodeError(nil), abstains},
		{"HasErrorLabel none", saysLabelError(func(string) bool { return false }), abstains},
		{"HasErrorLabel panics", saysLabelError(func(string) bool { panic("method") }), abstains},
		{"HasErrorLabel of nil", saysLabelError(nil), abstains},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assertClassified(t, tt.want, tt.err)
		})
	}
}

// azureError is azcore's way to refuse a retry: to have the method is to say
// so, and the pointer may be nil.
type azureError struct{ code string }

func (e *azureError) Error() string { return e.code }
func (e *azureError) NonRetriable() { panic("a marker is not called") }

func TestMethodNonRetriableIsAMarker(t *testing.T) {
	t.Parallel()
	assertClassified(t, wantFinal("permanent"), &azureError{})
	assertClassified(t, wantFinal("permanent"), (*azureError)(nil))
}

// TestMethodsAreAskedOnce counts, because an answer may cost something, or be
// different the next time.
func TestMethodsAreAskedOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range yesNo {
		for _, answer := range []bool{true, false} {
			calls := 0
			err := tt.err(func() bool { calls++; return answer })
			retry.Classify(fmt.Errorf("a: %w", err))
			assert.Equal(t, 1, calls, "%s, answer %v", tt.method, answer)
		}
	}
}

// Errors with several methods. The methods of the embedded ones are promoted,
// but for Error, which would be ambiguous.
type (
	statusHintError struct {
		saysStatusCodeError
		saysRetryAfterError
	}
	retryableHintError struct {
		saysRetryableError
		saysRetryAfterError
	}
	temporalError struct {
		saysNonRetryableError
		saysNextRetryDelayError
	}
	twoHintsError struct {
		saysRetryAfterError
		saysGetRetryAfterError
	}
	twoRefusalsError struct {
		saysNonRetryableError
		saysCanceledError
	}
	quarrelError struct {
		saysNonRetryableError
		saysRetryableError
	}
	codeStatusError struct {
		saysCodeError
		saysHTTPStatusCodeError
	}
	weakHintError struct {
		saysTemporaryError
		saysRetryAfterError
	}
	timeoutRefusalError struct {
		saysTimeoutError
		saysRetryableError
	}
)

func (statusHintError) Error() string     { return "x" }
func (retryableHintError) Error() string  { return "x" }
func (temporalError) Error() string       { return "x" }
func (twoHintsError) Error() string       { return "x" }
func (twoRefusalsError) Error() string    { return "x" }
func (quarrelError) Error() string        { return "x" }
func (codeStatusError) Error() string     { return "x" }
func (weakHintError) Error() string       { return "x" }
func (timeoutRefusalError) Error() string { return "x" }

func TestMethodsTogether(t *testing.T) {
	t.Parallel()
	var (
		yes, no = says(true), says(false)
		hint    = says(aWhile)
		noHint  = says(time.Duration(0))
	)
	tests := []struct {
		name string
		err  error
		want retry.Verdict
	}{
		{"retryable with hint", retryableHintError{yes, hint}, hinted(mayRetry("transient"))},
		{"retryable without hint", retryableHintError{yes, noHint}, mayRetry("transient")},
		{"refusal drops the hint", retryableHintError{no, hint}, wantFinal("permanent")},
		{"panicking answer leaves the hint", retryableHintError{nil, hint}, hinted(mayLimit(""))},
		{"panicking hint leaves the answer", retryableHintError{yes, nil}, mayRetry("transient")},
		{"Temporal refuses", temporalError{yes, hint}, wantFinal("permanent")},
		{"Temporal hints", temporalError{no, hint}, hinted(mayLimit(""))},
		{"zero hint does not hide the other", twoHintsError{noHint, hint}, hinted(mayLimit(""))},
		{"false does not hide the other refusal", twoRefusalsError{no, yes}, wantFinal("canceled")},
		{"refusal beats consent", quarrelError{yes, yes}, wantFinal("permanent")},
		{"no refusal leaves consent", quarrelError{no, yes}, mayRetry("transient")},
		{"no refusal leaves dissent", quarrelError{no, no}, wantFinal("permanent")},
		{"code beats status", codeStatusError{says("SlowDown"), says(400)}, mayLimit("aws_SlowDown")},
		{"unknown code leaves the status", codeStatusError{says("NoSuchKey"), says(404)}, wantFinal("http_404")},
		{"temporary with hint", weakHintError{yes, hint}, hinted(mayRetry("temporary"))},
		{"not temporary with hint", weakHintError{no, hint}, hinted(mayLimit(""))},
		{"answer beats timeout", timeoutRefusalError{yes, no}, wantFinal("permanent")},

		{"429 with hint", statusHintError{says(429), hint}, hinted(canLimit("http_429"))},
		{"403 with hint", statusHintError{says(403), hint}, hinted(canLimit("http_403"))},
		{"403 without hint", statusHintError{says(403), noHint}, wantFinal("http_403")},
		{"413 with hint", statusHintError{says(413), hint}, hinted(mayRetry("http_413"))},
		{"413 without hint", statusHintError{says(413), noHint}, wantFinal("http_413")},
		{"423 with hint", statusHintError{says(423), hint}, hinted(mayRetry("http_423"))},
		{"423 without hint", statusHintError{says(423), noHint}, wantFinal("http_423")},
		{"503 with hint", statusHintError{says(503), hint}, hinted(canRetry("http_503"))},
		{"503 without hint", statusHintError{says(503), noHint}, mayRetry("http_503")},
		{"500 with hint", statusHintError{says(500), hint}, hinted(mayRetry("http_500"))},
		{"404 with hint", statusHintError{says(404), hint}, wantFinal("http_404")},
		{"503 with panicking hint", statusHintError{says(503), nil}, mayRetry("http_503")},
		{"panicking status with hint", statusHintError{nil, hint}, hinted(mayLimit(""))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assertClassified(t, tt.want, tt.err)
		})
	}
}

func TestMethodsOnAChain(t *testing.T) {
	t.Parallel()
	var (
		yes, no = says(true), says(false)
		hint    = says(aWhile)
		final   = saysRetryableError(no)
	)
	tests := []struct {
		name string
		err  error
		want retry.Verdict
	}{
		{"outer answer counts", overRetryableError{yes, final}, mayRetry("transient")},
		{"outer refusal counts", overRetryableError{no, syscall.ECONNRESET}, wantFinal("permanent")},
		{"refusal ignores a hint beneath", overRetryableError{no, saysRetryAfterError(hint)}, wantFinal("permanent")},
		{"consent takes a hint beneath", overRetryableError{yes, saysRetryAfterError(hint)}, hinted(mayRetry("transient"))},
		{"hint around a refusal", overHintError{hint, final}, wantFinal("permanent")},
		{"hint around a transient error", overHintError{hint, syscall.ECONNRESET}, hinted(mayRetry("conn_reset"))},
		{"hint around a timeout", overHintError{hint, saysTimeoutError(yes)}, hinted(mayRetry("timeout"))},
		{"outer hint counts", overHintError{hint, saysRetryAfterError(says(time.Second))}, hinted(mayLimit(""))},
		{"timeout gives way to a refusal", overTimeoutError{yes, final}, wantFinal("permanent")},
		{"timeout gives way to a cause", overTimeoutError{yes, syscall.ECONNREFUSED}, canRetry("conn_refused")},
		{"no timeout outside leaves one inside", overTimeoutError{no, saysTimeoutError(yes)}, mayRetry("timeout")},

		// What pgconn returns when its context is done says SafeToRetry.
		{"SafeToRetry around a cancellation", overSafeError{yes, context.Canceled}, wantFinal("canceled")},
		{"SafeToRetry around a deadline", overSafeError{yes, context.DeadlineExceeded}, canRetry("unsent")},
		{"SafeToRetry proves more than an errno", overSafeError{yes, syscall.ECONNRESET}, canRetry("conn_reset")},
		{"not SafeToRetry proves nothing", overSafeError{no, syscall.ECONNREFUSED}, canRetry("conn_refused")},

		// What is known about the cause counts, whatever it is.
		{"ConnectionError around nobody", overConnectionError{yes, errNobody}, mayRetry("conn")},
		{"ConnectionError around nothing", overConnectionError{yes, nil}, mayRetry("conn")},
		{"no ConnectionError around nobody", overConnectionError{no, errNobody}, abstains},
		{"ConnectionError around a certificate", overConnectionError{yes, x509.UnknownAuthorityError{}}, wantFinal("tls_cert")},
		{"ConnectionError around a cancellation", overConnectionError{yes, context.Canceled}, wantFinal("canceled")},
		{"ConnectionError around a refusal", overConnectionError{yes, final}, wantFinal("permanent")},
		{"ConnectionError around an errno", overConnectionError{yes, syscall.ECONNREFUSED}, canRetry("conn_refused")},
		{"ConnectionError around a timeout", overConnectionError{yes, saysTimeoutError(yes)}, mayRetry("timeout")},
		{"ConnectionError around a hint", overConnectionError{yes, saysRetryAfterError(hint)}, hinted(mayLimit(""))},
		{"ConnectionError around a dial", overConnectionError{yes, &net.OpError{Op: "dial", Err: errNobody}}, canRetry("dial")},
		{"ConnectionError around a join", overConnectionError{yes, errors.Join(errNobody, io.EOF)}, mayRetry("conn")},
		{"ConnectionError beneath a timeout", overTimeoutError{yes, saysConnectionError(yes)}, mayRetry("timeout")},
		{"ConnectionError beneath a dial", &net.OpError{Op: "dial", Err: saysConnectionError(yes)}, canRetry("dial")},

		// DynamoDB and others throttle with status 400.
		{
			"AWS throttles with 400",
			overStatusError{says(400), saysCodeError(says("ThrottlingException"))},
			mayLimit("aws_ThrottlingException"),
		},
		{
			"AWS times out with 400",
			overStatusError{says(400), saysCodeError(says("RequestTimeout"))},
			mayRetry("aws_RequestTimeout"),
		},
		{
			"AWS refuses with 400",
			overStatusError{says(400), saysCodeError(says("ValidationException"))},
			wantFinal("http_400"),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assertClassified(t, tt.want, tt.err)
		})
	}
}

// Methods that look like conventions and are none.
type (
	recoverableError struct{}
	codeError        int
	odd1Error        struct{}
	odd2Error        struct{}
)

func (recoverableError) Error() string     { return "x" }
func (recoverableError) Recoverable() bool { return true } // amqp091 says so about NotFound
func (e codeError) Error() string          { return "x" }
func (e codeError) Code() int              { return int(e) } // everybody's numbers
func (odd1Error) Error() string            { return "x" }
func (odd1Error) Retryable() error         { return nil }
func (odd1Error) RetryAfter() int          { return 5 }
func (odd1Error) StatusCode() string       { return "503" }
func (odd1Error) Timeout() time.Duration   { return time.Second }
func (odd2Error) Error() string            { return "x" }
func (odd2Error) Retryable(int) bool       { return true }
func (odd2Error) ErrorCode() int           { return 503 }
func (odd2Error) SQLState() [5]byte        { return [5]byte{'4', '0', '0', '0', '1'} }
func (odd2Error) NonRetriable() bool       { return true }

func TestMethodsThatAreNoConvention(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		recoverableError{}, codeError(5), codeError(503), odd1Error{}, odd2Error{},
	} {
		assertClassified(t, abstains, err)
	}
}
