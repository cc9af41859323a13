package recipes

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retryquota"
)

// Hook is a call that a customer is waiting for.
type Hook struct {
	ID, Customer, URL string
	Body              []byte
}

// Deliver calls a webhook. A rate limit of one customer holds the hooks of that customer alone. What cannot be
// delivered is given to dead; if ctx ends, the error is returned, and the hook may come again.
func Deliver(ctx context.Context, client *http.Client, quotas *retryquota.Keys[string], hook Hook, dead func(Hook, error) error) error {
	policy := &retry.Policy{MaxAttempts: 8, MaxRetryAfter: time.Hour, Quota: quotas.Of(hook.Customer)}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, hook.URL, bytes.NewReader(hook.Body))
	if err != nil {
		return dead(hook, err)
	}
	req.Header.Set("Idempotency-Key", hook.ID) // also after a restart
	err = retryhttp.Do(client, policy, req, func(*http.Response) error { return nil })
	if err == nil || errors.Is(err, retry.StopCanceled) || errors.Is(err, retry.StopDeadline) {
		return err
	}
	return dead(hook, err)
}
