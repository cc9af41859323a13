package retryhttp_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// The recipe for streams, against a server that fails before and after the first delta.
func TestStream(t *testing.T) {
	t.Parallel()
	const (
		start      = `{"type": "message_start"}`
		hello      = `{"type": "content_block_delta", "delta": {"text": "Hello"}}`
		end        = `{"type": "message_stop"}`
		overloaded = `{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}`
		limited    = `{"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}`
		invalid    = `{"type": "error", "error": {"type": "invalid_request_error", "message": "no prompt"}}`
	)
	cut := func(data ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			events(data...)(w, req)
			panic(http.ErrAbortHandler)
		}
	}
	good := events(start, hello, end)
	for name, test := range map[string]struct {
		handlers []http.HandlerFunc
		requests int64
		shown    string
		want     string // the error
	}{
		"a whole stream":               {[]http.HandlerFunc{good}, 1, "Hello", ""},
		"overloaded, then not":         {[]http.HandlerFunc{events(start, overloaded), good}, 2, "Hello", ""},
		"overloaded by status":         {[]http.HandlerFunc{status(529), good}, 2, "Hello", ""},
		"limited, then not":            {[]http.HandlerFunc{events(limited), good}, 2, "Hello", ""},
		"always overloaded":            {[]http.HandlerFunc{events(start, overloaded)}, 3, "", "failed after 3 attempts: overloaded_error: Overloaded"},
		"a quota of tokens":            {[]http.HandlerFunc{status(429, "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "2ms"), good}, 2, "Hello", ""},
		"cut before the first delta":   {[]http.HandlerFunc{cut(start), good}, 2, "Hello", ""},
		"ended before the first delta": {[]http.HandlerFunc{events(start), good}, 2, "Hello", ""},
		"overloaded after a delta":     {[]http.HandlerFunc{events(start, hello, overloaded), good}, 1, "Hello", "overloaded_error: Overloaded"},
		"cut after a delta":            {[]http.HandlerFunc{cut(start, hello), good}, 1, "Hello", io.ErrUnexpectedEOF.Error()},
		"ended after a delta":          {[]http.HandlerFunc{events(start, hello), good}, 1, "Hello", io.ErrUnexpectedEOF.Error()},
		"a bad request":                {[]http.HandlerFunc{events(invalid), good}, 1, "", "invalid_request_error: no prompt"},
		"no JSON":                      {[]http.HandlerFunc{events(`{"type":`), good}, 1, "", "unexpected end of JSON input"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, test.handlers...)
			client := &http.Client{Transport: &retryhttp.Transport{
				Policy: atOnce(3), Cooldown: time.Minute, IdempotencyKey: retryhttp.RandomKey,
			}}
			var shown strings.Builder
			req := request(t, http.MethodPost, s.URL, strings.NewReader(`{"stream": true}`))
			err := retryhttp.Do(client, nil, req, func(resp *http.Response) error {
				return stream(resp.Body, func(delta string) { shown.WriteString(delta) })
			})
			if test.want == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, test.want)
			}
			assert.Equal(t, test.requests, s.requests.Load())
			assert.Equal(t, test.shown, shown.String())
		})
	}
}
