package retryhttp_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// answered is an error with a status and a hint, which the root package knows.
type answered struct {
	status int
	after  time.Duration
}

func (answered) Error() string               { return "answered" }
func (a answered) HTTPStatusCode() int       { return a.status }
func (a answered) RetryAfter() time.Duration { return a.after }

// ofStatus is the verdict of the root package, whose tests have every status of a failure, and
// what a response adds: successes, statuses that are none, and a conflict of a request with a key.
func ofStatus(status int, hinted, keyed bool) retry.Verdict {
	if status < 100 || status > 599 {
		return final("http_invalid")
	}
	if status < 400 {
		return retry.Verdict{}
	}
	hint := time.Duration(0)
	if hinted {
		hint = 7 * time.Second
	}
	v := retry.Classify(answered{status, hint})
	if keyed && status == http.StatusConflict {
		v.Class, v.After = retry.Retryable, hint
	}
	v.NotApplied = v.NotApplied && v.Class != retry.Final
	return v
}

// Every status, without and with a hint and a key.
func TestClassifyResponse(t *testing.T) {
	t.Parallel()
	for status := range 1001 {
		for _, hinted := range []bool{false, true} {
			for _, key := range []string{"", "Idempotency-Key", "X-Idempotency-Key"} {
				resp := &http.Response{StatusCode: status, Header: http.Header{}, Request: &http.Request{Header: http.Header{}}}
				if hinted {
					resp.Header.Set("Retry-After", "7")
				}
				if key != "" {
					resp.Request.Header.Set(key, "1")
				}
				want := ofStatus(status, hinted, key != "")
				got := retryhttp.ClassifyResponse(resp, noon)
				if got != want {
					assert.Equal(t, want, got, "status %d, hinted %v, key %q", status, hinted, key)
				}
			}
		}
	}
	assert.Equal(t, final("http_invalid"), retryhttp.ClassifyResponse(&http.Response{StatusCode: -1}, noon))
	assert.Equal(t, again("http_500"), retryhttp.ClassifyResponse(&http.Response{StatusCode: http.StatusInternalServerError}, noon),
		"without headers and a request")
}

// The headers of the server besides the status.
func TestClassifyResponseByHeader(t *testing.T) {
	t.Parallel()
	limited := func(status int, after time.Duration) retry.Verdict {
		return retry.Verdict{
			Class: retry.RateLimited, NotApplied: true, After: after, Category: fmt.Sprint("http_", status),
		}
	}
	for status := range 1001 {
		if status >= 100 && status < 400 {
			continue
		}
		plain, hinted := ofStatus(status, false, false), ofStatus(status, true, false)
		no := plain
		no.Class, no.After = retry.Final, 0
		tests := []struct {
			header []string
			want   retry.Verdict
		}{
			{[]string{"X-Should-Retry", "false"}, no},
			{[]string{"Stripe-Should-Retry", "false"}, no},
			{[]string{"X-Should-Retry", "true"}, plain}, // needs TrustShouldRetry
			{[]string{"Stripe-Should-Retry", "true"}, plain},
			{[]string{"X-Should-Retry", "maybe"}, plain},
			{[]string{"X-Should-Retry", "false", "Retry-After", "7"}, no},
			{[]string{"X-Should-Retry", "true", "Retry-After", "7"}, hinted},
			{[]string{"X-RateLimit-Remaining", "1"}, plain},
			{[]string{"Retry-After", "soon"}, plain},
		}
		if status >= 100 && status <= 599 {
			tests = append(tests, []struct {
				header []string
				want   retry.Verdict
			}{
				{[]string{"X-Envoy-Ratelimited", "true"}, limited(status, 0)},
				{[]string{"X-Envoy-Ratelimited", ""}, limited(status, 0)},
				{[]string{"X-Envoy-Ratelimited", "true", "X-Should-Retry", "false"}, no},
			}...)
		}
		if status == http.StatusForbidden {
			tests = append(tests, []struct {
				header []string
				want   retry.Verdict
			}{
				{[]string{"X-RateLimit-Remaining", "0"}, limited(403, 0)},
				{[]string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "30"}, limited(403, 30*time.Second)},
				{[]string{"X-RateLimit-Remaining", "1", "X-RateLimit-Reset", "30"}, plain},
				{[]string{"X-RateLimit-Reset", "30"}, plain},
			}...)
		} else {
			tests = append(tests, struct {
				header []string
				want   retry.Verdict
			}{[]string{"X-RateLimit-Remaining", "0"}, plain})
		}
		for _, test := range tests {
			resp := &http.Response{StatusCode: status, Header: headers(test.header...)}
			got := retryhttp.ClassifyResponse(resp, noon)
			if test.want.Class == retry.Final {
				got.NotApplied = test.want.NotApplied // has no meaning if there is no retry
			}
			if got != test.want {
				assert.Equal(t, test.want, got, "status %d, %v", status, test.header)
			}
		}
	}
}

// The headers of the server about retries, end to end.
func TestShouldRetry(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status  int
		header  []string
		trusted bool
		want    int
	}{
		{404, []string{"X-Should-Retry", "true"}, false, 1},
		{404, []string{"X-Should-Retry", "true"}, true, 2},
		{404, []string{"Stripe-Should-Retry", "true"}, true, 2},
		{404, []string{"X-Should-Retry", "True"}, true, 1},
		{503, []string{"X-Should-Retry", "false"}, false, 1},
		{503, []string{"X-Should-Retry", "false"}, true, 1},
		{429, []string{"Stripe-Should-Retry", "false"}, false, 1},
		{404, []string{"X-Envoy-Ratelimited", "true"}, false, 2},
		{403, []string{"X-RateLimit-Remaining", "0"}, false, 2},
		{403, []string{"X-RateLimit-Remaining", "1"}, false, 1},
		{200, []string{"X-Should-Retry", "true"}, true, 1},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			t.Run(fmt.Sprint(method, test), func(t *testing.T) {
				t.Parallel()
				s := serve(t, status(test.status, test.header...))
				base, _ := toOK(t)
				transport := &retryhttp.Transport{
					Base: base, Policy: atOnce(2), Budget: retryhttp.NoBudget, TrustShouldRetry: test.trusted,
				}
				resp := testkit.Must(transport.RoundTrip(request(t, method, s.URL, strings.NewReader("hello"))))(t)
				assert.Equal(t, fmt.Sprint("status ", test.status), text(t, resp))
				want := test.want
				if method == http.MethodPost && test.status == http.StatusServiceUnavailable {
					want = 1
				}
				assert.EqualValues(t, want, s.requests.Load())
			})
		}
	}
}

// Errors that no connection of a test can provoke.
func TestClassifyByValue(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		err  error
		want retry.Verdict
	}{
		{"nil", nil, retry.Verdict{}},
		{"unknown", errors.New("boom"), retry.Verdict{}},
		{"unknown, of the client", &url.Error{Op: "Get", URL: "/", Err: errors.New("boom")}, retry.Verdict{}},
		{"bare EOF", io.EOF, retry.Verdict{}},
		{"EOF of the client", &url.Error{Op: "Get", URL: "/", Err: io.EOF}, again("eof")},
		{"unexpected EOF", io.ErrUnexpectedEOF, again("eof")},
		{"parse", &url.Error{Op: "parse", URL: "/", Err: errors.New("x")}, final("invalid")},
		{"canceled", &url.Error{Op: "Get", URL: "/", Err: context.Canceled}, final("canceled")},
		{"deadline", &url.Error{Op: "Get", URL: "/", Err: context.DeadlineExceeded}, again("timeout")},
		{"net.ErrClosed", net.ErrClosed, again("closed")},
		{"http.ErrServerClosed", http.ErrServerClosed, again("closed")},
		{"io.ErrClosedPipe", io.ErrClosedPipe, again("closed")},
		{"http.ErrBodyReadAfterClose", http.ErrBodyReadAfterClose, final("invalid")},
		{"http.ErrBodyNotAllowed", http.ErrBodyNotAllowed, final("invalid")},
		{"http.ErrContentLength", http.ErrContentLength, final("invalid")},
		{"http.ErrHandlerTimeout", http.ErrHandlerTimeout, final("invalid")},
		{"http.ErrSchemeMismatch", http.ErrSchemeMismatch, final("tls")},
		{"internal error alert", &net.OpError{Op: "remote error", Err: tls.AlertError(80)}, again("tls_alert")},
		{"user canceled alert", &net.OpError{Op: "remote error", Err: tls.AlertError(90)}, again("tls_alert")},
		{"join", errors.Join(http.ErrSchemeMismatch, syscall.ECONNRESET), again("conn_reset")},
		{"join, reversed", errors.Join(syscall.ECONNRESET, http.ErrSchemeMismatch), again("conn_reset")},
		// The same text in an error of another type is not net/http's.
		{"same words", sameWords{}, retry.Verdict{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, retryhttp.Classify(test.err))
		})
	}
}

type sameWords struct{}

func (sameWords) Error() string { return "malformed HTTP response" }

// A 200 may have an error in it, and a 202 may stand for a result that is not there yet.
func TestClassifyOfResponses(t *testing.T) {
	t.Parallel()
	answers := func(texts ...string) *server {
		var handlers []http.HandlerFunc
		for _, text := range texts {
			code, body, _ := strings.Cut(text, " ")
			handlers = append(handlers, func(w http.ResponseWriter, _ *http.Request) {
				n, _ := strconv.Atoi(code)
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(n)
				_, _ = io.WriteString(w, body)
			})
		}
		return serve(t, handlers...)
	}
	classify := func(resp *http.Response) retry.Verdict {
		if resp.StatusCode == http.StatusAccepted {
			return retry.Verdict{Class: retry.Pending, NotApplied: true}
		}
		body := testkit.Must(io.ReadAll(resp.Body))(t)
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(body))
		switch string(body) {
		case "busy":
			return retry.Verdict{Class: retry.Retryable, Exact: true, After: time.Second}
		case "never mind":
			return retry.Verdict{Class: retry.Retryable, After: -1}
		case "no":
			return retry.Verdict{Class: retry.Final}
		default:
			return retry.Verdict{}
		}
	}
	for _, test := range []struct {
		name   string
		server *server
		want   string
		waits  []time.Duration
		gaveUp bool
	}{
		{"an error in it", answers("200 busy", "200 busy", "200 fine"), "fine", []time.Duration{time.Second, time.Second}, false},
		{"an error that stays", answers("200 busy"), "busy", []time.Duration{time.Second, time.Second}, true},
		{
			"not there yet", answers("202 wait", "202 wait", "202 wait", "202 wait", "200 fine"), "fine",
			[]time.Duration{7 * time.Second, 7 * time.Second, 7 * time.Second, 7 * time.Second},
			false,
		},
		{"no hint", answers("503 never mind", "200 fine"), "fine", []time.Duration{113 * time.Millisecond}, false},
		{"a status that is final here", answers("503 no"), "no", nil, false},
		{"a status by the rules", answers("503 fine", "200 fine"), "fine", []time.Duration{7 * time.Second}, false},
		{"a success", answers("200 fine"), "fine", nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			clock := retrytest.NewClock(time.Now())
			c := client(t, nil, &retry.Policy{Clock: clock, Rand: retrytest.NewRand(1)})
			c.Transport.(*retryhttp.Transport).ClassifyResponse = classify
			resp := testkit.Must(c.Get(test.server.URL))(t)
			assert.Equal(t, test.want, text(t, resp))
			assert.Equal(t, test.gaveUp, retryhttp.GaveUp(resp))
			require.Len(t, clock.Sleeps(), len(test.waits))
			for i, d := range clock.Sleeps() {
				assert.InDelta(t, test.waits[i], d, float64(test.waits[i])/10)
			}
		})
	}
}
