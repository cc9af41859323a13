package retryhttp_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// TestInsideOfAJob checks that a call that gave up ends a call around it, and counts to a job as
// the response that it gave up.
func TestInsideOfAJob(t *testing.T) {
	t.Parallel()
	transport := &retryhttp.Transport{Policy: &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}, Budget: retryhttp.NoBudget}
	wrapped := roundTripper(transport.RoundTrip) // as by a tracer: Do does not see it
	for name, client := range map[string]*http.Client{"Do": {}, "Transport": {Transport: transport}, "wrapped": {Transport: wrapped}} {
		for code, again := range map[int]bool{503: true, 404: false} {
			s := serve(t, status(code))
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, http.NoBody)
			assert.NoError(t, err)
			err = retryhttp.Do(client, &retry.Policy{MaxAttempts: 1}, req, func(*http.Response) error { return nil })
			assert.Equal(t, retry.Final, retry.Classify(err).Class, name)
			d := new(retry.Policy).Next(retry.State{}, err, time.Now())
			assert.Equal(t, again, d.Retry, "%s: %v", name, err)
			if again {
				assert.Equal(t, retry.Verdict{Class: retry.Retryable, Category: "http_503"}, d.Verdict, name)
			}
			assert.ErrorContains(t, err, s.URL)
		}
	}
}
