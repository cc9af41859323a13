package retryhttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// The server answers with status 200 and an error. Classify reads the body, restores it,
// and makes the Transport retry the request.
func ExampleTransport_classify() {
	answers := []string{`{"error": "busy"}`, `{"result": 42}`}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, answers[0])
		answers = answers[1:]
	}))
	defer server.Close()

	client := &http.Client{Transport: &retryhttp.Transport{
		ClassifyResponse: func(resp *http.Response) retry.Verdict {
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			resp.Body = io.NopCloser(bytes.NewReader(body))
			if err != nil || bytes.Contains(body, []byte(`"error"`)) {
				return retry.Verdict{Class: retry.Retryable, Category: "error_in_200"}
			}
			return retry.Verdict{}
		},
	}}
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Printf("%s after %d attempts\n", body, retryhttp.Attempts(resp))
	// Output: {"result": 42} after 2 attempts
}

// The server answers 202 Accepted until the result is there. That is not a failure, so
// it uses up no attempts; the Timeout limits the call.
func ExampleTransport_accepted() {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests < 6 {
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer server.Close()

	policy := retryhttp.DefaultPolicy()
	policy.Timeout = 10 * time.Minute
	policy.Overrides = map[string]retry.Override{"pending": {Backoff: retry.Constant(time.Millisecond)}}
	client := &http.Client{Transport: &retryhttp.Transport{
		Policy: policy,
		ClassifyResponse: func(resp *http.Response) retry.Verdict {
			if resp.StatusCode == http.StatusAccepted {
				return retry.Verdict{Class: retry.Pending}
			}
			return retry.Verdict{}
		},
	}}
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, "after", retryhttp.Attempts(resp), "attempts")
	// Output: 200 OK after 6 attempts
}

// A signature contains a time, so each attempt needs a signature of its own.
func ExampleTransport_prepare() {
	signed := 0
	sign := func(req *http.Request) error {
		signed++
		req.Header.Set("Signature", fmt.Sprintf("t=%d", signed)) // yours signs the request
		return nil
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		fmt.Println("got", req.Header["Signature"])
		if signed < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()

	client := &http.Client{Transport: &retryhttp.Transport{Prepare: sign}}
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output:
	// got [t=1]
	// got [t=2]
	// got [t=3]
	// 200 OK
}

// The last response is returned whatever its status is. GaveUp is true for a 503 after
// the last retry, and false for a 404, which is not retried.
func ExampleGaveUp() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/down" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()

	client := &http.Client{Transport: &retryhttp.Transport{}}
	for _, path := range []string{"/down", "/missing"} {
		resp, err := client.Get(server.URL + path)
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = resp.Body.Close()
		fmt.Println(resp.StatusCode, retryhttp.Attempts(resp), retryhttp.GaveUp(resp))
	}
	// Output:
	// 503 3 true
	// 404 1 false
}

// Do reads the body within the attempt: a body that breaks off is retried, and so is
// an error that the function marks.
func ExampleDo_errorIn200() {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch requests++; requests {
		case 1:
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, `{"result":`) // and no more
		case 2:
			fmt.Fprint(w, `{"error": "busy"}`)
		default:
			fmt.Fprint(w, `{"result": 42}`)
		}
	}))
	defer server.Close()

	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, server.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var answer struct {
		Result int
		Error  string
	}
	err = retryhttp.Do(nil, nil, req, func(resp *http.Response) error {
		answer.Error = "" // of an earlier attempt
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			return err
		}
		if answer.Error != "" {
			return retry.MarkRetryable(errors.New(answer.Error))
		}
		return nil
	})
	fmt.Println(answer.Result, err, "after", requests, "requests")
	// Output: 42 <nil> after 3 requests
}
