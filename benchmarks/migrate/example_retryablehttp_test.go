package migrate_test

import (
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

func beforeRetryableHTTP(base http.RoundTripper) *http.Client {
	client := retryablehttp.NewClient()
	client.HTTPClient.Transport = base
	client.Logger = nil
	client.RetryMax = 4
	client.RetryWaitMin = time.Second
	client.RetryWaitMax = 30 * time.Second
	return client.StandardClient()
}

func afterRetryableHTTP(base http.RoundTripper) *http.Client {
	return &http.Client{Transport: &retryhttp.Transport{
		Base: base,
		Policy: &retry.Policy{
			MaxAttempts: 5, // the first one counts
			Backoff:     retry.Exponential{Initial: time.Second},
			MaxDelay:    30 * time.Second,
			Jitter:      retry.NoJitter,
		},
	}}
}
