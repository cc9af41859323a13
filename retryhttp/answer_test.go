package retryhttp_test

import (
	"encoding/json"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// Every row of the table, which was collected from RFCs, vendors and the tests
// and bugs of other clients.
func TestParseHintTable(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/hints.json")
	require.NoError(t, err)
	var rows []struct {
		ID      string
		Status  int
		Now     time.Time
		Headers map[string][]string
		Want    string
		Why     string
	}
	require.NoError(t, json.Unmarshal(data, &rows))
	require.NotEmpty(t, rows)
	for _, row := range rows {
		t.Run(row.ID, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			for key, values := range row.Headers {
				for _, value := range values {
					h.Add(key, value)
				}
			}
			got := "ignored"
			if d, ok := retryhttp.ParseHint(row.Status, h, row.Now); ok {
				got = d.String()
			}
			assert.Equal(t, row.Want, got, "%v %s", row.Headers, row.Why)
		})
	}
}

// Fractions, dates, overflow, and cases that are not in the
// table.
func TestParseHint(t *testing.T) {
	t.Parallel()
	const longest = time.Duration(math.MaxInt64)
	tests := []struct {
		name   string
		header http.Header
		want   time.Duration
		ok     bool
	}{
		{"no header", nil, 0, false},
		{"empty", headers("Retry-After", ""), 0, false},
		{"fraction", headers("Retry-After", "0.25"), 250 * time.Millisecond, true},
		{"below a nanosecond", headers("Retry-After", "0.00000000099"), 0, true},
		{"nanoseconds", headers("Retry-After", "1.000000001"), time.Second + 1, true},
		{"IMF-fixdate", headers("Retry-After", "Fri, 20 Nov 2026 12:01:00 GMT"), time.Minute, true},
		{"RFC 850", headers("Retry-After", "Friday, 20-Nov-26 12:01:00 GMT"), time.Minute, true},
		{"asctime", headers("Retry-After", "Fri Nov 20 12:01:00 2026"), time.Minute, true},
		{"one-digit day", headers("Retry-After", "Tue, 1 Dec 2026 12:00:00 GMT"), 11 * 24 * time.Hour, true},
		{"UTC", headers("Retry-After", "Fri, 20 Nov 2026 12:01:00 UTC"), time.Minute, true},
		{"month in capitals", headers("Retry-After", "Fri, 20 NOV 2026 12:01:00 GMT"), 0, false},
		{
			"relative to Date",
			headers("Retry-After", "Fri, 20 Nov 2026 09:00:05 GMT", "Date", "Fri, 20 Nov 2026 09:00:00 GMT"),
			5 * time.Second, true,
		},
		{"invalid Date", headers("Retry-After", "Fri, 20 Nov 2026 12:01:00 GMT", "Date", "yesterday"), time.Minute, true},
		{"one second more than fits", headers("Retry-After", "9223372037"), longest, true},
		{"fraction more than fits", headers("Retry-After", "9223372036.9"), longest, true},
		{"1e30 in digits", headers("Retry-After", "1000000000000000000000000000000"), longest, true},
		{"milliseconds of AWS", headers("X-Amz-Retry-After", "1500", "Retry-After", "7"), 1500 * time.Millisecond, true},
		{"a quota of 3000 years", headers("RateLimit", `"d";r=0;t=99999999999`), 0, false},
		{"a quota of 3000 years, older form", headers("RateLimit", "limit=1, remaining=0, reset=99999999999"), 0, false},
		{"the quota that can be waited for", headers("RateLimit", `"d";r=0;t=99999999999, "m";r=0;t=60`), time.Minute, true},
		{"milliseconds", headers("Retry-After-Ms", "9223372036854775807"), longest, true},
		{"distant date", headers("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"), longest, true},
		{"digits that are not ASCII", headers("Retry-After", "١٢"), 0, false},
		{"epoch in milliseconds", headers("X-RateLimit-Reset", "1795176060000"), time.Minute, true},
		{
			"Anthropic", headers("Anthropic-RateLimit-Tokens-Remaining", "0",
				"Anthropic-RateLimit-Tokens-Reset", "2026-11-20T12:00:07Z"), 7 * time.Second, true,
		},
		{"separator in the quota's name", headers("RateLimit", `"a,b;r=9";r=0;t=3`), 3 * time.Second, true},
		{"an item that is a Token", headers("RateLimit", `default;r=0;t=30, "b";r=0;t=3`), 3 * time.Second, true},
		{"an item of parameters", headers("RateLimit", "r=0;t=30"), 0, false},
		{"the older form in a name", headers("RateLimit", `"a;remaining=0;reset=9;b";r=5;t=3`), 0, false},
		{"in one word", headers("X-RateLimit-RetryAfter", "1795176030", "X-RateLimit-Remaining", "0"), 30 * time.Second, true},
		{"unbalanced quotes", headers("RateLimit", `"a;r=0;t=3`), 0, false},
		{"the last line within 8 KiB", lines("Retry-After", 8<<10/2, "7"), 7 * time.Second, true},
		{"a line beyond 8 KiB", lines("Retry-After", 8<<10/2+1, "7"), 1 * time.Second, true},
		{"a number of 8 KiB", headers("Retry-After", strings.Repeat("0", 8<<10-2)+"7"), 7 * time.Second, true},
		{"a longer number", headers("Retry-After", strings.Repeat("0", 8<<10-1)+"7"), 0, false},
		{"a longer number, and another header", headers("Retry-After-Ms", strings.Repeat("9", 8<<10), "Retry-After", "7"), 7 * time.Second, true},
		{"a date of 64 characters", headers("Retry-After", "2026-11-20T12:01:00."+strings.Repeat("0", 43)+"Z"), time.Minute, true},
		{"a longer date", headers("Retry-After", "2026-11-20T12:01:00."+strings.Repeat("0", 44)+"Z"), 0, false},
		{
			"a Date that is too long", headers("Retry-After", "Fri, 20 Nov 2026 12:01:00 GMT",
				"Date", "2026-11-20T12:00:30."+strings.Repeat("0", 44)+"Z"), time.Minute, true,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, ok := retryhttp.ParseHint(http.StatusTooManyRequests, test.header, noon)
			assert.Equal(t, test.ok, ok)
			assert.Equal(t, test.want, got)
		})
	}
}

// lines returns a header of n lines: 1, but for the last line.
func lines(name string, n int, last string) http.Header {
	values := slices.Repeat([]string{"1"}, n)
	values[n-1] = last
	return http.Header{name: values}
}

// Fake clocks tend to start in 1970, where every small number could be a Unix
// time, or in 2000, as that of testing/synctest, where Unix times have nine digits.
func TestParseHintOnFakeClock(t *testing.T) {
	t.Parallel()
	now := time.Unix(60, 0)
	got, ok := retryhttp.ParseHint(http.StatusTooManyRequests, headers("Retry-After", "30"), now)
	assert.True(t, ok)
	assert.Equal(t, 30*time.Second, got)
	_, ok = retryhttp.ParseHint(http.StatusTooManyRequests, headers("Retry-After", "soon"), now)
	assert.False(t, ok)
	now = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	got, _ = retryhttp.ParseHint(http.StatusTooManyRequests, headers("X-RateLimit-Reset", "946686300"), now)
	assert.Equal(t, 25*time.Minute, got)
}

// A number that is neither a plausible time nor plausible seconds is not a
// hint.
func TestParseHintImplausibleReset(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	for _, name := range []string{"X-Ratelimit-Reset", "Ratelimit-Reset", "X-Ratelimit-Reset-After"} {
		for value, want := range map[string]time.Duration{
			"60": time.Minute, "2678400": 31 * 24 * time.Hour, "2678401": 0, "99999999": 0, "1800000060": time.Minute,
		} {
			got, ok := retryhttp.ParseHint(http.StatusTooManyRequests, headers(name, value), now)
			assert.Equal(t, want > 0, ok, "%s: %s", name, value)
			if ok {
				assert.Equal(t, want, got, "%s: %s", name, value)
			}
		}
	}
}

// A number that is not a status is not retried.
func TestHintOfInvalidStatus(t *testing.T) {
	t.Parallel()
	for _, status := range []int{-1, 0, 1, 99, 600, 999} {
		_, ok := retryhttp.ParseHint(status, headers("Retry-After", "5"), noon)
		assert.False(t, ok, "%d", status)
	}
}

// TestParseHintOfEnvoy checks that a rate limit of Envoy has a hint with any status of a
// failure.
func TestParseHintOfEnvoy(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{400: true, 404: true, 429: true, 599: true, 200: false, 399: false, 600: false} {
		h := headers("X-Envoy-Ratelimited", "true", "Retry-After", "7")
		d, ok := retryhttp.ParseHint(status, h, noon)
		assert.Equal(t, want, ok, "%d", status)
		v := retryhttp.ClassifyResponse(&http.Response{StatusCode: status, Header: h}, noon)
		if want {
			assert.Equal(t, 7*time.Second, d, "%d", status)
			assert.Equal(t, retry.RateLimited, v.Class, "%d", status)
			assert.Equal(t, 7*time.Second, v.After, "%d", status)
		} else {
			assert.NotEqual(t, retry.RateLimited, v.Class, "%d", status)
		}
	}
}
