package jobs

import (
	"net/http"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// HTTPClient returns a client whose calls take no longer than ten seconds: attempts,
// waits, and the reading of the response. base makes the attempts; nil is
// http.DefaultTransport.
func HTTPClient(base http.RoundTripper) *http.Client {
	policy := &retry.Policy{Timeout: 10 * time.Second}
	return &http.Client{Transport: &retryhttp.Transport{Base: base, Policy: policy}}
}
