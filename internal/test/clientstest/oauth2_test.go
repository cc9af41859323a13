package clientstest_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// A Transport over the transport of oauth2 retries when the token endpoint is down. No
// request was sent then, so that a POST is repeated too.
func TestOAuth2TokenEndpoint(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		statuses []int // of the token endpoint
		requests int   // that come through
	}{
		"down for a moment": {[]int{503, 429, 200}, 1},
		"down":              {[]int{503, 502, 500}, 0},
		"refused":           {[]int{401}, 0},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			t.Run(name+", "+method, func(t *testing.T) {
				t.Parallel()
				var steps []step
				for _, status := range test.statuses {
					steps = append(steps, func(w http.ResponseWriter, _ *http.Request) {
						w.Header().Set("Content-Type", "application/json")
						w.WriteHeader(status)
						_, _ = io.WriteString(w, `{"access_token":"t","token_type":"Bearer"}`)
					})
				}
				tokens := serve(t, steps...)
				var served []step
				for range test.requests {
					served = append(served, func(w http.ResponseWriter, r *http.Request) {
						assert.Equal(t, "Bearer t", r.Header.Get("Authorization"))
						w.WriteHeader(http.StatusNoContent)
					})
				}
				api := serve(t, served...)
				config := clientcredentials.Config{
					ClientID: "id", ClientSecret: "s", TokenURL: tokens.URL, AuthStyle: oauth2.AuthStyleInParams,
				}
				client := &http.Client{Transport: &retryhttp.Transport{
					Base:   &oauth2.Transport{Source: config.TokenSource(context.WithoutCancel(t.Context()))},
					Policy: &retry.Policy{Backoff: retry.Constant(time.Millisecond)},
					Budget: retryhttp.NoBudget,
				}}
				req, err := http.NewRequestWithContext(t.Context(), method, api.URL, strings.NewReader("hello"))
				require.NoError(t, err)
				resp, err := client.Do(req)
				if test.requests == 0 {
					require.Error(t, err)
					return
				}
				require.NoError(t, err)
				assert.NoError(t, resp.Body.Close())
			})
		}
	}
}
