package httppeers

import (
	"net/http"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
)

func byFailsafe(base http.RoundTripper) http.RoundTripper {
	policy := failsafehttp.NewRetryPolicyBuilder(). //nolint:bodyclose // a builder of policies for responses
							WithMaxAttempts(attempts).WithDelay(wait).ReturnLastFailure().Build()
	return failsafehttp.NewRoundTripper(base, policy)
}
