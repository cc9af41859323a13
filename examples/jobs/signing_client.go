package jobs

import (
	"net/http"

	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// SigningClient returns a client that signs every attempt anew, because a signature
// contains a time.
func SigningClient(base http.RoundTripper, sign func(*http.Request) error) *http.Client {
	return &http.Client{Transport: &retryhttp.Transport{Base: base, Prepare: sign}}
}
