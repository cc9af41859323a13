package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
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
	policy.Observer = &retry.Observer{Event: func(_ context.Context, e retry.Event) {
		fmt.Println(e.Attempt, e.Kind, e.Verdict.Category)
	}}
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

// What most programs need: a client, and a call of any other kind.
func Example_twoLines() {
	ctx := context.Background()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	url := server.URL
	send := func(context.Context, string) error { return retry.MarkFinal(errors.New("no such address")) }

	client := &http.Client{Transport: &retryhttp.Transport{}}
	resp, err := client.Get(url)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, retryhttp.Why(resp) != nil)

	policy := &retry.Policy{MaxAttempts: 5}
	err = policy.Execute(ctx, func(ctx context.Context) error { return send(ctx, "hello") })
	fmt.Println(err)
	// Output:
	// 404 true
	// no such address
}

// Several goroutines share the quota of an API, such as that of a language model. A Cooldown
// lets all requests through, each in its time.
func ExampleTransport_quota() {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) <= 15 { // the quota is used up
			w.Header().Set("X-Ratelimit-Remaining-Requests", "0")
			w.Header().Set("X-Ratelimit-Reset-Requests", "5ms")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	prompts := strings.Fields("what is the answer to life the universe and everything")
	var answers atomic.Int64
	use := func(resp *http.Response, err error) {
		if err == nil && resp.StatusCode == http.StatusOK && resp.Body.Close() == nil {
			answers.Add(1)
		}
	}

	client := &http.Client{Transport: &retryhttp.Transport{Cooldown: time.Minute, Policy: &retry.Policy{Timeout: 10 * time.Minute}}}
	var wg sync.WaitGroup
	for _, prompt := range prompts {
		wg.Go(func() { use(client.Post(server.URL, "text/plain", strings.NewReader(prompt))) })
	}
	wg.Wait()
	fmt.Println(answers.Load(), "answers")
	// Output: 10 answers
}

// The server asks to wait for an hour. The client comes back after half a minute.
func ExampleTransport_shorterHints() {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests == 1 {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	clock := &retrytest.Clock{}
	policy := &retry.Policy{Jitter: retry.NoJitter, Clock: clock}

	const longest = 30 * time.Second
	client := &http.Client{Transport: &retryhttp.Transport{
		Policy: policy,
		ClassifyResponse: func(resp *http.Response) retry.Verdict {
			if v := retryhttp.ClassifyResponse(resp, time.Now()); v.After > longest {
				v.After = longest
				return v
			}
			return retry.Verdict{} // as without this function
		},
	}}
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, "after", clock.Sleeps())
	// Output: 200 OK after [30s]
}

// troubled fails the first two requests for each path.
func troubled() *httptest.Server {
	failures := map[string]int{}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if failures[req.URL.Path]++; failures[req.URL.Path] <= 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
}

// A server fails each request twice, and the budget of the host has three retries.
func ExampleTransport_budget() {
	server := troubled()
	defer server.Close()

	client := &http.Client{Transport: &retryhttp.Transport{}}
	for _, path := range []string{"/a", "/b", "/c"} {
		resp, err := client.Get(server.URL + path)
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = resp.Body.Close()
		fmt.Println(path, resp.StatusCode, retryhttp.Attempts(resp), retryhttp.GaveUp(resp))
	}
	// Output:
	// /a 200 3 false
	// /b 503 2 true
	// /c 503 1 true
}

// Without a budget every request has its three attempts.
func ExampleNoBudget() {
	server := troubled()
	defer server.Close()

	client := &http.Client{Transport: &retryhttp.Transport{Budget: retryhttp.NoBudget}}
	for _, path := range []string{"/a", "/b"} {
		resp, err := client.Get(server.URL + path)
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = resp.Body.Close()
		fmt.Println(path, resp.StatusCode, retryhttp.Attempts(resp))
	}
	// Output:
	// /a 200 3
	// /b 200 3
}

// The response says why it is the last one.
func ExampleWhy() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/missing" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer server.Close()

	client := &http.Client{Transport: &retryhttp.Transport{}}
	for _, path := range []string{"/missing", "/pay"} {
		resp, err := client.Post(server.URL+path, "text/plain", strings.NewReader("x"))
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = resp.Body.Close()
		why, _, _ := strings.Cut(retryhttp.Why(resp).Error(), ": POST") // without the address
		fmt.Println(why)
	}
	// Output:
	// failed after 1 attempt (final: http_404)
	// failed after 1 attempt (it may have taken effect)
}

// A 404 is Final, unless it is known that the page will come.
func ExampleTransport_finalStatus() {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests < 2 {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()

	client := &http.Client{Transport: &retryhttp.Transport{
		ClassifyResponse: func(resp *http.Response) retry.Verdict {
			if resp.StatusCode == http.StatusNotFound { // not there yet
				return retry.Verdict{Class: retry.Retryable}
			}
			return retry.Verdict{} // as without this function
		},
	}}
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = resp.Body.Close()
	fmt.Println(resp.StatusCode, retryhttp.Attempts(resp), retryhttp.Why(resp))
	// Output: 200 2 <nil>
}
