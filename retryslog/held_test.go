package retryslog_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryslog"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// A hold of a Quota is one line, whatever the number of calls that it holds.
func TestHeld(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "elapsed" {
			return slog.Attr{}
		}
		return a
	}}))
	recorder, clock := &retrytest.Recorder{}, new(retrytest.Clock)
	p := &retry.Policy{
		Name: "prompt", Quota: &retry.Quota{}, Clock: clock, MaxAttempts: 1,
		Observer: retry.Observers(retryslog.New(logger, &retryslog.Options{GaveUp: retryslog.Off}), recorder),
	}
	for range 3 {
		_ = p.Execute(t.Context(), func(context.Context) error {
			return retry.MarkRateLimited(errors.New("too many"), 30*time.Second)
		})
		clock.Advance(time.Second)
	}
	assert.Contains(t, out.String(), "level=WARN msg=held policy=prompt attempt=1 delay=30s class=rate_limited")
	assert.Contains(t, recorder.Timeline(), "1: too many: all are held for 30s")
}
