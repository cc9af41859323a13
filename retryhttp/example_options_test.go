package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// A POST with an Idempotency-Key is retried like an idempotent request.
func ExampleTransport_idempotencyKey() {
	keys := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		if keys[key]++; keys[key] < 3 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer server.Close()

	client := &http.Client{Transport: &retryhttp.Transport{
		Policy:         &retry.Policy{Backoff: retry.Constant(time.Millisecond)},
		IdempotencyKey: retryhttp.RandomKey,
	}}
	resp, err := client.Post(server.URL, "text/plain", strings.NewReader("pay 10"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, "after", retryhttp.Attempts(resp), "attempts with", len(keys), "key")
	// Output: 200 OK after 3 attempts with 1 key
}

// A name that does not exist is Final, because it is usually misspelled. If names
// appear a moment late, let the Classifier retry them.
func ExampleTransport_namesThatAppearLate() {
	policy := retryhttp.DefaultPolicy()
	policy.Classifier = func(err error) retry.Verdict {
		var dns *net.DNSError
		if errors.As(err, &dns) && dns.IsNotFound {
			return retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: "dns_not_found"}
		}
		return retry.Verdict{}
	}
	policy.Overrides = map[string]retry.Override{"dns_not_found": {MaxAttempts: 2}}
	_ = &http.Client{Transport: &retryhttp.Transport{Policy: policy}}

	verdict := policy.Classify(&url.Error{Err: &net.DNSError{IsNotFound: true}})
	fmt.Println(verdict.Class, verdict.Category)
	// Output: retryable dns_not_found
}

// Each kind of response has its own limit, by its class or by its status.
func ExampleTransport_limitsByStatus() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()

	policy := &retry.Policy{Clock: &retrytest.Clock{}} // tests only: waits take no time

	policy.Overrides = map[string]retry.Override{
		"rate_limited": {MaxAttempts: 4, Backoff: retry.Constant(10 * time.Second)},
		"http_503":     {MaxAttempts: 1},
	}
	client := &http.Client{Transport: &retryhttp.Transport{Policy: policy}}
	for _, path := range []string{"/limited", "/busy"} {
		resp, err := client.Get(server.URL + path)
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = resp.Body.Close()
		fmt.Println(path, retryhttp.Attempts(resp))
	}
	// Output:
	// /limited 4
	// /busy 1
}

func ExampleClassify() {
	for _, err := range []error{
		&url.Error{Op: "Get", Err: io.EOF},
		&url.Error{Op: "Get", Err: http.ErrSchemeMismatch},
		errors.New("nobody knows"),
	} {
		fmt.Println(retryhttp.Classify(err).Class)
	}
	// Output:
	// retryable
	// final
	// unknown
}

func ExampleClassifyResponse() {
	resp := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"7"}}}
	verdict := retryhttp.ClassifyResponse(resp, time.Now())
	fmt.Println(verdict.Class, verdict.After, verdict.NotApplied)
	// Output: rate_limited 7s true
}

// A loop of your own around an http.Client: here the server asks for three hours, which
// is more than the policy allows. The error has what a later program needs to go on.
func ExampleClassifyResponse_loop() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "10800")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	req, err := http.NewRequest(http.MethodGet, server.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	policy := &retry.Policy{Classifier: retryhttp.Classify}
	err = policy.Execute(context.Background(), func(ctx context.Context) error {
		resp, err := http.DefaultClient.Do(req.WithContext(ctx))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode >= http.StatusBadRequest {
			return retry.Mark(errors.New(resp.Status), retryhttp.ClassifyResponse(resp, time.Now()))
		}
		return nil // read the body here
	})
	var gaveUp *retry.Error
	if errors.As(err, &gaveUp) {
		fmt.Println(gaveUp.Stop, gaveUp.RetryAfter, gaveUp.State.Failures)
	}
	// Output: retry_after 3h0m0s 1
}

func ExampleParseBodyHint() {
	fmt.Println(retryhttp.ParseBodyHint([]byte(`{"message": "You are being rate limited.", "retry_after": 64.57}`)))
	// Output: 1m4.57s true
}

func ExampleRedact() {
	err := &url.Error{Op: "Get", URL: "https://user:password@example.com/jobs?token=12345", Err: io.EOF}
	fmt.Println(retryhttp.Redact(err))
	// Output: Get "https://example.com/jobs?token=***": EOF
}

func ExampleProxyConnectError() {
	base := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		OnProxyConnectResponse: retryhttp.ProxyConnectError,
	}
	client := &http.Client{Transport: &retryhttp.Transport{Base: base}}
	client.CloseIdleConnections()
	// Output:
}

// The server cuts the connection, and the next attempt asks for the rest.
func ExampleDownload() {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		if requests++; requests == 1 {
			w.Header().Set("Content-Length", "12")
			_, _ = io.WriteString(w, "hello")
			return
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader("hello, world"))
	}))
	defer server.Close()

	req, err := http.NewRequest(http.MethodGet, server.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var file strings.Builder // usually an os.File
	n, err := retryhttp.Download(nil, nil, req, &file)
	fmt.Println(file.String(), n, requests, err)
	// Output: hello, world 12 2 <nil>
}
