package httppeers

import (
	"net/http"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

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
