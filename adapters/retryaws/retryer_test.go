package retryaws_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryaws"
)

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
	tests := []struct {
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
	}
	for _, tt := range tests {
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
