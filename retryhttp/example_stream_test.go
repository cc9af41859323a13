package retryhttp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// event is a server-sent event of a language model, in the form of Anthropic.
type event struct {
	Type  string
	Delta struct{ Text string }
	Error struct{ Type, Message string }
}

// stream passes on the text of a stream of events. A failure before the first delta may
// be retried. After it the reader has a part of the text, so every failure is Final.
func stream(body io.Reader, show func(delta string)) error {
	shown := false
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		if !ok {
			continue // the name of an event, a comment, an empty line
		}
		var e event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return retry.MarkFinal(err)
		}
		switch e.Type {
		case "content_block_delta":
			shown = true
			show(e.Delta.Text)
		case "message_stop":
			return nil
		case "error":
			return streamError(e, shown)
		}
	}
	err := lines.Err()
	if err == nil {
		err = io.ErrUnexpectedEOF // the stream ended without message_stop
	}
	if shown {
		err = retry.MarkFinal(err)
	}
	return err
}

// streamError is a failure that comes after the status 200, as an event.
func streamError(e event, shown bool) error {
	err := fmt.Errorf("%s: %s", e.Error.Type, e.Error.Message)
	switch {
	case shown:
		return retry.MarkFinal(err)
	case e.Error.Type == "overloaded_error", e.Error.Type == "api_error":
		return retry.MarkRetryable(err)
	case e.Error.Type == "rate_limit_error":
		return retry.MarkRateLimited(err, 0)
	default: // invalid_request_error and the like
		return retry.MarkFinal(err)
	}
}

// The stream of a language model is retried until the first delta, and never after it. The
// first answer refuses because of a quota of tokens, and the second one says in the stream
// that the server is overloaded.
func ExampleDo_stream() {
	answers := []http.HandlerFunc{
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Ratelimit-Remaining-Tokens", "0")
			w.Header().Set("X-Ratelimit-Reset-Tokens", "5ms")
			w.WriteHeader(http.StatusTooManyRequests)
		},
		events(`{"type": "message_start"}`, `{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}`),
		events(`{"type": "content_block_delta", "delta": {"text": "Hello, "}}`,
			`{"type": "content_block_delta", "delta": {"text": "world"}}`, `{"type": "message_stop"}`),
	}
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		requests++
		answers[requests-1](w, req)
	}))
	defer server.Close()
	ctx, prompt := context.Background(), `{"stream": true}`

	client := &http.Client{Transport: &retryhttp.Transport{
		Policy:         &retry.Policy{MaxAttempts: 5},
		Cooldown:       time.Minute,         // for all goroutines that share the quota
		IdempotencyKey: retryhttp.RandomKey, // a completion has no effect but its price
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader(prompt))
	if err != nil {
		fmt.Println(err)
		return
	}
	err = retryhttp.Do(client, nil, req, func(resp *http.Response) error {
		return stream(resp.Body, func(delta string) { fmt.Print(delta) })
	})
	fmt.Println("\n"+fmt.Sprint(requests), "requests:", err)
	// Output:
	// Hello, world
	// 3 requests: <nil>
}

// events answers with server-sent events.
func events(data ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, d := range data {
			fmt.Fprintf(w, "event: x\ndata: %s\n\n", d)
			_ = http.NewResponseController(w).Flush()
		}
	}
}
