package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// Answer gets the result from a server that answers {"result": …} or, with the same
// status of 200, {"error": …}. Only that error and the failures that a Transport
// retries are retried.
func Answer(ctx context.Context, client *http.Client, url string) (string, error) {
	var answer struct{ Result, Error string }
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	err = retryhttp.Do(client, nil, req, func(resp *http.Response) error {
		answer.Error = ""
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Error == "" {
			return err
		}
		return retry.MarkRetryable(errors.New(answer.Error))
	})
	return answer.Result, err
}
