package httppeers

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"
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
	// Name is that of the benchmarks: by=Name.
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
