package retryhttp

import (
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/sat"
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
//   - RateLimit and the older RateLimit-Reset, X-RateLimit-Reset-After and
//     X-RateLimit-Reset, of quotas that have nothing left: seconds.
//   - X-RateLimit-Reset-Requests and -Tokens as OpenAI sends them, and
//     Anthropic-RateLimit-…-Reset, of quotas that have nothing left: Go durations
//     and RFC 3339 dates.
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
	if !heeded(status) && (status < 400 || status > 599 || !envoyLimited(header)) {
		return 0, false
	}
	h := hints{header: header, now: now, status: status}
	return h.first()
}

// mayHint reports whether any header may have a hint. It is a shortcut: most responses
// have none, and reading all the headers takes longer.
func mayHint(header http.Header) bool {
	for name := range header {
		switch {
		case name == "":
		case name[0] == 'X', name[0] == 'R':
			return true
		case name[0] == 'A' && strings.HasPrefix(name, "Anthropic-"), name[0] == 'S' && strings.HasPrefix(name, "Stripe-"):
			return true
		}
	}
	return false
}

// envoyLimited reports whether a response is a rate limit of Envoy, whatever its status.
//
// https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/rate_limit_filter
func envoyLimited(header http.Header) bool { return header["X-Envoy-Ratelimited"] != nil }

// heeded reports whether a response with this status and a hint can be retried.
func heeded(status int) bool {
	return statusVerdict(status, true).Class != retry.Final || status == http.StatusConflict
}

// hints are the headers of one response.
type hints struct {
	header http.Header
	now    time.Time // on the client's clock
	status int

	server time.Time // now on the server's clock, once it was read
	read   bool
}

// first returns the hint of the first header that has one.
func (h *hints) first() (time.Duration, bool) {
	for _, name := range [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms", "X-Amz-Retry-After"} {
		if d, ok := h.largest(name, milliseconds); ok {
			return d, true
		}
	}
	if d, ok := h.largest("Retry-After", secondsOrDate); ok {
		return d, true
	}
	if d, ok := h.rateLimit(); ok {
		return d, true
	}
	for i := range resets {
		if d, ok := h.reset(&resets[i]); ok {
			return d, true
		}
	}
	return h.quotas()
}

// maxHeader bounds how many bytes of one header are read. Servers and proxies rarely send
// or accept more than that in all headers together; net/http takes 10 MB from a server.
const maxHeader = 8 << 10

// lines returns the values of a header within maxHeader, each a line of the response.
func (h *hints) lines(name string) []string {
	lines, size := h.header[name], 0
	for i, line := range lines {
		if size += len(line) + 1; size > maxHeader {
			return lines[:i]
		}
	}
	return lines
}

// line returns the first value of a header, or "".
func (h *hints) line(name string) string {
	if lines := h.lines(name); len(lines) > 0 {
		return lines[0]
	}
	return ""
}

// serverTime returns the time on the server's clock.
//
// https://www.rfc-editor.org/rfc/rfc9110#section-6.6.1
func (h *hints) serverTime() time.Time {
	if h.read {
		return h.server
	}
	h.server, h.read = h.now, true
	if date, ok := parseDate(h.line("Date"), h.now); ok {
		age, _ := decimal(h.line("Age"), time.Second) // the time spent in a cache
		h.server = date.Add(age)
	}
	return h.server
}

// form is how a header writes when to come back.
type form uint8

const (
	milliseconds form = iota
	secondsOrDate
	quotaSeconds
	goDuration
	date
)

// largest returns the largest value of a header that is valid in a form.
func (h *hints) largest(name string, f form) (most time.Duration, found bool) {
	for _, line := range h.lines(name) {
		if d, ok := h.parse(trim(line), f); ok {
			most, found = max(most, d), true
		}
	}
	return most, found
}

func (h *hints) parse(value string, f form) (time.Duration, bool) {
	switch f {
	case milliseconds:
		return decimal(value, time.Millisecond)
	case secondsOrDate:
		if d, ok := h.seconds(value); ok {
			return d, true
		}
		return h.date(value)
	case quotaSeconds:
		return h.quotaSeconds(value)
	case goDuration:
		d, err := time.ParseDuration(value)
		return d, err == nil && d >= 0
	default:
		return h.date(value)
	}
}

// quota names the headers of a quota: when it is filled again, and what is left of it.
type quota struct {
	reset, remaining string
	form             form
}

// resets are the headers of services with one quota, in order of precedence.
var resets = []quota{
	{"Ratelimit-Reset", "Ratelimit-Remaining", quotaSeconds},
	{"X-Ratelimit-Reset-After", "X-Ratelimit-Remaining", quotaSeconds},
	{"X-Ratelimit-Reset", "X-Ratelimit-Remaining", quotaSeconds},
}

// reset returns the largest valid value of a header that says when a quota is
// filled again, if the quota is the one that is used up.
func (h *hints) reset(q *quota) (time.Duration, bool) {
	left := h.line(q.remaining)
	// Some servers leave out the remaining quota on a 429, where it is plainly
	// 0. With other statuses it has to be there and 0.
	if left == "" && h.status == http.StatusTooManyRequests || isZero(left) {
		return h.largest(q.reset, q.form)
	}
	return 0, false
}

// quotaSeconds is seconds for a quota. A number that is neither a plausible Unix time
// nor at most a month in seconds is in an unknown unit.
func (h *hints) quotaSeconds(value string) (time.Duration, bool) {
	d, ok := h.seconds(value)
	return d, ok && d <= 31*24*time.Hour
}

// rateLimit reads the RateLimit header: a list of quotas,
//
//	"burst";r=10;t=5, "daily";r=0;t=60
//
// or a single one, in the older form limit=100, remaining=0, reset=30.
//
// https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
func (h *hints) rateLimit() (most time.Duration, found bool) {
	values := h.lines("Ratelimit")
	if len(values) == 0 {
		return 0, false
	}
	quota := map[string]string{}
	for _, item := range split(strings.Join(values, ","), ',') {
		if !strings.HasPrefix(item, `"`) {
			key, value, _ := strings.Cut(item, "=")
			quota[key] = value
			continue
		}
		params := map[string]string{}
		for _, param := range split(item, ';') {
			key, value, _ := strings.Cut(param, "=")
			params[key] = value
		}
		if d, ok := h.quotaSeconds(params["t"]); ok && isZero(params["r"]) {
			most, found = max(most, d), true
		}
	}
	if d, ok := h.quotaSeconds(quota["reset"]); ok && isZero(quota["remaining"]) {
		most, found = max(most, d), true
	}
	return most, found
}

// quotas returns the largest hint of services with several quotas.
func (h *hints) quotas() (most time.Duration, found bool) {
	for i := range quotas {
		q := &quotas[i]
		if !isZero(h.line(q.remaining)) {
			continue
		}
		if d, ok := h.largest(q.reset, q.form); ok {
			most, found = max(most, d), true
		}
	}
	return most, found
}

var quotas = []quota{
	{"X-Ratelimit-Reset-Requests", "X-Ratelimit-Remaining-Requests", goDuration},
	{"X-Ratelimit-Reset-Tokens", "X-Ratelimit-Remaining-Tokens", goDuration},
	{"Anthropic-Ratelimit-Requests-Reset", "Anthropic-Ratelimit-Requests-Remaining", date},
	{"Anthropic-Ratelimit-Tokens-Reset", "Anthropic-Ratelimit-Tokens-Remaining", date},
	{"Anthropic-Ratelimit-Input-Tokens-Reset", "Anthropic-Ratelimit-Input-Tokens-Remaining", date},
	{"Anthropic-Ratelimit-Output-Tokens-Reset", "Anthropic-Ratelimit-Output-Tokens-Remaining", date},
}

// date reads a date as the time until then.
func (h *hints) date(value string) (time.Duration, bool) {
	now := h.serverTime()
	t, ok := parseDate(value, now)
	if !ok {
		return 0, false
	}
	return max(t.Sub(now), 0), true // Sub saturates
}

// seconds reads numbers of seconds: several if a proxy has joined header lines. A number
// that is a plausible Unix time, in seconds or milliseconds, is the time until then: Docker
// Hub sends one as Retry-After, GitHub as X-RateLimit-Reset.
func (h *hints) seconds(value string) (most time.Duration, ok bool) {
	const (
		plausible = 366 * 24 * time.Hour
		earliest  = 1e9 * time.Second // 2001: fake clocks tend to start in 1970
	)
	for item := range strings.SplitSeq(value, ",") {
		number := trim(item)
		d, ok := decimal(number, time.Second)
		if !ok {
			return 0, false
		}
		for _, unit := range []time.Duration{time.Second, time.Millisecond} {
			sinceEpoch, _ := decimal(number, unit)
			if sinceEpoch < earliest {
				break // less still in milliseconds
			}
			if until := time.Unix(0, 0).Add(sinceEpoch).Sub(h.serverTime()); until.Abs() <= plausible {
				d = max(until, 0)
				break
			}
		}
		most = max(most, d)
	}
	return most, true
}

// decimal reads 1*DIGIT [ "." 1*DIGIT ] in a unit that is a power of ten. It
// saturates, and truncates to nanoseconds.
func decimal(s string, unit time.Duration) (time.Duration, bool) {
	whole, fraction, dot := strings.Cut(s, ".")
	if !isDigits(whole) || dot && !isDigits(fraction) {
		return 0, false
	}
	var n time.Duration
	for _, digit := range []byte(whole) {
		if n > (sat.Max-9)/10 {
			n = sat.Max
			break
		}
		n = 10*n + time.Duration(digit-'0')
	}
	if n > math.MaxInt64/unit {
		return sat.Max, true
	}
	n *= unit //nolint:durationcheck // a number of units so far
	for _, digit := range []byte(fraction) {
		unit /= 10
		n = sat.Add(n, time.Duration(digit-'0')*unit)
	}
	return n, true
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func isZero(s string) bool { return s != "" && strings.Trim(trim(s), "0") == "" }

// trim removes what HTTP calls optional whitespace.
func trim(s string) string { return strings.Trim(s, " \t") }

// split cuts s at a separator that is not in quotes, and trims the pieces.
func split(s string, separator rune) []string {
	quoted := false
	pieces := strings.FieldsFunc(s, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == separator && !quoted
	})
	for i, piece := range pieces {
		pieces[i] = trim(piece)
	}
	return pieces
}
