package clientstest_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	"github.com/elastic/go-elasticsearch/v9/esapi"
	"github.com/go-resty/resty/v2"
	"github.com/google/go-github/v92/github"
	"github.com/imroc/req/v3"
	"github.com/minio/minio-go/v7"
	"github.com/openai/openai-go/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// server answers the nth request with the nth step. A test fails if there are
// more requests than steps, or fewer.
type server struct {
	*httptest.Server

	mu       sync.Mutex
	requests []request
}

// request is what arrived. Two that are the same are the same on the wire.
type request struct {
	Method, URI, Host, Body string
	Header, Trailer         http.Header
	ContentLength           int64
}

// step answers a request, whose body has been read.
type step func(w http.ResponseWriter, r *http.Request)

func serve(t *testing.T, steps ...step) *server {
	t.Helper()
	return serveWith(t, httptest.NewServer, steps...)
}

// serveWith takes httptest.NewServer or NewTLSServer.
func serveWith(t *testing.T, start func(http.Handler) *httptest.Server, steps ...step) *server {
	t.Helper()
	s := &server{}
	s.Server = start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := s.record(r)
		if err != nil {
			t.Errorf("the body of %s %s: %v", r.Method, r.RequestURI, err)
		}
		if n > len(steps) {
			t.Errorf("request %d of %d: %s %s", n, len(steps), r.Method, r.RequestURI)
			w.WriteHeader(http.StatusTeapot)
			return
		}
		steps[n-1](w, r)
	}))
	t.Cleanup(func() {
		s.Close()
		assert.Equal(t, len(steps), len(s.got()), "requests") //nolint:testifylint // Len would print them
	})
	return s
}

// record keeps a request and returns its number.
func (s *server) record(r *http.Request) (int, error) {
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request{
		r.Method, r.RequestURI, r.Host, string(body), r.Header.Clone(), r.Trailer.Clone(), r.ContentLength,
	})
	return len(s.requests), err
}

func (s *server) got() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// assertSame asserts that all requests were the same one.
func (s *server) assertSame(t *testing.T) {
	t.Helper()
	for _, r := range s.got() {
		assert.Equal(t, s.got()[0], r)
	}
}

// answer answers with headers given as key and value pairs.
func answer(status int, contentType, body string, keysAndValues ...string) step {
	return func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), pairs(keysAndValues))
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func pairs(keysAndValues []string) http.Header {
	h := http.Header{}
	for i := 0; i < len(keysAndValues); i += 2 {
		h.Set(keysAndValues[i], keysAndValues[i+1])
	}
	return h
}

// compressed answers like next, with gzip if the client takes it.
func compressed(next step) step {
	return func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			next(w, r)
			return
		}
		answer := httptest.NewRecorder()
		next(answer, r)
		maps.Copy(w.Header(), answer.Header())
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(answer.Code)
		z := gzip.NewWriter(w)
		_, _ = z.Write(answer.Body.Bytes())
		_ = z.Close()
	}
}

// truncated answers like next, but the connection ends amid the body.
func truncated(next step) step {
	return func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		next(answer, r)
		maps.Copy(w.Header(), answer.Header())
		w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// reset resets the connection before there is a response.
func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// hangUp closes the connection before there is a response.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// hang does something and answers when the client has gone.
func hang(do func()) step {
	return func(_ http.ResponseWriter, r *http.Request) {
		do()
		untilGone(r)
	}
}

// untilGone waits until the client has gone, or for so long that the test has
// failed.
func untilGone(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-time.After(10 * time.Second):
	}
}

const ms = time.Millisecond

// client is an SDK whose service is known: its answers and its errors.
type client struct {
	sdk

	// found and written answer a read and a write, with the result "hello".
	found, written step
	// failed is how the service reports an error.
	failed func(status int, keysAndValues ...string) step
	// reported returns what the client's own error type says.
	reported func(t *testing.T, err error) (status int, message string)
}

var clients = map[string]client{
	"go-github": {
		sdk:     sdkOf("go-github"),
		found:   answer(200, "application/json", `{"name": "hello"}`),
		written: answer(201, "application/json", `{"title": "hello"}`),
		failed:  failedWith(`{"message": "no luck"}`),
		reported: func(t *testing.T, err error) (int, string) {
			t.Helper()
			e := testkit.As[*github.ErrorResponse](t, err)
			return e.Response.StatusCode, e.Message
		},
	},
	"minio-go": {
		sdk:     sdkOf("minio-go"),
		found:   s3Object("hello"),
		written: s3Upload,
		failed:  s3Failed,
		reported: func(t *testing.T, err error) (int, string) {
			t.Helper()
			e := minio.ToErrorResponse(err)
			return e.StatusCode, e.Message
		},
	},
	"aws-sdk-go-v2": {
		sdk:     sdkOf("aws-sdk-go-v2"),
		found:   s3Object("hello"),
		written: s3Upload,
		failed:  s3Failed,
		reported: func(t *testing.T, err error) (int, string) {
			t.Helper()
			e := testkit.As[smithy.APIError](t, err)
			response := testkit.As[*awshttp.ResponseError](t, err)
			return response.HTTPStatusCode(), e.ErrorMessage()
		},
	},
	"openai-go": {
		sdk:     sdkOf("openai-go"),
		found:   answer(200, "application/json", `{"id": "hello", "object": "model"}`),
		written: completed,
		failed:  failedWith(`{"error": {"message": "no luck", "type": "server_error"}}`),
		reported: func(t *testing.T, err error) (int, string) {
			t.Helper()
			e := testkit.As[*openai.Error](t, err)
			return e.StatusCode, e.Message
		},
	},
	"anthropic-sdk-go": {
		sdk:     sdkOf("anthropic-sdk-go"),
		found:   answer(200, "application/json", `{"id": "hello", "type": "model"}`),
		written: answer(200, "application/json", `{"type": "message", "role": "assistant", "content": [{"type": "text", "text": "hello"}]}`),
		failed:  failedWith(`{"type": "error", "error": {"type": "api_error", "message": "no luck"}}`),
		reported: func(t *testing.T, err error) (int, string) {
			t.Helper()
			e := testkit.As[*anthropic.Error](t, err)
			if e.Type() != "api_error" {
				return e.StatusCode, e.RawJSON()
			}
			return e.StatusCode, "no luck" // the type is as far as the client reads
		},
	},
	"go-elasticsearch": {
		sdk:      sdkOf("go-elasticsearch"),
		found:    answer(200, "application/json", `{"_id": "hello", "found": true}`, "X-Elastic-Product", "Elasticsearch"),
		written:  answer(201, "application/json", `{"_id": "hello", "result": "created"}`, "X-Elastic-Product", "Elasticsearch"),
		failed:   plainFailed,
		reported: reportedPlain,
	},
	"resty": {sdkOf("resty"), plainFound, plainFound, plainFailed, reportedPlain},
	"req":   {sdkOf("req"), plainFound, plainFound, plainFailed, reportedPlain},
}

func failedWith(body string) func(status int, keysAndValues ...string) step {
	return func(status int, keysAndValues ...string) step {
		return answer(status, "application/json", body, keysAndValues...)
	}
}

var plainFound, plainFailed = answer(200, "application/json", `{"_id": "hello"}`), failedWith(`{"error": {"reason": "no luck"}}`)

// plainError is the failure of a client that has no error for a status of 400 or more.
type plainError struct {
	status  int
	message string
}

func (e plainError) Error() string { return fmt.Sprintf("%d: %s", e.status, e.message) }

func reportedPlain(t *testing.T, err error) (int, string) {
	t.Helper()
	e := testkit.As[plainError](t, err)
	return e.status, e.message
}

// plainAnswer returns what such a client got.
func plainAnswer(status int, body []byte) (string, error) {
	var got struct {
		ID    string `json:"_id"`
		Error struct{ Reason string }
	}
	if err := json.Unmarshal(body, &got); err != nil && status < 400 {
		return "", err
	}
	if status >= 400 {
		return "", plainError{status, got.Error.Reason}
	}
	return got.ID, nil
}

func elasticAnswer(resp *esapi.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	return plainAnswer(resp.StatusCode, body)
}

func restyAnswer(resp *resty.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return plainAnswer(resp.StatusCode(), resp.Body())
}

func reqAnswer(resp *req.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return plainAnswer(resp.StatusCode, resp.Bytes())
}

var question = openai.ChatCompletionNewParams{
	Model:    "gpt",
	Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi?")},
}

var completed = answer(200, "application/json",
	`{"id": "1", "object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}]}`)

var message = anthropic.MessageNewParams{
	Model:     "claude",
	MaxTokens: 10,
	Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi?"))},
}

// world is what the clients of one test share: a Transport and its time.
type world struct {
	http  *http.Client
	clock *retrytest.Clock
}

// newWorld returns a client that leads to a server, whatever the host is. Its waits cost
// nothing, and without jitter are 200ms, 400ms, …, but for those that a server asked for. It is
// changed by the options.
func newWorld(t *testing.T, s *server, options ...func(*retry.Policy)) world {
	t.Helper()
	return newWorldOver(leadingTo(t, s.Listener), options...)
}

func newWorldOver(base http.RoundTripper, options ...func(*retry.Policy)) world {
	clock := &retrytest.Clock{}
	policy := retryhttp.DefaultPolicy()
	policy.Clock, policy.Jitter = clock, retry.NoJitter
	for _, option := range options {
		option(policy)
	}
	return world{&http.Client{Transport: &retryhttp.Transport{Base: base, Policy: policy}}, clock}
}

// hinted asserts that the only wait was the one that the server asked for: no
// shorter, and at most a tenth longer.
func (w world) hinted(t *testing.T, asked time.Duration) {
	t.Helper()
	require.Len(t, w.clock.Sleeps(), 1)
	slept := w.clock.Sleeps()[0]
	if slept < asked || slept > asked+asked/10 {
		t.Errorf("the server asked for %v, the wait was %v", asked, slept)
	}
}
