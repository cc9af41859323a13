package retryhttp_test

import (
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
