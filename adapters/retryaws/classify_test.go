package retryaws_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryaws"
)

// answered is the error of the SDK for a response.
func answered(status int, code string, header http.Header) error {
	return &smithy.OperationError{ServiceID: "S", OperationName: "O", Err: &awshttp.ResponseError{
		RequestID: "id", ResponseError: &smithyhttp.ResponseError{
			Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status, Header: header}},
			Err:      &smithy.GenericAPIError{Code: code, Message: "no"},
		},
	}}
}

// unanswered is the error of the SDK for a request without a response.
func unanswered(err error) error {
	return &smithy.OperationError{ServiceID: "S", OperationName: "O", Err: &smithyhttp.RequestSendError{
		Err: &url.Error{Op: "Post", URL: "https://example.com", Err: err},
	}}
}

func broken(op string, err error) error {
	return unanswered(&net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, err)})
}

// skew is how the SDK says that the clock was wrong: its own type is not exported.
type skew struct{ error }

func (s skew) Unwrap() error        { return s.error }
func (s skew) RetryableError() bool { return true }

// failures are what an attempt may end with, by name.
func failures() map[string]error {
	all := map[string]error{
		"lookup failed":            unanswered(&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "server misbehaving", IsTemporary: true}}),
		"no such host":             unanswered(&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}),
		"dial: refused":            broken("dial", syscall.ECONNREFUSED),
		"dial: timeout":            broken("dial", syscall.ETIMEDOUT),
		"write: broken pipe":       broken("write", syscall.EPIPE),
		"read: reset":              broken("read", syscall.ECONNRESET),
		"read: no buffers":         broken("read", syscall.ENOBUFS),
		"read: interrupted":        broken("read", syscall.EINTR),
		"read: EOF":                unanswered(io.EOF),
		"certificate":              unanswered(x509.UnknownAuthorityError{}),
		"a timeout":                unanswered(context.DeadlineExceeded),
		"canceled":                 &aws.RequestCanceledError{Err: context.Canceled},
		"bad input":                &smithy.OperationError{Err: errors.New("missing field")},
		"answer cut":               &smithy.OperationError{Err: &smithy.DeserializationError{Err: io.ErrUnexpectedEOF}},
		"403 RequestTimeTooSkewed": answered(403, "RequestTimeTooSkewed", nil),
		"clock corrected":          skew{answered(403, "RequestTimeTooSkewed", nil)},
		"400 RequestTimeout":       answered(400, "RequestTimeout", nil),
		"503 SlowDown":             answered(503, "SlowDown", nil),
		"429 TooManyRequests":      answered(429, "TooManyRequests", nil),
	}
	for status := 300; status < 600; status++ {
		all[fmt.Sprint(status)] = answered(status, "Other", nil)
	}
	for code := range awsretry.DefaultThrottleErrorCodes {
		all["400 "+code] = answered(400, code, nil)
	}
	for code := range awsretry.DefaultRetryableErrorCodes {
		all["400 "+code] = answered(400, code, nil)
	}
	return all
}

// TestStandard compares with the SDK's own retryer. The differences are those of the
// package's comment.
func TestStandard(t *testing.T) {
	t.Parallel()
	ours, theirs := &retryaws.Retryer{}, awsretry.NewStandard()
	once := &retryaws.Retryer{Policy: &retry.Policy{NonIdempotent: true}}
	var more, fewer, again []string
	for name, err := range failures() {
		a, b := ours.IsErrorRetryable(err), theirs.IsErrorRetryable(err)
		switch {
		case a && !b:
			more = append(more, name)
		case b && !a:
			fewer = append(fewer, name)
		}
		if once.IsErrorRetryable(err) {
			again = append(again, name)
		}
	}
	list := func(names []string) string { slices.Sort(names); return strings.Join(names, ", ") }
	assert.Equal(t, "408, 420, 421, 425, 449, 509, 520, 521, 522, 523, 524, 529, 530, 598, 599, answer cut", list(more))
	assert.Equal(t, "certificate", list(fewer))

	refusals := slices.DeleteFunc(slices.Collect(maps.Keys(awsretry.DefaultThrottleErrorCodes)), func(code string) bool {
		return code == "TransactionInProgressException"
	})
	for i, code := range refusals {
		refusals[i] = "400 " + code
	}
	assert.Equal(t, list(append(refusals, "408", "420", "421", "425", "429", "429 TooManyRequests", "503 SlowDown",
		"clock corrected", "dial: refused", "dial: timeout", "lookup failed")), list(again))
}

// TestHints has a server that says when to come back, and a real client.
func TestHints(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status              int
		code, header, value string
		want                time.Duration
		proved              bool
	}{
		{503, "ServiceUnavailable", "Retry-After", "7", 7 * time.Second, true},
		{503, "SlowDown", "Retry-After", "7", 7 * time.Second, true},
		{503, "SlowDown", "X-Amz-Retry-After", "40", 40 * time.Millisecond, true},
		{500, "InternalError", "X-Amz-Retry-After", "40", 40 * time.Millisecond, false},
		{400, "ThrottlingException", "Retry-After", "7", 7 * time.Second, true},
		{400, "ThrottlingException", "x-amz-retry-after", "40", 40 * time.Millisecond, true},
		{429, "Other", "Retry-After", "7", 7 * time.Second, true},
		{503, "SlowDown", "X-Amz-Retry-After", "soon", 0, true},
		{503, "SlowDown", "X-Amz-Retry-After", "-1", 0, true},
		{503, "SlowDown", "X-Amz-Retry-After", "0", 0, true},
	} {
		name := fmt.Sprint(tt.status, " ", tt.code, " ", tt.header, ": ", tt.value)
		p := &retry.Policy{Backoff: retry.Constant(time.Millisecond), Jitter: retry.NoJitter}
		recorder := &delays{Retryer: &retryaws.Retryer{Policy: p}}
		client, calls := service(t, recorder, 1, tt.status, tt.code, tt.header, tt.value)
		_, err := client.GetCallerIdentity(t.Context(), nil)
		require.NoError(t, err, name)
		assert.EqualValues(t, 2, calls.Load(), name)
		require.Len(t, recorder.waits, 1, name)
		assert.GreaterOrEqual(t, recorder.waits[0], tt.want, name)
		assert.LessOrEqual(t, recorder.waits[0], tt.want+tt.want/10+time.Millisecond, name)

		p.NonIdempotent = true
		assert.Equal(t, tt.proved, (&retryaws.Retryer{Policy: p}).IsErrorRetryable(recorder.err), name)
	}
	far := answered(503, "SlowDown", http.Header{"X-Amz-Retry-After": {"9223372036854775807"}})
	_, err := (&retryaws.Retryer{}).RetryDelay(1, far)
	require.ErrorIs(t, err, retry.StopRetryAfter)
}

// delays notes the waits, and does not wait.
type delays struct {
	*retryaws.Retryer

	waits []time.Duration
	err   error
}

func (d *delays) RetryDelay(attempt int, err error) (time.Duration, error) {
	wait, stop := d.Retryer.RetryDelay(attempt, err)
	d.waits, d.err = append(d.waits, wait), err
	return min(wait, time.Millisecond), stop
}

// service is a real client of a server on loopback that fails at first, with headers.
func service(t testing.TB, r aws.Retryer, failures, status int, code string, header ...string) (client *sts.Client, calls *atomic.Int32) {
	t.Helper()
	calls = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/xml")
		if int(calls.Add(1)) <= failures {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			fmt.Fprintf(w, `<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>no</Message></Error></ErrorResponse>`, code)
			return
		}
		fmt.Fprint(w, `<GetCallerIdentityResponse><GetCallerIdentityResult><Account>7</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`)
	}))
	t.Cleanup(server.Close)
	return sts.New(sts.Options{
		BaseEndpoint: aws.String(server.URL), Region: "eu-central-1", Retryer: r,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "key", SecretAccessKey: "secret"}, nil
		}),
	}), calls
}

// waits is a Backoff that notes which retries it was asked about.
type waits struct{ retries []int }

func (w *waits) Delay(n int) time.Duration {
	w.retries = append(w.retries, n)
	return time.Millisecond
}

func TestRetryer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		failures int
		status   int
		code     string
		policy   retry.Policy
		calls    int
		retries  []int
	}{
		{"recovers", 2, 503, "ServiceUnavailable", retry.Policy{}, 3, []int{1, 2}},
		{"exhausted", 9, 503, "ServiceUnavailable", retry.Policy{}, 3, []int{1, 2}},
		{"more attempts", 9, 500, "Internal", retry.Policy{MaxAttempts: 5}, 5, []int{1, 2, 3, 4}},
		{"throttled", 1, 400, "ThrottlingException", retry.Policy{}, 2, []int{1}},
		{"final", 9, 400, "ValidationError", retry.Policy{}, 1, nil},
		{"not idempotent", 9, 503, "ServiceUnavailable", retry.Policy{NonIdempotent: true}, 1, nil},
		{"override", 9, 503, "ServiceUnavailable", retry.Policy{Overrides: map[string]retry.Override{"retryable": {MaxAttempts: 4}}}, 4, []int{1, 2, 3}},
		{"override of fewer", 9, 503, "ServiceUnavailable", retry.Policy{
			MaxAttempts: 4, Overrides: map[string]retry.Override{"retryable": {MaxAttempts: 2}},
		}, 2, []int{1}},
		{"classifier", 9, 503, "ServiceUnavailable", retry.Policy{Classifier: func(err error) retry.Verdict {
			if e := smithy.APIError(nil); errors.As(err, &e) && e.ErrorCode() == "ServiceUnavailable" {
				return retry.Verdict{Class: retry.Final}
			}
			return retry.Verdict{}
		}}, 1, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := &waits{}
			tt.policy.Backoff, tt.policy.MaxDelay = w, time.Second
			client, calls := service(t, &retryaws.Retryer{Policy: &tt.policy}, tt.failures, tt.status, tt.code)
			_, err := client.GetCallerIdentity(t.Context(), nil)
			assert.Equal(t, tt.calls > tt.failures, err == nil, err)
			assert.EqualValues(t, tt.calls, calls.Load())
			assert.Equal(t, tt.retries, w.retries)
		})
	}
}

// ledger is a Throttle that notes what it is asked.
type ledger struct{ deposits, withdrawals, most int }

func (l *ledger) Deposit(time.Time) { l.deposits++ }

func (l *ledger) TryWithdraw(time.Time) bool {
	l.withdrawals++
	return l.withdrawals <= l.most
}

// TestBudget counts: a success pays once, however late.
func TestBudget(t *testing.T) {
	t.Parallel()
	for failures, want := range []ledger{{1, 0, 9}, {1, 1, 9}, {1, 2, 9}, {0, 2, 9}, {0, 2, 1}} {
		budget := &ledger{most: want.most}
		p := &retry.Policy{Backoff: retry.Constant(0), Budget: budget}
		client, calls := service(t, &retryaws.Retryer{Policy: p}, failures, 503, "ServiceUnavailable")
		_, err := client.GetCallerIdentity(t.Context(), nil)
		assert.Equal(t, want, *budget, failures)
		if want.most == 1 {
			require.ErrorIs(t, err, retry.StopBudget)
			assert.EqualValues(t, 2, calls.Load())
		}
	}
}

// TestDeadline has a hint beyond the deadline of the context.
func TestDeadline(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{Classifier: func(error) retry.Verdict {
		return retry.Verdict{Class: retry.RateLimited, After: 2 * time.Minute}
	}, MaxRetryAfter: time.Hour}
	client, calls := service(t, &retryaws.Retryer{Policy: p}, 9, 503, "SlowDown")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := client.GetCallerIdentity(ctx, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.EqualValues(t, 1, calls.Load())

	p.MaxRetryAfter = time.Second
	_, err = client.GetCallerIdentity(t.Context(), nil)
	require.ErrorIs(t, err, retry.StopRetryAfter)

	// A NonIdempotent job around it comes again later, if nothing had an effect.
	var e *retry.Error
	p.Classifier = func(error) retry.Verdict {
		return retry.Verdict{Class: retry.RateLimited, After: 2 * time.Minute, NotApplied: true}
	}
	_, err = client.GetCallerIdentity(t.Context(), nil)
	require.ErrorAs(t, err, &e)
	assert.True(t, e.NotApplied)
	assert.True(t, (&retry.Policy{NonIdempotent: true}).Next(retry.State{}, err, time.Now()).Retry)
}

func TestMaxAttempts(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 3, (&retryaws.Retryer{}).MaxAttempts())
	assert.Zero(t, (&retryaws.Retryer{Policy: &retry.Policy{MaxAttempts: retry.Unlimited}}).MaxAttempts())
}

// TestNested counts requests: with GaveUp a policy around the client does not multiply.
func TestNested(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		classifier retry.Classifier
		want       int
	}{{nil, 9}, {retryaws.GaveUp, 3}} {
		inner := &retry.Policy{Backoff: retry.Constant(0)}
		client, calls := service(t, &retryaws.Retryer{Policy: inner}, 100, 503, "ServiceUnavailable")
		outer := &retry.Policy{Backoff: retry.Constant(0), Classifier: tt.classifier}
		require.Error(t, outer.Execute(t.Context(), func(ctx context.Context) error {
			_, err := client.GetCallerIdentity(ctx, nil)
			return err
		}))
		assert.EqualValues(t, tt.want, calls.Load())
	}
	assert.Zero(t, retryaws.GaveUp(errors.New("other")))
}
