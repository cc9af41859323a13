package httppeers

import (
	"context"
	"net/http"

	"github.com/hashicorp/go-retryablehttp"
)

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
