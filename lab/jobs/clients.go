package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/seed-5ff3c98e/retry/examples/jobs"
	"github.com/seed-5ff3c98e/retry/examples/jobs/jobstest"
)

func failsafeRetry(ctx context.Context, op jobstest.Op) error {
	policy := retrypolicy.NewBuilder[any]().WithBackoff(time.Second, 30*time.Second).Build()
	return failsafe.With(policy).WithContext(ctx).Run(func() error { return op(ctx) })
}

//nolint:bodyclose // there is no response here
func failsafeHTTPClient(base http.RoundTripper) *http.Client {
	policy := failsafehttp.NewRetryPolicyBuilder().WithBackoff(time.Second, 30*time.Second).Build()
	return &http.Client{Timeout: 10 * time.Second, Transport: failsafehttp.NewRoundTripper(base, policy)}
}

func failsafeExactDelay(ctx context.Context, op jobstest.Op) error {
	policy := retrypolicy.NewBuilder[any]().WithDelayFunc(func(e failsafe.ExecutionAttempt[any]) time.Duration {
		busy := &jobs.BusyError{}
		_ = errors.As(e.LastError(), &busy)
		return busy.Wait
	}).Build()
	return failsafe.With(policy).WithContext(ctx).Run(func() error { return op(ctx) })
}

func failsafeNested(ctx context.Context, op jobstest.Op) error {
	inner := retrypolicy.NewBuilder[any]().WithBackoff(time.Second, 30*time.Second).Build()
	outer := retrypolicy.NewBuilder[any]().WithBackoff(time.Second, 30*time.Second).
		AbortOnErrors(retrypolicy.ErrExceeded).Build()
	return failsafe.With(outer, inner).WithContext(ctx).Run(func() error { return op(ctx) })
}

func retryablehttpHTTPClient(base http.RoundTripper) *http.Client {
	client := retryablehttp.NewClient()
	client.HTTPClient.Transport, client.Logger = base, nil
	standard := client.StandardClient()
	standard.Timeout = 10 * time.Second
	return standard
}

func retryablehttpAnswer(ctx context.Context, client *http.Client, url string) (string, error) {
	var answer struct{ Result, Error string }
	retrying := retryablehttp.NewClient()
	retrying.HTTPClient, retrying.Logger = client, nil
	retrying.CheckRetry = func(ctx context.Context, resp *http.Response, err error) (bool, error) {
		if err != nil || resp.StatusCode >= 400 {
			return retryablehttp.DefaultRetryPolicy(ctx, resp, err)
		}
		answer.Error = ""
		err = json.NewDecoder(resp.Body).Decode(&answer)
		return answer.Error != "", err
	}
	req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := retrying.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 400 {
		return "", errors.New(resp.Status)
	}
	return answer.Result, nil
}

type retryablehttpSigningClientTransport struct {
	base http.RoundTripper
	sign func(*http.Request) error
}

func (t retryablehttpSigningClientTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	if err := t.sign(req); err != nil {
		return nil, err
	}
	return t.base.RoundTrip(req)
}

func retryablehttpSigningClient(base http.RoundTripper, sign func(*http.Request) error) *http.Client {
	client := retryablehttp.NewClient()
	client.HTTPClient.Transport, client.Logger = retryablehttpSigningClientTransport{base, sign}, nil
	return client.StandardClient()
}
