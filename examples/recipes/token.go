package recipes

import (
	"context"
	"net/http"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// Tokens has a token until it is refused.
type Tokens interface {
	Get(ctx context.Context) (string, error)
	Refused(header string) // forgets the token of this Authorization, and not a newer one
}

// Authorized returns a client that gets a new token after a 401, and sends the request once more.
func Authorized(tokens Tokens) *http.Client {
	return &http.Client{Transport: &retryhttp.Transport{
		Policy: &retry.Policy{Overrides: map[string]retry.Override{"http_401": {MaxAttempts: 2}}},
		Prepare: func(r *http.Request) error {
			token, err := tokens.Get(r.Context())
			r.Header.Set("Authorization", "Bearer "+token)
			return err
		},
		ClassifyResponse: func(resp *http.Response) retry.Verdict {
			if resp.StatusCode != http.StatusUnauthorized {
				return retry.Verdict{} // as without this function
			}
			tokens.Refused(resp.Request.Header.Get("Authorization"))
			return retry.Verdict{Class: retry.Retryable, NotApplied: true, Exact: true} // at once
		},
	}}
}
