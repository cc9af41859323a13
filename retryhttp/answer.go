package retryhttp

import (
	"net/http"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/hint"
	"github.com/seed-5ff3c98e/retry/internal/known"
	"github.com/seed-5ff3c98e/retry/internal/verdict"
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
	if !known.Heeded(status, header) {
		return 0, false
	}
	return hint.Parse(status, header, now)
}

// ParseUsedUp reads the headers of a success for a limit of which nothing is left, and returns when
// there is something again. It reads the headers of ParseHint that have a name with Remaining, or say
// how much remains. Pass the result to Spent of a retryquota.Quota, if the call was not made by a
// [Transport], which does so itself.
func ParseUsedUp(header http.Header, now time.Time) (time.Duration, bool) {
	return hint.UsedUp(header, now)
}

// ClassifyResponse classifies a response at the instant now, for callers without a
// [Transport]. It abstains on statuses below 400, which are not failures.
// NotApplied tells whether even a request that is not [Idempotent] may be
// repeated.
//
// A hint is a result of [ParseHint], and becomes After.
//
//   - 429, 420, 403 with a hint or with X-RateLimit-Remaining: 0, 418 with a hint, 503 with
//     X-Envoy-Overloaded, and any status with X-Envoy-Ratelimited: RateLimited and NotApplied.
//     509 and 529: RateLimited.
//   - 408, 421, 425, and 503 with a hint: Retryable and NotApplied. A Transport sends
//     the request once more after a 421, on another connection.
//   - 449, 500, 502, 503, 504, 520 to 524, 530, 598, 599; 413, 423 and 477 with a hint; 409
//     if the request has an Idempotency-Key, because the first request is still in
//     progress, or is from or to OpenAI or Stripe, whose own clients repeat it: Retryable.
//   - All others, also statuses outside of 100 to 599, and any status with
//     X-Should-Retry: false or Stripe-Should-Retry: false: Final.
//
// A code in X-Amzn-Errortype or X-Ms-Error-Code that says more counts before the status.
// The body is not read. It counts if a Transport with BodyHints has read it; otherwise
// [ClassifyBody] takes a body that the caller has read.
func ClassifyResponse(resp *http.Response, now time.Time) retry.Verdict {
	if resp == nil || resp.StatusCode >= 100 && resp.StatusCode < 400 {
		return retry.Verdict{}
	}
	return classifyResponse(resp, now, said(resp.Body))
}

// ClassifyBody is [ClassifyResponse] for a caller that has read the body of the response: up
// to 64 KiB of it, JSON or XML by its Content-Type, and gzip if the Content-Encoding says
// so. The body itself is not read. See [ParseBodyHint] for its hints.
//
// A code in it that says more than the status counts before the status, among them codes of
// OpenAI, Anthropic, GitHub, Google, AWS, Azure, Stripe, Slack, Shopify, X, Meta, Salesforce,
// HubSpot, Linear, Box, Notion, Plaid and Stack Exchange, and of services that speak like one
// of them. A code that is not known counts by the words at its end, such as TooManyRequests or
// rate_limited, in any spelling:
//
//   - what is used up until somebody raises the quota, or for a day, such as a 429 with
//     insufficient_quota: Final, with the category "quota_exhausted"; until somebody pays:
//     Final, with the category "billing",
//   - a rate limit in a 400 or 403, such as userRateLimitExceeded, or a ThrottlingException
//     of AWS: RateLimited. Without a hint, After is a minute for the secondary limit of
//     GitHub, as its documentation asks.
func ClassifyBody(resp *http.Response, body []byte, now time.Time) retry.Verdict {
	if resp == nil || resp.StatusCode >= 100 && resp.StatusCode < 400 {
		return retry.Verdict{}
	}
	return classifyResponse(resp, now, readAnswer(resp.Header, body))
}

// classifyResponse is ClassifyResponse for a response whose body says this.
func classifyResponse(resp *http.Response, now time.Time, says bodyAnswer) retry.Verdict {
	after, hinted := ParseHint(resp.StatusCode, resp.Header, now)
	if !hinted {
		after, hinted = says.hint()
	}
	keyed := resp.Request != nil && conflictPasses(resp.Request)
	return judgeStatus(resp, after, hinted, keyed, says.reason)
}

// judgeAnswer classifies a response by its status, its headers, the reason in its body and
// the state of this call.
func (c *call) judgeAnswer(resp *http.Response, after time.Duration, hinted bool, reason known.Fact) retry.Verdict {
	v := judgeStatus(resp, after, hinted, c.key != "" || conflictPasses(c.req), reason)
	switch {
	case c.t.TrustShouldRetry && known.ShouldRetry(resp.Header) == "true":
		v = retry.Verdict{Class: retry.Retryable, NotApplied: true, After: after, Category: "should_retry"}
	case resp.StatusCode == http.StatusMisdirectedRequest:
		// Another connection may reach another server. It is tried once.
		if _, ok := afresh(c.base, c.req); !ok || c.fresh {
			v.Class = retry.Final
		}
	}
	return v
}

// judgeStatus classifies a response with the status of a failure. hinted says
// that there is a hint; after may still be 0. keyed says that the request has an
// Idempotency-Key. reason is what the body says.
func judgeStatus(resp *http.Response, after time.Duration, hinted, keyed bool, reason known.Fact) retry.Verdict {
	f := known.Answer(resp.StatusCode, resp.Header, hinted, keyed, reason)
	if f.Class == known.Unknown { // the meaning of the headers is unknown
		f = known.Permanent("http_invalid")
	}
	if f.Class != known.Final {
		f.After = after
	}
	return verdict.Of(f)
}

// statusVerdict returns the verdict about the status of a failure, without After.
func statusVerdict(status int, hinted bool) retry.Verdict {
	if status < 400 || status > 599 {
		return verdict.Permanent("http_invalid")
	}
	return verdict.Of(known.Status(status, hinted))
}
