package retryhttp

import (
	"net/http"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/hint"
	"github.com/seed-5ff3c98e/retry/internal/known"
)

// ParseHint reads the server's hint: the request should come back no sooner than
// the returned duration from now. It returns false if there is no hint, or if
// another attempt cannot help after this status and there is no X-Envoy-Ratelimited. A
// time that has passed is 0; a time that is too far away is the longest [time.Duration].
//
// These headers are read; the first that is valid counts:
//
//   - Retry-After-Ms, X-Ms-Retry-After-Ms and X-Amz-Retry-After: milliseconds.
//   - Retry-After: seconds, or a date in one of the forms of HTTP or RFC 3339.
//   - RateLimit and the older RateLimit-Reset, X-RateLimit-Reset-After,
//     X-RateLimit-Reset, X-Rate-Limit-Reset, and a few others that one service sends, of
//     quotas that have nothing left: seconds, a date, or a Go duration.
//   - Any header with RateLimit or Rate-Limit, and Reset, in its name, such as
//     X-RateLimit-Reset-Tokens of OpenAI, if the header with Remaining in place of Reset
//     is 0; and any with RateLimit and -Retry-After at the end.
//
// Numbers are decimal, without sign and exponent. Where seconds are expected, a
// number that is a Unix time within a year of now, in seconds or milliseconds, is
// read as a Unix time. For a quota, any other number of more than 31 days is ignored.
// Times are compared with the clock of the server, that is with Date plus Age, and
// with now only if there is no valid Date. If a header has several values, the
// largest counts.
//
// The work is bounded, whatever a server sends: only the first 8 KiB of each of these
// headers are read, in whole lines, and a date has at most 64 characters.
//
// https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3
func ParseHint(status int, header http.Header, now time.Time) (time.Duration, bool) {
	if !heeded(status) && (status < 400 || status > 599 || !known.EnvoyLimited(header)) {
		return 0, false
	}
	return hint.Parse(status, header, now)
}

// heeded reports whether a response with this status and a hint can be retried.
func heeded(status int) bool {
	return statusVerdict(status, true).Class != retry.Final || status == http.StatusConflict
}
