// Package httppeers compares what retrying costs an HTTP client: by hand, with
// retryhttp, and with the libraries that do it.
//
// Layer benchmarks have a stub under the real http.Transport, so that there is
// nothing else to see; those over loopback have a server and are what a caller
// gets. Every call is the one a user makes: Do of an http.Client whose Transport
// retries, or of the library's own client. A request is prepared once where the
// API lets it be sent again.
//
// All of them make at most three attempts, retry whatever the method, and wait
// for 1ns on a real timer: this is as short as all of them can do alike.
// same_test.go proves that they send the same and get the same. What is left is in
// the [Peer.Note] of a contestant.
package httppeers

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// What all contestants do.
const (
	attempts = 3
	wait     = time.Nanosecond
)

// Call sends one request, retries included.
type Call func() (*http.Response, error)

// Peer is a contestant.
type Peer struct {
	// Name is the name in the benchmarks: by=Name.
	Name string

	// Note says where its API forces a difference that the figures show.
	Note string

	// Leaks is how many bodies of discarded responses a call leaves open that
	// has two of them.
	Leaks int

	// Prepare returns a Call on top of base. A nil body means none.
	Prepare func(ctx context.Context, base http.RoundTripper, method, url string, body []byte) (Call, error)
}

// Peers returns the contestants.
func Peers() []Peer {
	return []Peer{
		{Name: "hand", Prepare: transport(byHand)},
		{Name: "retry", Prepare: transport(byRetry)},
		{
			Name:    "retryablehttp",
			Note:    "its own client and request type",
			Prepare: prepareRetryable,
		},
		{
			Name:    "retryablehttp-rt",
			Note:    "its StandardClient: two http.Clients, and a body is read into memory for every call",
			Prepare: prepareRetryableStandard,
		},
		{
			Name:    "failsafehttp",
			Note:    "leaves the responses it retries open, and reads a body into memory for every call",
			Leaks:   2,
			Prepare: transport(byFailsafe),
		},
	}
}

// transport prepares the calls of an http.Client whose Transport is the
// contestant.
func transport(
	wrap func(http.RoundTripper) http.RoundTripper,
) func(context.Context, http.RoundTripper, string, string, []byte) (Call, error) {
	return func(ctx context.Context, base http.RoundTripper, method, url string, body []byte) (Call, error) {
		return prepare(ctx, &http.Client{Transport: wrap(base)}, method, url, body)
	}
}

// prepare returns the calls of a client. Those that have a body need a request
// each, of which they share the rest.
func prepare(ctx context.Context, client *http.Client, method, url string, body []byte) (Call, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	if body == nil {
		return func() (*http.Response, error) { return client.Do(req) }, nil
	}
	allowRetries(req.Header)
	req.ContentLength = int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return func() (*http.Response, error) {
		again := *req
		again.Body, _ = req.GetBody() // cannot fail
		return client.Do(&again)
	}, nil
}

// allowRetries says that a POST may be repeated, as it must be for retryhttp; the
// others do not ask. net/http takes an empty list for that too, and does not send it.
func allowRetries(h http.Header) { h["Idempotency-Key"] = []string{} }

// hand is what a careful engineer writes: it asks its context before every
// attempt and during every wait, drains and closes what it discards, and has the
// body anew from GetBody.
type hand struct{ base http.RoundTripper }

func byHand(base http.RoundTripper) http.RoundTripper { return hand{base} }

func (h hand) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	var timer *time.Timer
	for attempt := 1; ; attempt++ {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		default:
		}
		resp, err := h.base.RoundTrip(req)
		failed := err != nil || resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests
		if !failed || attempt == attempts || req.Body != nil && req.GetBody == nil {
			return resp, err
		}
		if err == nil {
			_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
			_ = resp.Body.Close()
		}
		if timer == nil {
			timer = time.NewTimer(wait)
		} else {
			timer.Reset(wait)
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		case <-timer.C:
		}
		if req.GetBody != nil {
			again := *req
			if again.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
			req = &again
		}
	}
}

// byRetry has no budget, as the others have none: two failures for every success
// are more than it would pay for.
func byRetry(base http.RoundTripper) http.RoundTripper {
	return &retryhttp.Transport{
		Base: base,
		Policy: &retry.Policy{
			MaxAttempts: attempts,
			Backoff:     retry.Constant(wait),
			Jitter:      retry.NoJitter,
		},
		Budget: retryhttp.NoBudget,
	}
}

// retryable returns a client that logs nothing, and hands out the last response as
// the others do.
func retryable(base http.RoundTripper) *retryablehttp.Client {
	return &retryablehttp.Client{
		HTTPClient:   &http.Client{Transport: base},
		RetryMax:     attempts - 1,
		RetryWaitMin: wait,
		RetryWaitMax: wait,
		CheckRetry:   retryablehttp.DefaultRetryPolicy,
		Backoff:      retryablehttp.DefaultBackoff,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
}

// prepareRetryable gives it the body as bytes, which is how it has the least to do.
func prepareRetryable(
	ctx context.Context, base http.RoundTripper, method, url string, body []byte,
) (Call, error) {
	var raw any // a nil []byte would be a body
	if body != nil {
		raw = body
	}
	req, err := retryablehttp.NewRequestWithContext(ctx, method, url, raw)
	if err != nil {
		return nil, err
	}
	client := retryable(base)
	if body == nil {
		return func() (*http.Response, error) { return client.Do(req) }, nil
	}
	allowRetries(req.Header)
	return func() (*http.Response, error) { return client.Do(req.WithContext(ctx)) }, nil
}

func prepareRetryableStandard(
	ctx context.Context, base http.RoundTripper, method, url string, body []byte,
) (Call, error) {
	return prepare(ctx, retryable(base).StandardClient(), method, url, body)
}

func byFailsafe(base http.RoundTripper) http.RoundTripper {
	policy := failsafehttp.NewRetryPolicyBuilder(). //nolint:bodyclose // a builder of policies for responses
							WithMaxAttempts(attempts).WithDelay(wait).ReturnLastFailure().Build()
	return failsafehttp.NewRoundTripper(base, policy)
}
