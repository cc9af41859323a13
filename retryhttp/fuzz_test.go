package retryhttp_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// fuzzHeaders reads lines "Name: value", as they come from a server.
func fuzzHeaders(lines string) http.Header {
	h := http.Header{}
	for line := range strings.SplitSeq(lines, "\n") {
		name, value, _ := strings.Cut(line, ":")
		h.Add(name, strings.TrimPrefix(value, " "))
	}
	return h
}

func fuzzSeeds(f *testing.F) {
	f.Helper()
	for _, lines := range []string{
		"", "Retry-After: 120", "Retry-After: 1.5\nRetry-After: 1, 2", "Retry-After: -1", "Retry-After: 9223372037",
		"Retry-After: Fri, 20 Nov 2026 12:00:30 GMT\nDate: Fri, 20 Nov 2026 12:00:00 GMT\nAge: 9223372036",
		"Retry-After: Friday, 20-Nov-99 12:00:60 +0100", "Retry-After: Sun Dec  6 08:49:37 2026",
		"Retry-After: 9999-12-31T23:59:59Z\nDate: Mon, 1 Jan 0001 00:00:00 GMT",
		"Retry-After-Ms: 20\nX-Should-Retry: false", "RateLimit: \"a,b;r=9\";r=0;t=3, x", "RateLimit: limit=1, remaining=0, reset=5",
		"X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1795176060", "X-Envoy-Ratelimited: 1\nRetry-After: 7",
		"X-RateLimit-Remaining-Tokens: 0\nX-RateLimit-Reset-Tokens: 6m0s",
		"Anthropic-RateLimit-Tokens-Remaining: 0\nAnthropic-RateLimit-Tokens-Reset: 2026-11-20T12:00:07Z",
	} {
		for _, status := range []int{200, 403, 404, 409, 429, 503, 529, 0, -1, 600} {
			f.Add(status, lines, noon.Unix())
		}
		f.Add(429, lines, int64(math.MinInt64))
		f.Add(503, lines, int64(math.MaxInt64))
	}
}

// Whatever a server sends, and whatever the time is, a hint is a valid wait.
func FuzzHint(f *testing.F) {
	fuzzSeeds(f)
	f.Fuzz(func(t *testing.T, status int, lines string, unix int64) {
		h, now := fuzzHeaders(lines), time.Unix(unix, 0)
		before := h.Clone()
		d, ok := retryhttp.ParseHint(status, h, now)
		assert.GreaterOrEqual(t, d, time.Duration(0))
		if !ok {
			assert.Zero(t, d)
		}
		again, okAgain := retryhttp.ParseHint(status, h, now)
		assert.Equal(t, d, again)
		assert.Equal(t, ok, okAgain)
		assert.Equal(t, before, h, "the headers are only read")
		if status >= 100 && status < 400 || status == http.StatusNotFound && h["X-Envoy-Ratelimited"] == nil {
			assert.False(t, ok)
		}
	})
}

// More seconds are never a shorter wait, as long as they are seconds: next to now
// as a Unix time, a number is one.
func FuzzHintIsMonotone(f *testing.F) {
	f.Add(uint64(0), uint64(1), "", noon.Unix())
	f.Add(uint64(9223372036), uint64(9223372037), "5", noon.Unix())
	f.Add(uint64(math.MaxUint64), uint64(math.MaxInt64), "999", int64(0))
	f.Add(uint64(1795176000), uint64(1795176001), "", int64(0))
	f.Fuzz(func(t *testing.T, a, b uint64, fraction string, unix int64) {
		const year = 366*24*3600 + 1
		const longest = math.MaxInt64 / 1000
		unix = min(max(unix, -longest), longest)
		for _, n := range []uint64{a, b} {
			seconds, milliseconds := float64(n)-float64(unix), float64(n)/1000-float64(unix)
			if math.Abs(seconds) <= year || math.Abs(milliseconds) <= year {
				return // a Unix time
			}
		}
		if strings.Trim(fraction, "0123456789") != "" {
			return
		}
		if fraction != "" {
			fraction = "." + fraction
		}
		var waits []time.Duration
		for _, n := range []uint64{min(a, b), max(a, b)} {
			h := headers("Retry-After", strconv.FormatUint(n, 10)+fraction)
			d, ok := retryhttp.ParseHint(http.StatusTooManyRequests, h, time.Unix(unix, 0))
			require.True(t, ok)
			waits = append(waits, d)
		}
		assert.LessOrEqual(t, waits[0], waits[1], "%d and %d", a, b)
		const most = math.MaxInt64 / uint64(time.Second)
		switch s := min(a, b); {
		case s < most:
			assert.GreaterOrEqual(t, waits[0], time.Duration(s)*time.Second) //nolint:gosec // it fits
			assert.Less(t, waits[0], time.Duration(s+1)*time.Second)         //nolint:gosec // it fits
		case s > most:
			assert.Equal(t, time.Duration(math.MaxInt64), waits[0])
		}
	})
}

// Without a hint there is no wait, and every hint is a valid wait.
func FuzzBodyHintText(f *testing.F) {
	for _, body := range fuzzBodies {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		d, ok := retryhttp.ParseBodyHint(body)
		assert.GreaterOrEqual(t, d, time.Duration(0))
		if !ok {
			assert.Zero(t, d)
		}
		for _, kind := range []string{"application/json", "text/xml"} {
			resp := &http.Response{StatusCode: http.StatusForbidden, Header: headers("Content-Type", kind)}
			v := retryhttp.ClassifyBody(resp, body, noon)
			assert.NotEqual(t, retry.Unknown, v.Class)
			assert.GreaterOrEqual(t, v.After, time.Duration(0))
		}
		assert.Equal(t, before, body)
	})
}

var fuzzBodies = []string{
	"", "null", "[]", "{", `{"retry_after": 64.57, "global": false}`, `{"retry_after": "1"}`, `{"retry_after": 1e30}`,
	`{"retry_after": -1}`, `{"retry_after": 99999999999999999999}`, `{"retry_after": null, "details": {"retryAfterSeconds": 3}}`,
	`{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.07s"}]}}`,
	`{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"-1s"}, {}]}}`,
	`{"error":"busy"}`, `{"error":{"details":{}}}`, `{"details":[]}`, `{"details":{"retryAfterSeconds":9223372037}}`,
	strings.Repeat("[", 20_000), `{"retry_after":` + strings.Repeat("9", 70_000) + "}",
	`{"retry_after": 1}` + strings.Repeat(" ", 64<<10), `{"retry_after": 1}` + strings.Repeat(" ", 200_000),
}

// fuzzBody is read in pieces, and ends with an error.
type fuzzBody struct {
	rest   []byte
	piece  int
	end    error
	closed int
}

func (b *fuzzBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		return 0, b.end
	}
	n := copy(p, b.rest[:min(b.piece, len(b.rest))])
	b.rest = b.rest[n:]
	return n, nil
}

func (b *fuzzBody) Close() error {
	b.closed++
	return nil
}

// A body that was searched for a hint is unchanged for the caller: every byte,
// the error at its end, and Close closes it.
func FuzzBodyHintIsPutBack(f *testing.F) {
	for i, body := range fuzzBodies {
		f.Add([]byte(body), uint16(1+i*i*100), i%2 == 0, i%3 == 0)
	}
	f.Fuzz(func(t *testing.T, body []byte, piece uint16, sized, truncated bool) {
		end := io.EOF
		if truncated {
			end = io.ErrUnexpectedEOF
		}
		resp := &http.Response{
			StatusCode: http.StatusTooManyRequests, ContentLength: -1,
			Header: headers("Content-Type", "application/problem+json; charset=utf-8"),
		}
		if sized {
			resp.ContentLength = int64(len(body))
		}
		source := &fuzzBody{rest: body, piece: max(int(piece), 1), end: end}
		resp.Body = source
		transport := &retryhttp.Transport{
			Base:      roundTripper(func(*http.Request) (*http.Response, error) { return resp, nil }),
			Policy:    &retry.Policy{MaxAttempts: 1},
			BodyHints: true,
		}
		got := testkit.Must(transport.RoundTrip(request(t, http.MethodGet, "http://127.0.0.1", nil)))(t)
		data, err := io.ReadAll(got.Body)
		assert.True(t, bytes.Equal(body, data), "%d bytes of %d", len(data), len(body))
		if truncated {
			assert.Equal(t, io.ErrUnexpectedEOF, err)
		} else {
			assert.NoError(t, err)
		}
		assert.Zero(t, source.closed)
		assert.NoError(t, got.Body.Close())
		assert.Equal(t, 1, source.closed)
	})
}

// A verdict about a response is one that a policy can use.
func FuzzClassifyResponse(f *testing.F) {
	fuzzSeeds(f)
	f.Fuzz(func(t *testing.T, status int, lines string, unix int64) {
		h, now := fuzzHeaders(lines), time.Unix(unix, 0)
		var verdicts []retry.Verdict
		for _, req := range []*http.Request{
			nil, {}, {Method: http.MethodPost, Header: headers("Idempotency-Key", "k")},
		} {
			v := retryhttp.ClassifyResponse(&http.Response{StatusCode: status, Header: h, Request: req}, now)
			verdicts = append(verdicts, v)
			assert.GreaterOrEqual(t, v.After, time.Duration(0))
			assert.LessOrEqual(t, v.Class, retry.RateLimited)
			switch {
			case status >= 100 && status < 400:
				assert.Zero(t, v, "no failure")
			case status < 100 || status > 599:
				assert.Equal(t, retry.Final, v.Class)
			default:
				assert.NotEqual(t, retry.Unknown, v.Class)
				assert.NotEmpty(t, v.Category)
			}
			if v.Class == retry.Final {
				assert.Zero(t, v.After, "nobody waits for it")
			}
			if h.Get("X-Should-Retry") == "false" && status >= 400 {
				assert.Equal(t, retry.Final, v.Class, "the server has the last word")
			}
		}
		assert.Equal(t, verdicts[0], verdicts[1])
		if status != http.StatusConflict {
			assert.Equal(t, verdicts[0], verdicts[2])
		}
	})
}

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

// What a server sends makes no work that grows faster than what it has sent.
//
//nolint:paralleltest // It measures.
func TestWorkGrowsNoFasterThanTheInput(t *testing.T) {
	classify := func(h http.Header) { // with ParseHint
		_ = retryhttp.ClassifyResponse(&http.Response{StatusCode: http.StatusTooManyRequests, Header: h}, noon)
	}
	for name, build := range hostileHeaders() {
		t.Run(name, func(t *testing.T) { testkit.GrowsLikeTheInput(t, classify, build) })
	}
	read := func(body []byte) {
		resp := &http.Response{StatusCode: http.StatusForbidden, Header: headers("Content-Type", "application/json")}
		_, _ = retryhttp.ParseBodyHint(body)
		_ = retryhttp.ClassifyBody(resp, body, noon)
	}
	for name, build := range hostileBodies() {
		t.Run(name, func(t *testing.T) {
			testkit.GrowsLikeTheInput(t, read, func(n int) []byte { return []byte(build(n)) })
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
		testkit.Must(get(t, &retryhttp.Transport{Base: base, Policy: p, BodyHints: true}, "http://a/"))(t)
		assert.Equal(t, want, waits == 1, "%.40q", contentType)
	}
}

// endlessError wraps itself.
type endlessError struct{}

func (*endlessError) Error() string   { return "endless" }
func (e *endlessError) Unwrap() error { return e }
