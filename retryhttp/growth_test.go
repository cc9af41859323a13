package retryhttp_test

import (
	"errors"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// hostileHeaders make headers of about n bytes, as a server may send them to keep a client at
// work. net/http accepts 10 MB.
func hostileHeaders() map[string]func(n int) http.Header {
	all := map[string]func(n int) http.Header{
		"a long Date and many times": func(n int) http.Header {
			return http.Header{
				"Date": {strings.Repeat("x", n/2)}, "Retry-After": {strings.Repeat("2000000000,", n/22) + "1"},
			}
		},
		"many resets": func(n int) http.Header {
			h := http.Header{}
			for i := range n / 32 {
				h["X-Ratelimit-Reset-"+strconv.Itoa(1e6+i)] = []string{"1h"}
				h["X-Ratelimit-Remaining-"+strconv.Itoa(1e6+i)] = []string{"0"}
			}
			return h
		},
		"a long name": func(n int) http.Header {
			return http.Header{"X-Ratelimit-" + strings.Repeat("Reset-", n/6): {"1"}}
		},
		"a long code": func(n int) http.Header {
			return http.Header{"X-Amzn-Errortype": {strings.Repeat("#", n/2)}, "X-Ms-Error-Code": {strings.Repeat(":", n/2)}}
		},
		"many names": func(n int) http.Header {
			h := http.Header{}
			for i := range n / 10 {
				h["X-"+strconv.Itoa(1e6+i)] = []string{"1"}
			}
			return h
		},
	}
	for _, name := range []string{
		"Date", "Age", "Retry-After", "Retry-After-Ms", "Ratelimit", "X-Ratelimit-Reset", "X-Ratelimit-Reset-Tokens",
		"X-Ratelimit-Retry-After", "X-Ms-User-Quota-Resets-After",
	} {
		for _, unit := range []string{
			"9", "2000000000,", `"`, `"a";r=0;t=1,`, "a=1;", " ", "1h", "00:", ":60 ", "2026-11-20T12:01Z", "Fri, 20 Nov 2026 12:00:30 GMT,", "reset=1,",
		} {
			with := func(values ...string) http.Header {
				h := headers("X-RateLimit-Remaining-Tokens", "0", "Date", "Fri, 20 Nov 2026 12:00:00 GMT")
				if name == "Date" || name == "Age" {
					h.Set("Retry-After", "Fri, 20 Nov 2026 12:00:30 GMT")
				}
				h[name] = values
				return h
			}
			all[name+" of "+unit] = func(n int) http.Header { return with(strings.Repeat(unit, n/len(unit))) }
			all[name+" in lines of "+unit] = func(n int) http.Header { return with(slices.Repeat([]string{unit}, n/len(unit))...) }
		}
	}
	return all
}

// hostileBodies make bodies of about n bytes.
func hostileBodies() map[string]func(n int) string {
	all := map[string]func(n int) string{}
	for name, parts := range map[string][3]string{
		"deep":      {"", "[", ""},
		"objects":   {"", `{"error":`, ""},
		"keys":      {"{", `"retry_after":1,`, `"x":1}`},
		"details":   {`{"error":{"details":[`, `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1s"},`, `{}]}}`},
		"digits":    {`{"retry_after":`, "9", "}"},
		"fraction":  {`{"retry_after":1.`, "9", "}"},
		"exponents": {"[", "1e999999999,", "1]"},
		"escapes":   {`{"`, `\u0065`, `":1}`},
		"spaces":    {`{"retry_after":`, " ", "1}"},
		"unclosed":  {`{"retry_after":"`, `\"`, ""},
		"reasons":   {`[`, `{"code":"insufficient_quota","type":"x"},`, "0]"},
		"errors":    {``, `{"error":`, ""},
		"nested":    {strings.Repeat(`{"error":[`, 100), `{"code":"x"},`, "0" + strings.Repeat("]}", 100)},
		"one code":  {`{"code":"https://docs.github.com/`, "#", `"}`},
	} {
		all[name] = func(n int) string { return parts[0] + strings.Repeat(parts[1], n/len(parts[1])) + parts[2] }
	}
	return all
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	f() // pools and caches are filled
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// What a server sends makes no work that grows faster than what it has sent: ten times as much
// takes ten times the memory, fifteen with noise and with what append wastes on longer slices,
// where quadratic work takes a hundred times.
//
//nolint:paralleltest // It measures.
func TestWorkGrowsNoFasterThanTheInput(t *testing.T) {
	const size = 6 << 10
	check := func(name string, work func(n int) func()) {
		small, large := allocated(work(size)), allocated(work(10*size))
		assert.LessOrEqual(t, large, 15*small+64<<10, "%s: %d bytes for %d, %d for %d", name, small, size, large, 10*size)
	}
	for name, build := range hostileHeaders() {
		check(name, func(n int) func() {
			resp := &http.Response{StatusCode: http.StatusTooManyRequests, Header: build(n)}
			return func() { _ = retryhttp.ClassifyResponse(resp, noon) } // with ParseHint
		})
	}
	for name, build := range hostileBodies() {
		check(name, func(n int) func() {
			body := []byte(build(n))
			resp := &http.Response{StatusCode: http.StatusForbidden, Header: headers("Content-Type", "application/json")}
			return func() { _, _ = retryhttp.ParseBodyHint(body); _ = retryhttp.ClassifyBody(resp, body, noon) }
		})
	}
}

// Only the media type says that a body is JSON, whatever follows it.
func TestBodyHintsOfMediaTypes(t *testing.T) {
	t.Parallel()
	for contentType, want := range map[string]bool{
		"application/json": true, "Application/JSON ; charset=utf-8": true, "application/problem+json": true,
		"application/json" + strings.Repeat(`; a="b"`, 10_000): true, "application/vnd.api+JSON;": true,
		"": false, "+json": false, "text/json": false, "application/jsonp": false, "text/plain; x=application/json": false,
	} {
		waits := 0
		p := atOnce(2)
		p.Classifier = func(err error) retry.Verdict {
			if e := (*retryhttp.StatusError)(nil); errors.As(err, &e) && e.After > 0 {
				waits++
			}
			return retry.Verdict{Class: retry.Final}
		}
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: http.StatusTooManyRequests, Header: http.Header{"Content-Type": {contentType}}, Request: req, ContentLength: -1,
				Body: io.NopCloser(strings.NewReader(`{"retry_after":7}`)),
			}, nil
		})
		_, err := get(t, &retryhttp.Transport{Base: base, Policy: p, BodyHints: true}, "http://a/")
		require.NoError(t, err)
		assert.Equal(t, want, waits == 1, "%.40q", contentType)
	}
}

// endlessError wraps itself.
type endlessError struct{}

func (*endlessError) Error() string   { return "endless" }
func (e *endlessError) Unwrap() error { return e }
