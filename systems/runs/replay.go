package main

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// replay sends the request of a run, and compares the answer with the recorded
// one. What it returns as an error says by its class whether to try again.
func replay(ctx context.Context, r *request) (outcome, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return "", retry.MarkFinal(retryhttp.Redact(err))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", retryhttp.Redact(err)
	}
	defer resp.Body.Close()
	if v := retryhttp.ClassifyResponse(resp, r.Now()); v != (retry.Verdict{}) {
		return "", retry.Mark(errors.New(resp.Status), v)
	}
	if r.expected == nil {
		if _, err := io.Copy(io.Discard, resp.Body); err != nil { // it has to arrive whole
			return "", err
		}
		return needsReview, nil
	}
	// One byte more than the recorded answer tells a longer one from it, and no answer
	// can take more memory than the recorded one.
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(len(*r.expected))+1))
	switch {
	case err != nil:
		return "", err
	case *r.expected != string(body):
		return failed, nil
	default:
		return passed, nil
	}
}
