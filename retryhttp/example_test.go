package retryhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

func ExampleTransport() {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()

	client := &http.Client{Transport: &retryhttp.Transport{}}
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, "after", requests, "requests")
	// Output: 200 OK after 3 requests
}

func ExampleDefaultPolicy() {
	policy := retryhttp.DefaultPolicy()
	policy.MaxAttempts = 5
	policy.AttemptTimeout = 10 * time.Second
	policy.Observer = retry.ObserverFunc(func(_ context.Context, e retry.Event) {
		fmt.Println(e.Attempt, e.Kind, e.Verdict.Category)
	})
	client := &http.Client{Transport: &retryhttp.Transport{Policy: policy}}
	fmt.Println(policy)
	client.CloseIdleConnections()
	// Output: 5 attempts, 200ms ×2 ≤10s, full jitter: waits 0–200ms, 0–400ms, 0–800ms, 0–1.6s; attempt timeout 10s
}

func ExampleParseHint() {
	header := http.Header{
		"Date":        {"Fri, 20 Nov 2026 12:00:00 GMT"},
		"Retry-After": {"Fri, 20 Nov 2026 12:00:30 GMT"},
	}
	// The clock of the server counts, not the client's.
	fmt.Println(retryhttp.ParseHint(http.StatusTooManyRequests, header, time.Now()))
	// Output: 30s true
}
