// Package retryvet has the mended code of docs/retryvet.md, so that it is compiled.
package retryvet_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

var (
	client = &http.Client{Transport: &retryhttp.Transport{}}
	policy = &retry.Policy{MaxAttempts: 5, Backoff: retry.Exponential{Initial: time.Second}, MaxDelay: time.Minute}
)

func call(context.Context) error { return nil }

func overflowByHand(attempt int) time.Duration {
	const base, limit = time.Second, time.Minute
	if attempt > 5 { // 32 s, the last power below the limit
		return limit
	}
	return base << attempt
}

func sleepByHand(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func lastSleepByHand(ctx context.Context, attempts int, d time.Duration) (err error) {
	for i := range attempts {
		if i > 0 {
			if waitErr := sleepByHand(ctx, d); waitErr != nil {
				return fmt.Errorf("%w, after: %w", waitErr, err)
			}
		}
		if err = call(ctx); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%d attempts: %w", attempts, err)
}

func deadCtxByHand(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return call(ctx)
}

func bodyByHand(req *http.Request) (err error) {
	if req.GetBody != nil {
		req.Body, err = req.GetBody()
	}
	return err
}

func leakByHand(resp *http.Response) {
	if resp != nil {
		_ = resp.Body.Close()
	}
}

func postWithKey(ctx context.Context, key, order string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://shop.example/orders", strings.NewReader(order))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Idempotency-Key", key)
	return client.Do(req)
}

// What the page shows of the library.
func Example() {
	ctx := context.Background()
	var p retry.Policy

	p = retry.Policy{Backoff: retry.Exponential{Initial: time.Second}, MaxDelay: time.Minute} //nolint:ineffassign // of the page

	err := policy.Execute(ctx, call)

	p = retry.Policy{MaxAttempts: 5, AttemptTimeout: 10 * time.Second, Timeout: time.Minute} //nolint:ineffassign // of the page

	client := &http.Client{Transport: &retryhttp.Transport{}}

	p = retry.Policy{NonIdempotent: true} //nolint:ineffassign // of the page

	p = retry.Policy{MaxAttempts: retry.Unlimited, MaxDelay: time.Minute} //nolint:ineffassign // of the page

	p = retry.Policy{Jitter: retry.FullJitter}

	fmt.Println(err, p.Validate(), client.Timeout)
	_ = []any{overflowByHand, lastSleepByHand, deadCtxByHand, bodyByHand, leakByHand, postWithKey}
	// Output: <nil> <nil> 0s
}

func ExampleCall() {
	ctx := context.Background()
	c := retry.Call{Policy: policy}
	defer c.Abort()
	for c.Next(ctx) {
		c.End(call(c.Context()))
	}
	fmt.Println(c.Err())
	// Output: <nil>
}
