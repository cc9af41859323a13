package httppeers

import (
	"context"
	"io"
	"net/http"
	"time"
)

// hand is what a careful engineer writes: it asks its context before every
// attempt and during every wait, drains and closes what it discards, and has the
// body anew from GetBody.
type hand struct{ base http.RoundTripper }

func byHand(base http.RoundTripper) http.RoundTripper { return hand{base} }

func (h hand) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	var timer *time.Timer
	for attempt := 1; ; attempt++ {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		default:
		}
		resp, err := h.base.RoundTrip(req)
		failed := err != nil || resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests
		if !failed || attempt == attempts || req.Body != nil && req.GetBody == nil {
			return resp, err
		}
		if err == nil {
			_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
			_ = resp.Body.Close()
		}
		if timer == nil {
			timer = time.NewTimer(wait)
		} else {
			timer.Reset(wait)
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		case <-timer.C:
		}
		if req.GetBody != nil {
			again := *req
			if again.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
			req = &again
		}
	}
}
