package retryhttp_test

import (
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

	client := &http.Client{Transport: &retryhttp.Transport{Cooldown: time.Minute}, Timeout: 10 * time.Minute}
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
