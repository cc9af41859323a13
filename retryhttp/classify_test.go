package retryhttp_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// verdicts of a status, as table a1 has them: "F" is final; "R" may be retried,
// "L" is a rate limit, each "any" if the server is known not to have acted.
type statusRow struct {
	plain, hinted, keyed string // "" means like plain
}

var statusRows = func() map[int]statusRow {
	rows := map[int]statusRow{
		403: {plain: "F", hinted: "L any"},
		408: {plain: "R any"},
		409: {plain: "F", keyed: "R"},
		413: {plain: "F", hinted: "R"},
		418: {plain: "F", hinted: "L any"},
		420: {plain: "L any"},
		421: {plain: "R any"},
		423: {plain: "F", hinted: "R"},
		425: {plain: "R any"},
		429: {plain: "L any"},
		449: {plain: "R"},
		477: {plain: "F", hinted: "R"},
		500: {plain: "R"},
		502: {plain: "R"},
		503: {plain: "R", hinted: "R any"},
		504: {plain: "R"},
		509: {plain: "L"},
		520: {plain: "R"},
		521: {plain: "R"},
		522: {plain: "R"},
		523: {plain: "R"},
		524: {plain: "R"},
		529: {plain: "L"},
		530: {plain: "R"},
		598: {plain: "R"},
		599: {plain: "R"},
	}
	for status := range 1001 {
		if _, known := rows[status]; !known && (status < 100 || status > 399) {
			rows[status] = statusRow{plain: "F"}
		}
	}
	return rows
}()

// verdict reads a row.
func (r statusRow) verdict(status int, hinted, keyed bool) retry.Verdict {
	symbol := r.plain
	if hinted && r.hinted != "" {
		symbol = r.hinted
	}
	if keyed && r.keyed != "" {
		symbol = r.keyed
	}
	if symbol == "" { // 1xx to 3xx are no failures
		return retry.Verdict{}
	}
	class, scope, _ := strings.Cut(symbol, " ")
	v := retry.Verdict{
		Class:      map[string]retry.Class{"F": retry.Final, "R": retry.Retryable, "L": retry.RateLimited}[class],
		NotApplied: scope == "any",
		Category:   fmt.Sprint("http_", status),
	}
	if status < 100 || status > 599 {
		v.Category = "http_invalid"
	}
	if hinted && v.Class != retry.Final {
		v.After = 7 * time.Second
	}
	return v
}

// a1: every status, without and with a hint and a key.
func TestClassifyResponse(t *testing.T) {
	t.Parallel()
	for status := range 1001 {
		row := statusRows[status]
		for _, hinted := range []bool{false, true} {
			for _, key := range []string{"", "Idempotency-Key", "X-Idempotency-Key"} {
				resp := &http.Response{StatusCode: status, Header: http.Header{}, Request: &http.Request{Header: http.Header{}}}
				if hinted {
					resp.Header.Set("Retry-After", "7")
				}
				if key != "" {
					resp.Request.Header.Set(key, "1")
				}
				want := row.verdict(status, hinted, key != "")
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
	for status, row := range statusRows {
		plain, hinted := row.verdict(status, false, false), row.verdict(status, true, false)
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
	tests := []struct {
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
	}
	for _, test := range tests {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			t.Run(fmt.Sprint(method, test), func(t *testing.T) {
				t.Parallel()
				s := serve(t, status(test.status, test.header...))
				base, _ := toOK(t)
				transport := &retryhttp.Transport{
					Base: base, Policy: atOnce(2), Budget: retryhttp.NoBudget, TrustShouldRetry: test.trusted,
				}
				resp, err := transport.RoundTrip(request(t, method, s.URL, strings.NewReader("hello")))
				require.NoError(t, err)
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
	tests := []struct {
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
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, retryhttp.Classify(test.err))
		})
	}
}

type sameWords struct{}

func (sameWords) Error() string { return "malformed HTTP response" }
