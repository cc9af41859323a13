// Package classify has the tests of retry.Classify with trees of errors, and with errors that
// only clients of servers make.
package classify_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/known"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// busyError is an error that only a classifier of its owner understands.
type busyError struct{ cause error }

func (*busyError) Error() string   { return "busy" }
func (e *busyError) Unwrap() error { return e.cause }

func TestExtend(t *testing.T) {
	t.Parallel()
	busy := retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: "busy"}
	named := retry.Verdict{Category: "named"}
	errNamed := errors.New("named")
	classify := retry.Extend(func(err error) retry.Verdict {
		if _, ok := err.(*busyError); ok {
			return busy
		}
		if err == errNamed {
			return named
		}
		return retry.Verdict{}
	})
	final := retry.Verdict{Class: retry.Final, Category: "not_found"}
	for _, test := range []struct {
		name string
		err  error
		want retry.Verdict
	}{
		{"nil", nil, retry.Verdict{}},
		{"nobody knows it", errNobody, retry.Verdict{}},
		{"alone", &busyError{}, busy},
		{"wrapped", fmt.Errorf("x: %w", &busyError{}), busy},
		{"heard before its cause", &busyError{fs.ErrNotExist}, busy},
		{"heard after what wraps it", saysStatusCodeWraps{404, &busyError{}}, retry.Verdict{Class: retry.Final, Category: "http_404"}},
		{"what Classify knows", fs.ErrNotExist, final},
		{"a mark overrules it", retry.MarkFinal(&busyError{}), retry.Verdict{Class: retry.Final}},
		{"an inner policy gave up", &retry.Error{Stop: retry.StopAttempts, Err: &busyError{}}, retry.Verdict{Class: retry.Final, Category: "gave_up"}},
		{"better than a Final beside it", errors.Join(fs.ErrNotExist, &busyError{}), retry.Verdict{Class: retry.Retryable, Category: "busy"}},
		{"unknown, but named", fmt.Errorf("x: %w", errNamed), named},
		{"named, with a cause that is known", &busyError{errNamed}, busy},
		{"named beside an error that is known", errors.Join(errNamed, fs.ErrNotExist), final},
	} {
		assert.Equal(t, test.want, classify(test.err), test.name)
	}
	reversed := errors.Join(&busyError{}, fs.ErrNotExist)
	assert.Equal(t, retry.Retryable, classify(reversed).Class, "in any order")
	assert.Equal(t, final, retry.Extend(nil)(fs.ErrNotExist))
}

// saysStatusCodeWraps names a status and has a cause.
type saysStatusCodeWraps struct {
	status int
	cause  error
}

func (saysStatusCodeWraps) Error() string     { return "status" }
func (e saysStatusCodeWraps) StatusCode() int { return e.status }
func (e saysStatusCodeWraps) Unwrap() error   { return e.cause }

func TestChain(t *testing.T) {
	t.Parallel()
	asked := 0
	opinion := func(v retry.Verdict) retry.Classifier {
		return func(error) retry.Verdict { asked++; return v }
	}
	silent := opinion(retry.Verdict{})
	tests := []struct {
		name  string
		chain []retry.Classifier
		want  retry.Verdict
		asked int
	}{
		{"none", nil, retry.Verdict{}, 0},
		{"nil", []retry.Classifier{nil, nil}, retry.Verdict{}, 0},
		{"all abstain", []retry.Classifier{silent, silent}, retry.Verdict{}, 2},
		{"first opinion", []retry.Classifier{opinion(wantFinal("a")), opinion(mayRetry("b"))}, wantFinal("a"), 1},
		{"after an abstention", []retry.Classifier{silent, nil, opinion(mayRetry("b"))}, mayRetry("b"), 2},
		{"a category is an opinion", []retry.Classifier{
			opinion(retry.Verdict{Category: "a"}), opinion(wantFinal("b")),
		}, retry.Verdict{Category: "a"}, 1},
		{"a hint is an opinion", []retry.Classifier{
			opinion(retry.Verdict{After: 1}), opinion(wantFinal("b")),
		}, retry.Verdict{After: 1}, 1},
		{"chains nest", []retry.Classifier{
			retry.Chain(silent, silent), retry.Chain(silent, opinion(wantFinal("a"))),
		}, wantFinal("a"), 4},
	}
	for _, tt := range tests { // in order: they share the counter
		asked = 0
		assert.Equal(t, tt.want, retry.Chain(tt.chain...)(errNobody), tt.name)
		assert.Equal(t, tt.asked, asked, tt.name)
	}
}

// slicedError cannot be compared.
type slicedError []string

func (slicedError) Error() string { return "incomparable" }

// TestOn has the errors that cannot be compared.
func TestOn(t *testing.T) {
	t.Parallel()
	other := errors.New("other")
	for _, tt := range []struct {
		name    string
		class   retry.Class
		targets []error
		err     error
		want    retry.Verdict
	}{
		{"itself", retry.Final, []error{errNobody}, errNobody, wantFinal("")},
		{"wrapped", retry.Retryable, []error{errNobody}, fmt.Errorf("x: %w", errNobody), mayRetry("")},
		{"joined", retry.RateLimited, []error{errNobody}, errors.Join(other, errNobody), mayLimit("")},
		{"second target", retry.Final, []error{errNobody, other}, other, wantFinal("")},
		{"by Is", retry.Retryable, []error{fs.ErrNotExist}, syscall.ENOENT, mayRetry("")},
		{"marked", retry.Final, []error{errNobody}, retry.MarkRetryable(errNobody), wantFinal("")},
		{"not it", retry.Final, []error{other}, errNobody, abstains},
		{"no targets", retry.Final, nil, errNobody, abstains},
		{"no error", retry.Final, []error{errNobody}, nil, abstains},
		{"unknown is an opinion", retry.Unknown, []error{errNobody}, errNobody, retry.Verdict{Category: "unknown"}},
		{"incomparable", retry.Final, []error{slicedError{}}, slicedError{}, abstains},
		{"incomparable target", retry.Final, []error{slicedError{}, errNobody}, errNobody, wantFinal("")},
		{"endless", retry.Final, []error{errNobody}, &endlessError{}, abstains},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, retry.On(tt.class, tt.targets...)(tt.err))
		})
	}
}

// TestHTTPStatuses checks all statuses: those that are not listed are Final.
func TestHTTPStatuses(t *testing.T) {
	t.Parallel()
	var (
		anyMethod  = []int{408, 421, 425}
		idempotent = []int{449, 500, 502, 503, 504, 520, 521, 522, 523, 524, 530, 598, 599}

		// With a hint, more statuses are retried, and 503 is NotApplied.
		hintedAny        = []int{408, 421, 425, 503}
		hintedIdempotent = []int{413, 423, 449, 477, 500, 502, 504, 520, 521, 522, 523, 524, 530, 598, 599}
	)
	for status := 100; status <= 599; status++ {
		category := "http_" + strconv.Itoa(status)

		want := wantFinal(category)
		switch {
		case slices.Contains(anyMethod, status):
			want = canRetry(category)
		case slices.Contains(idempotent, status):
			want = mayRetry(category)
		case status == 420, status == 429:
			want = canLimit(category)
		case status == 509, status == 529:
			want = mayLimit(category)
		}
		assertVerdict(t, want, retry.Classify(saysStatusCodeError(says(status))), "%d", status)

		want = wantFinal(category)
		switch {
		case slices.Contains(hintedAny, status):
			want = hinted(canRetry(category))
		case slices.Contains(hintedIdempotent, status):
			want = hinted(mayRetry(category))
		case status == 403, status == 418, status == 420, status == 429:
			want = hinted(canLimit(category))
		case status == 509, status == 529:
			want = hinted(mayLimit(category))
		}
		withHint := statusHintError{says(status), says(aWhile)}
		assertVerdict(t, want, retry.Classify(withHint), "%d with hint", status)
	}
}

func TestAWSCodes(t *testing.T) {
	t.Parallel()
	tests := map[string]retry.Verdict{
		"RequestTimeout":          mayRetry("aws_RequestTimeout"),
		"RequestTimeoutException": mayRetry("aws_RequestTimeoutException"),
	}
	for _, code := range []string{
		"Throttling", "ThrottlingException", "ThrottledException", "RequestThrottledException",
		"TooManyRequestsException", "ProvisionedThroughputExceededException",
		"TransactionInProgressException", "RequestLimitExceeded", "BandwidthLimitExceeded",
		"LimitExceededException", "RequestThrottled", "SlowDown", "PriorRequestNotComplete",
		"EC2ThrottledException",
	} {
		tests[code] = mayLimit("aws_" + code)
	}
	for _, code := range []string{
		"", "Throttling ", "ThrottlingExceptionX", "NoSuchKey", "AccessDenied",
		"InvalidSignatureException", "ExpiredToken",
	} {
		tests[code] = abstains // only exact names
	}
	for _, code := range slices.Sorted(maps.Keys(tests)) {
		assertClassified(t, tests[code], saysCodeError(says(code)))
	}
}

func TestMongoLabels(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		labels []string
		want   retry.Verdict
	}{
		{[]string{"RetryableWriteError"}, mayRetry("mongo_transient")},
		{[]string{"RetryableError"}, mayRetry("mongo_transient")},
		{[]string{"UnknownTransactionCommitResult"}, mayRetry("mongo_commit")},
		{[]string{"SystemOverloadedError", "RetryableError"}, mayLimit("mongo_overloaded")},
		{[]string{"RetryableWriteError", "NoWritesPerformed"}, canRetry("mongo_transient")},
		{[]string{"SystemOverloadedError", "RetryableError", "NoWritesPerformed"}, canLimit("mongo_overloaded")},
		{[]string{"SystemOverloadedError"}, abstains},
		{[]string{"NoWritesPerformed"}, abstains},
		{[]string{"NetworkError"}, abstains},
		{nil, abstains},
	} {
		has := func(label string) bool { return slices.Contains(tt.labels, label) }
		assertClassified(t, tt.want, saysLabelError(has))
	}

	// The whole transaction is to be repeated.
	got := retry.Classify(saysLabelError(func(label string) bool {
		return label == "TransientTransactionError"
	}))
	assert.Equal(t, retry.Retryable, got.Class)
	assert.Equal(t, "mongo_transaction", got.Category)
}

var errnoRows = []struct {
	want    retry.Verdict
	unix    []syscall.Errno // by name: the numbers differ between systems
	windows []syscall.Errno // by number
}{
	{mayRetry("conn_refused"), []syscall.Errno{syscall.ECONNREFUSED}, []syscall.Errno{10061}},
	{
		mayRetry("conn_reset"),
		[]syscall.Errno{syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE},
		[]syscall.Errno{10054, 10053, 109, 232},
	},
	{mayRetry("timeout"), []syscall.Errno{syscall.ETIMEDOUT}, []syscall.Errno{10060, 121}},
	{
		mayRetry("unreachable"),
		[]syscall.Errno{
			syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN, syscall.ENETRESET,
		},
		[]syscall.Errno{10051, 10065, 10064, 10050, 10052},
	},
	{
		mayRetry("interrupted"),
		[]syscall.Errno{
			syscall.EAGAIN, syscall.EWOULDBLOCK, syscall.EINTR, syscall.EINPROGRESS, syscall.EALREADY,
		},
		[]syscall.Errno{10035, 10004, 10036, 10037},
	},
	{
		mayRetry("resources"),
		[]syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM},
		[]syscall.Errno{10024, 10055, 8, 14},
	},
	{
		mayRetry("busy"),
		[]syscall.Errno{syscall.EBUSY, syscall.ETXTBSY, syscall.EDEADLK, syscall.ENOLCK, syscall.ESTALE},
		[]syscall.Errno{32, 33, 170},
	},
	{
		mayRetry("addr_in_use"),
		[]syscall.Errno{syscall.EADDRINUSE, syscall.EADDRNOTAVAIL},
		[]syscall.Errno{10048, 10049},
	},
	{abstains, []syscall.Errno{syscall.EIO, 0, 1 << 20}, []syscall.Errno{1117, 0, 1 << 20}},
	{wantFinal("disk_full"), []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT}, []syscall.Errno{112}},
	{
		wantFinal("permission"),
		[]syscall.Errno{syscall.EACCES, syscall.EPERM, syscall.EROFS},
		[]syscall.Errno{5, 10013},
	},
	{wantFinal("not_found"), []syscall.Errno{syscall.ENOENT, syscall.ENOTDIR}, []syscall.Errno{2, 3, 53}},
	{wantFinal("exists"), []syscall.Errno{syscall.EEXIST, syscall.ENOTEMPTY}, []syscall.Errno{80, 183, 145}},
	{
		wantFinal("invalid"),
		[]syscall.Errno{
			syscall.EISDIR, syscall.EINVAL, syscall.EBADF, syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EXDEV,
			syscall.E2BIG, syscall.ENOEXEC, syscall.EMSGSIZE, syscall.EISCONN,
		},
		[]syscall.Errno{87, 10022, 10040, 10056},
	},
	{
		wantFinal("unsupported"),
		[]syscall.Errno{
			syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.ENOTSUP, syscall.EAFNOSUPPORT, syscall.EPROTO,
		},
		[]syscall.Errno{10047},
	},
	{
		mayRetry("conn_closed"),
		[]syscall.Errno{syscall.ENOTCONN, syscall.ESHUTDOWN},
		[]syscall.Errno{10057, 10058},
	},
	{wantFinal("canceled"), []syscall.Errno{syscall.ECANCELED}, []syscall.Errno{995}},
	{mayRetry("dns"), nil, []syscall.Errno{11002}},
	{wantFinal("dns_not_found"), nil, []syscall.Errno{11001, 11004}},
}

// TestErrnos checks those of this system, also before anything was sent, and those of Windows. The
// syscall.E… of Windows are invented numbers that no call returns, so that only its own count there,
// and can be asked about everywhere. Other systems do not have the numbers of Winsock.
func TestErrnos(t *testing.T) {
	t.Parallel()
	for _, tt := range errnoRows {
		dialing := tt.want
		dialing.NotApplied = dialing.Class == retry.Retryable
		if dialing == abstains {
			dialing = canRetry("dial")
		}
		for _, errno := range tt.unix {
			assertClassified(t, tt.want, errno)
			assertClassified(t, tt.want, os.NewSyscallError("write", errno))
			assertClassified(t, tt.want, &os.PathError{Op: "write", Path: "x", Err: errno})
			assertClassified(t, tt.want, &net.OpError{Op: "read", Err: os.NewSyscallError("read", errno)})
			assertClassified(t, dialing, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)})
		}
		for _, errno := range tt.windows {
			assertVerdict(t, tt.want, verdictOf(known.ErrnoOn("windows", errno)), "%d", uintptr(errno))
			if errno > 10000 {
				assert.Zero(t, known.ErrnoOn("linux", errno), "%d", uintptr(errno))
			}
		}
	}
}

// verdictOf returns a fact as a verdict, like the library.
func verdictOf(f known.Fact) retry.Verdict {
	return retry.Verdict{
		Class: retry.Class(f.Class), NotApplied: f.Flags.Has(known.NotApplied), After: f.After, Category: f.Category,
	}
}

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
	{"IsRetriable", func(f func() bool) error { return saysIsRetriableError(f) }, mayRetry("transient"), abstains},
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
		checkMethod(t, tt.method, tt.err, map[bool]retry.Verdict{true: tt.yes, false: tt.no})
	}
}

// checkMethod checks what is made of the answers of a method, and that a panic and a nil receiver
// say nothing.
func checkMethod[T comparable](t *testing.T, name string, saying func(func() T) error, answers map[T]retry.Verdict) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		for answer, want := range answers {
			assertClassified(t, want, saying(says(answer)))
		}
		assertClassified(t, abstains, saying(func() T { panic("method") }))
		assertClassified(t, abstains, saying(nil))
	})
}

func TestMethodsThatHint(t *testing.T) {
	t.Parallel()
	for method, saying := range map[string]func(func() time.Duration) error{
		"RetryAfter":     func(f func() time.Duration) error { return saysRetryAfterError(f) },
		"GetRetryAfter":  func(f func() time.Duration) error { return saysGetRetryAfterError(f) },
		"NextRetryDelay": func(f func() time.Duration) error { return saysNextRetryDelayError(f) },
	} {
		checkMethod(t, method, saying, map[time.Duration]retry.Verdict{aWhile: hinted(mayLimit("")), 0: abstains, -aWhile: abstains})
	}
}

func TestMethodsThatGiveAStatus(t *testing.T) {
	t.Parallel()
	answers := map[int]retry.Verdict{503: mayRetry("http_503"), 429: canLimit("http_429"), 404: wantFinal("http_404")}
	for _, nonsense := range []int{-1, 0, 1, 14, 99, 600, 999, 1 << 30} {
		answers[nonsense] = abstains
	}
	for method, saying := range map[string]func(func() int) error{
		"HTTPStatusCode": func(f func() int) error { return saysHTTPStatusCodeError(f) },
		"HTTPCode":       func(f func() int) error { return saysHTTPCodeError(f) },
		"StatusCode":     func(f func() int) error { return saysStatusCodeError(f) },
	} {
		checkMethod(t, method, saying, answers)
	}
}

func TestMethodsThatGiveACode(t *testing.T) {
	t.Parallel()
	checkMethod(t, "SQLState", func(f func() string) error { return saysSQLStateError(f) },
		map[string]retry.Verdict{"40P01": canRetry("sql_40P01"), "00000": abstains, "": abstains})
	checkMethod(t, "SQLErrorNumber", func(f func() int32) error { return saysSQLNumberError(f) },
		map[int32]retry.Verdict{1205: canRetry("mssql_1205"), 1: abstains})
	checkMethod(t, "ErrorCode", func(f func() string) error { return saysCodeError(f) },
		map[string]retry.Verdict{"Throttling": mayLimit("aws_Throttling"), "NoSuchKey": abstains})
	assertClassified(t, abstains, saysLabelError(func(string) bool { return false }))
	assertClassified(t, abstains, saysLabelError(func(string) bool { panic("method") }))
	assertClassified(t, abstains, saysLabelError(nil))
}

// azureError is azcore's way to refuse a retry: having the method is enough,
// and the pointer may be nil.
type azureError struct{ code string }

func (e *azureError) Error() string { return e.code }
func (e *azureError) NonRetriable() { panic("a marker is not called") }

func TestMethodNonRetriableIsAMarker(t *testing.T) {
	t.Parallel()
	assertClassified(t, wantFinal("permanent"), &azureError{})
	assertClassified(t, wantFinal("permanent"), (*azureError)(nil))
}

// TestMethodsAreAskedOnce counts calls, because a method may be slow, or return
// something else the next time.
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
// except Error, which would be ambiguous.
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
	for _, tt := range []struct {
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
		{"403 without hint", statusHintError{says(403), noHint}, wantFinal("http_403")},
		{"503 with panicking hint", statusHintError{says(503), nil}, mayRetry("http_503")},
		{"panicking status with hint", statusHintError{nil, hint}, hinted(mayLimit(""))},
	} {
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
	for _, tt := range []struct {
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
		{"timeout gives way to a cause", overTimeoutError{yes, syscall.ECONNREFUSED}, mayRetry("conn_refused")},
		{"timeout gives way to a cause beside another", overTimeoutError{yes, errors.Join(syscall.ECONNREFUSED, saysTimeoutError(yes))}, mayRetry("conn_refused")},
		{"no timeout outside leaves one inside", overTimeoutError{no, saysTimeoutError(yes)}, mayRetry("timeout")},

		// The SDKs of AWS say so of any end of a context.
		{"CanceledError around a cancellation", overCanceledError{yes, context.Canceled}, wantFinal("canceled")},
		{"CanceledError around nobody", overCanceledError{yes, errNobody}, wantFinal("canceled")},
		{"CanceledError around a deadline", overCanceledError{yes, context.DeadlineExceeded}, mayRetry("timeout")},
		{"CanceledError far around one", overCanceledError{yes, &url.Error{Err: context.DeadlineExceeded}}, mayRetry("timeout")},

		// The error of pgconn for a done context has SafeToRetry.
		{"SafeToRetry around a cancellation", overSafeError{yes, context.Canceled}, wantFinal("canceled")},
		{"SafeToRetry around a deadline", overSafeError{yes, context.DeadlineExceeded}, canRetry("unsent")},
		{"SafeToRetry proves more than an errno", overSafeError{yes, syscall.ECONNRESET}, canRetry("conn_reset")},
		{"not SafeToRetry proves nothing", overSafeError{no, syscall.ECONNREFUSED}, mayRetry("conn_refused")},

		// A known cause counts, whatever it is.
		{"ConnectionError around nobody", overConnectionError{yes, errNobody}, mayRetry("conn")},
		{"ConnectionError around nothing", overConnectionError{yes, nil}, mayRetry("conn")},
		{"no ConnectionError around nobody", overConnectionError{no, errNobody}, abstains},
		{"ConnectionError around a certificate", overConnectionError{yes, x509.UnknownAuthorityError{}}, wantFinal("tls_cert")},
		{"ConnectionError around a cancellation", overConnectionError{yes, context.Canceled}, wantFinal("canceled")},
		{"ConnectionError around a refusal", overConnectionError{yes, final}, wantFinal("permanent")},
		{"ConnectionError around an errno", overConnectionError{yes, syscall.ECONNREFUSED}, mayRetry("conn_refused")},
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
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assertClassified(t, tt.want, tt.err)
		})
	}
}

// Methods that look like conventions but are not.
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

// The errors below have one method each. They are functions, so that a nil one
// panics when its method is called, like a typed nil pointer, and so that
// comparing two of them panics too.
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

// The expected verdicts. After a "may" verdict the operation may have taken
// effect; after a "can" verdict it certainly did not.
var (
	wantFinal          = testkit.Final
	mayRetry, canRetry = testkit.MayRetry, testkit.CanRetry
	mayLimit, canLimit = testkit.MayLimit, testkit.CanLimit
)

// hinted adds the usual hint.
func hinted(v retry.Verdict) retry.Verdict {
	v.After = aWhile
	return v
}

// abstains is no opinion.
var abstains retry.Verdict

// markedUnknown is the opinion of a mark that says no more than "unknown".
var markedUnknown = retry.Verdict{Category: "unknown"}

// assertVerdict compares verdicts. NotApplied of a Final one has no meaning,
// because nothing follows.
func assertVerdict(t *testing.T, want, got retry.Verdict, about ...any) bool {
	t.Helper()
	if want.Class == retry.Final {
		got.NotApplied = want.NotApplied
	}
	return assert.Equal(t, want, got, about...)
}

// assertClassified checks the verdict of Classify about err: alone, wrapped,
// and joined with an unknown error.
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

// The errors below have a method and wrap a cause.

// overStatusError is the shape of the AWS SDK: the status outside, the name of
// the error within.
type overStatusError struct {
	saysHTTPStatusCodeError
	cause error
}

func (e overStatusError) Unwrap() error { return e.cause }

type overCanceledError struct {
	saysCanceledError
	cause error
}

func (e overCanceledError) Unwrap() error { return e.cause }

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
