package behaviour_test

import (
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

const httpIntro = "Requests through each library as a client; the server is a `RoundTripper` within a bubble, and a real one where connections are counted. " +
	"The retryer of aws-sdk needs the stack of an operation and takes no plain request."

// httpPolicy is what a probe of HTTP asks for.
type httpPolicy struct {
	attempts int           // calls in all
	first    time.Duration // the first wait, doubled after each failure, without jitter
	limit    time.Duration // the longest
	timeout  time.Duration // of an attempt; 0: none
	buffer   bool          // request bodies may be kept in memory
}

type sender func(*http.Request) (*http.Response, error)

// httpContestant is a library for HTTP requests.
type httpContestant struct {
	name, module, setup string
	client              func(http.RoundTripper, httpPolicy) sender
	// signed is a client that calls a function before each retry, and maybe before the
	// first attempt, where there is a hook for it.
	signed func(http.RoundTripper, func(*http.Request)) sender
	// reading is a client that has a function read the response within the attempt.
	reading func(base http.RoundTripper, p httpPolicy, read func(*http.Response) error) func(*http.Request) error
	// broken is a client with a circuit breaker that opens after 3 failures.
	broken func(http.RoundTripper) sender
}

var httpContestants = []*httpContestant{
	{
		name:   "retryhttp",
		module: "github.com/seed-5ff3c98e/retry",
		setup:  "`http.Client` with a `Transport`, whose `Policy` has `Exponential` and `NoJitter`",
		client: func(base http.RoundTripper, p httpPolicy) sender {
			return ourClient(base, p).Do
		},
		reading: func(base http.RoundTripper, p httpPolicy, read func(*http.Response) error) func(*http.Request) error {
			client := ourClient(base, p)
			return func(req *http.Request) error { return retryhttp.Do(client, nil, req, read) }
		},
		signed: func(base http.RoundTripper, sign func(*http.Request)) sender {
			client := &http.Client{Transport: &retryhttp.Transport{
				Base: base, Prepare: func(req *http.Request) error { sign(req); return nil },
			}}
			return client.Do
		},
	},
	{
		name: "retryablehttp",
		signed: func(base http.RoundTripper, sign func(*http.Request)) sender {
			client := retryableClient(base, usual)
			client.PrepareRetry = func(req *http.Request) error { sign(req); return nil }
			return retryableSender(client)
		},
		module: "github.com/hashicorp/go-retryablehttp",
		setup:  "`NewClient` without a logger, with `RetryMax`, `RetryWaitMin`, `RetryWaitMax`, `PassthroughErrorHandler`, and `HTTPClient.Timeout` where attempts have one",
		reading: func(base http.RoundTripper, p httpPolicy, read func(*http.Response) error) func(*http.Request) error {
			client := retryableClient(base, p)
			return func(req *http.Request) error {
				own, err := retryablehttp.FromRequest(req)
				if err != nil {
					return err
				}
				own.SetResponseHandler(read)
				_, err = client.Do(own)
				return err
			}
		},
		client: func(base http.RoundTripper, p httpPolicy) sender {
			client := retryableClient(base, p)
			client.ErrorHandler = retryablehttp.PassthroughErrorHandler
			return retryableSender(client)
		},
	},
	{
		name: "failsafehttp",
		broken: func(base http.RoundTripper) sender {
			breaker := circuitbreaker.NewBuilder[*http.Response]().
				HandleIf(func(r *http.Response, err error) bool { return err != nil || r.StatusCode >= 500 }).
				WithFailureThreshold(3).Build()
			return (&http.Client{Transport: failsafehttp.NewRoundTripper(base, breaker)}).Do
		},
		module: "github.com/failsafe-go/failsafe-go",
		setup:  "`http.Client` with `failsafehttp.NewRoundTripper` and `NewRetryPolicyBuilder` with `WithMaxAttempts`, `WithBackoff`, `ReturnLastFailure`, and a `timeout` policy where attempts have one",
		client: func(base http.RoundTripper, p httpPolicy) sender {
			policies := []failsafe.Policy[*http.Response]{
				failsafehttp.NewRetryPolicyBuilder().WithMaxAttempts(p.attempts).WithBackoff(p.first, p.limit).ReturnLastFailure().Build(),
			}
			if p.timeout > 0 {
				policies = append(policies, timeout.New[*http.Response](p.timeout))
			}
			client := &http.Client{Transport: failsafehttp.NewRoundTripper(base, policies...)}
			return client.Do
		},
	},
}

func ourClient(base http.RoundTripper, p httpPolicy) *http.Client {
	return &http.Client{Transport: &retryhttp.Transport{Base: base, BufferBody: choose[int64](p.buffer, 1<<20, 0), Policy: &retry.Policy{
		MaxAttempts:    p.attempts,
		Backoff:        retry.Exponential{Initial: p.first},
		MaxDelay:       p.limit,
		Jitter:         retry.NoJitter,
		AttemptTimeout: p.timeout,
	}}}
}

func retryableClient(base http.RoundTripper, p httpPolicy) *retryablehttp.Client {
	client := retryablehttp.NewClient()
	client.HTTPClient, client.Logger = &http.Client{Transport: base, Timeout: p.timeout}, nil
	client.RetryMax, client.RetryWaitMin, client.RetryWaitMax = p.attempts-1, p.first, p.limit
	return client
}

func retryableSender(client *retryablehttp.Client) sender {
	return func(req *http.Request) (*http.Response, error) {
		own, err := retryablehttp.FromRequest(req)
		if err != nil {
			return nil, err
		}
		return client.Do(own)
	}
}
