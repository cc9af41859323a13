package retryhttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

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
