package main

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

const maxAnswer = 1 << 20

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
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return "", err
	case r.expected == nil:
		return needsReview, nil
	case *r.expected != string(body):
		return failed, nil
	default:
		return passed, nil
	}
}
