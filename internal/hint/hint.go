// Package hint reads when a server wants to be asked again.
package hint

import (
	"math"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/sat"
)

// Parse reads the hint in the headers of a failure, as package retryhttp documents it. It
// does not ask whether a response with this status can be retried. A zero now means that the
// time is not known: without a Date of the server, times are then ignored.
func Parse(status int, header map[string][]string, now time.Time) (after time.Duration, found bool) {
	defer silence()
	h := hints{header: header, now: now, limited: status == tooManyRequests}
	return h.first()
}

const tooManyRequests = 429

// UsedUp returns when a quota is filled again of which a response, a success too, says that
// nothing is left.
func UsedUp(header map[string][]string, now time.Time) (after time.Duration, found bool) {
	defer silence()
	h := hints{header: header, now: now}
	return h.quota()
}

// silence makes a panic no hint: a server must not end the program, whatever it sends. Defer it.
func silence() { _ = recover() }

// May reports whether any header may have a hint, or another answer about retries. It is a
// shortcut: most responses have none, and reading all the headers takes longer.
func May(header map[string][]string) bool {
	for name := range header {
		switch {
		case name == "":
		case name[0] == 'X', name[0] == 'R', name[0] == 'F':
			return true
		case name[0] == 'A' && strings.HasPrefix(name, "Anthropic-"), name[0] == 'S' && strings.HasPrefix(name, "Stripe-"),
			name[0] == 'G' && strings.HasPrefix(name, "Gw-"):
			return true
		}
	}
	return false
}

// hints are the headers of one response.
type hints struct {
	header  map[string][]string
	now     time.Time // on the client's clock
	limited bool      // the status is 429

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
	return h.quota()
}

// quota returns when a quota is filled again that has nothing left.
func (h *hints) quota() (time.Duration, bool) {
	if d, ok := h.rateLimit(); ok {
		return d, true
	}
	for i := range resets {
		if d, ok := h.reset(&resets[i]); ok {
			return d, true
		}
	}
	return h.others()
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
		age, _ := Decimal(h.line("Age"), time.Second) // the time spent in a cache
		h.server = date.Add(age)
	}
	return h.server
}

// form is how a header writes when to come back.
type form uint8

const (
	milliseconds form = iota
	secondsOrDate
	quotaTime // seconds or a date; a Go duration
	wallClock // hh:mm:ss
)

// largest returns the largest value of a header that is valid in a form.
func (h *hints) largest(name string, f form) (most time.Duration, found bool) {
	for _, line := range h.lines(name) {
		if d, ok := h.parse(Trim(line), f); ok {
			most, found = max(most, d), true
		}
	}
	return most, found
}

func (h *hints) parse(value string, f form) (time.Duration, bool) {
	switch f {
	case milliseconds:
		return Decimal(value, time.Millisecond)
	case secondsOrDate:
		if d, ok := h.seconds(value); ok {
			return d, true
		}
		return h.date(value)
	case wallClock:
		return clockTime(value)
	default:
		return h.quotaTime(value)
	}
}

// quota names the headers of a quota: when it is filled again, and what is left of it.
type quota struct {
	reset, remaining string
	form             form
}

// resets are the headers of services with one quota, in order of precedence. Others, whose
// two names differ only in that word, see others. The tests have the sources.
var resets = [...]quota{
	{"Ratelimit-Reset", "Ratelimit-Remaining", quotaTime},
	{"X-Ratelimit-Reset-After", "X-Ratelimit-Remaining", quotaTime},
	{"X-Ratelimit-Reset", "X-Ratelimit-Remaining", quotaTime},
	{"X-Rate-Limit-Reset", "X-Rate-Limit-Remaining", quotaTime},
	{"Ratelimit-Resettime", "Ratelimit-Remaining", quotaTime},
	{"X-Contentful-Ratelimit-Reset", "X-Contentful-Ratelimit-Second-Remaining", quotaTime},
	{"X-Rate-Limit-Time-Reset-Ms", "X-Rate-Limit-Requests-Left", milliseconds},
	{"X-Next-Replenishment-Time", "X-Current-Token-Count", quotaTime},
	{"X-Ms-User-Quota-Resets-After", "X-Ms-User-Quota-Remaining", wallClock},
	{"Gw-Ratelimit-Reset", "Gw-Ratelimit-Remaining", milliseconds},
	{"X-Bapi-Limit-Reset-Timestamp", "X-Bapi-Limit-Status", quotaTime},
	{"X-Esi-Error-Limit-Reset", "X-Esi-Error-Limit-Remain", quotaTime},
	{"X-Gate-Ratelimit-Reset-Timestamp", "X-Gate-Ratelimit-Requests-Remain", quotaTime},
}

// reset returns the largest valid value of a header that says when a quota is
// filled again, if the quota is the one that is used up.
func (h *hints) reset(q *quota) (time.Duration, bool) {
	if h.header[q.reset] == nil {
		return 0, false
	}
	left := h.line(q.remaining)
	// Some servers leave out the remaining quota on a 429, where it is plainly
	// 0. With other statuses it has to be there and 0.
	if left == "" && h.limited || IsZero(left) {
		return h.largest(q.reset, q.form)
	}
	return 0, false
}

// maxName is more than the longest name of a header about a quota has.
const maxName = 64

// others returns the largest hint of headers with names of their own: a quota that has
// nothing left by the header with Remaining in place of Reset in its name, or a
// Retry-After of a rate limit.
func (h *hints) others() (most time.Duration, found bool) {
	for name := range h.header {
		if len(name) > maxName || !strings.Contains(name, "Ratelimit") && !strings.Contains(name, "Rate-Limit") &&
			!strings.HasPrefix(name, "Anthropic-") { // Anthropic-Priority-Input-Tokens-Reset
			continue
		}
		var form form
		before, after, reset := strings.Cut(name, "Reset")
		if line := h.line(name); strings.Contains(line, "remaining=") && name != "Ratelimit" {
			if d, ok := h.members(line); ok { // Zendesk-RateLimit-Endpoint: total=100; remaining=0; resets=41
				most, found = max(most, d), true
			}
			continue
		}
		switch {
		case strings.HasSuffix(name, "-Retry-After"), strings.HasSuffix(name, "-Retry-After-Seconds"),
			strings.HasSuffix(name, "-Retryafter"): // X-RateLimit-RetryAfter of CrowdStrike, a Unix time
			form = secondsOrDate
		case reset && IsZero(h.line(before+"Remaining"+after)):
			form = quotaTime
		default: // in canonical form, it is a part of a word: X-Ratelimit-Userreset
			if before, after, reset = strings.Cut(name, "reset"); !reset || !IsZero(h.line(before+"remaining"+after)) {
				continue
			}
			form = quotaTime
		}
		if d, ok := h.largest(name, form); ok {
			most, found = max(most, d), true
		}
	}
	return most, found
}

// members reads a list of name=value.
func (h *hints) members(line string) (time.Duration, bool) {
	quota := map[string]string{}
	for item := range strings.FieldsFuncSeq(line, func(r rune) bool { return r == ';' || r == ',' }) {
		name, value, _ := strings.Cut(Trim(item), "=")
		quota[name] = value
	}
	reset := quota["reset"]
	if reset == "" {
		reset = quota["resets"]
	}
	d, ok := h.quotaSeconds(reset)
	return d, ok && IsZero(quota["remaining"])
}

// quotaTime reads the time until a quota is filled again.
func (h *hints) quotaTime(value string) (time.Duration, bool) {
	if d, ok := h.quotaSeconds(value); ok {
		return d, true
	}
	if d, err := time.ParseDuration(value); err == nil && len(value) <= maxDate {
		return d, d >= 0
	}
	return h.date(value)
}

// clockTime reads hh:mm:ss.
func clockTime(value string) (total time.Duration, ok bool) {
	unit := time.Hour
	for part := range strings.SplitSeq(value, ":") {
		if len(part) != 2 || !isDigits(part) || unit < time.Second {
			return 0, false
		}
		total += (time.Duration(part[0]-'0')*10 + time.Duration(part[1]-'0')) * unit
		unit /= 60
	}
	return total, unit < time.Second
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
// or a single one, in the older form limit=100, remaining=0, reset=30. An item that is not a
// String has to be ignored.
//
// https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
func (h *hints) rateLimit() (most time.Duration, found bool) {
	values := h.lines("Ratelimit")
	if len(values) == 0 {
		return 0, false
	}
	line := strings.Join(values, ",")
	if !strings.Contains(line, `"`) {
		return h.members(line)
	}
	for _, item := range split(line, ',') {
		if item == "" || item[0] != '"' {
			continue
		}
		params := map[string]string{}
		for _, param := range split(item, ';') {
			key, value, _ := strings.Cut(param, "=")
			params[key] = value
		}
		if d, ok := h.quotaSeconds(params["t"]); ok && IsZero(params["r"]) {
			most, found = max(most, d), true
		}
	}
	return most, found
}

// date reads a date as the time until then.
func (h *hints) date(value string) (time.Duration, bool) {
	now := h.serverTime()
	t, ok := parseDate(value, now)
	if !ok || now.IsZero() {
		return 0, false
	}
	return max(t.Sub(now), 0), true // Sub saturates
}

// dateLayouts are the date forms of HTTP and RFC 3339, and of ISO 8601 with a zone. They
// also accept zones and one-digit days that servers send although the grammar does not
// allow them. No layout has a zone name to be parsed, because time.Parse takes
// unknown zones for UTC.
//
// https://www.rfc-editor.org/rfc/rfc9110#section-5.6.7
var dateLayouts = []string{
	"Mon, 2 Jan 2006 15:04:05 GMT",
	"Mon, 2 Jan 2006 15:04:05 UTC",
	"Mon, 2 Jan 2006 15:04:05 -0700",
	"Monday, 2-Jan-06 15:04:05 GMT",
	"Monday, 2-Jan-06 15:04:05 UTC",
	"Monday, 2-Jan-06 15:04:05 -0700",
	time.ANSIC,
	time.RFC3339,
	"2006-01-02T15:04Z07:00",    // Atlassian
	"2006-01-02T15:04:05Z0700",  // an offset without a colon
	"2006-01-02 15:04:05Z07:00", // RFC 3339 allows the space
	"2006-01-02 15:04:05 UTC",
}

// maxDate is more than the longest date needs, also with a fraction of a second.
const maxDate = 64

// parseDate reads a date. It needs now for years of two digits.
func parseDate(value string, now time.Time) (time.Time, bool) {
	if len(value) > maxDate {
		return time.Time{}, false
	}
	var leap time.Duration
	if strings.Contains(value, ":60 ") { // time.Parse accepts no leap seconds
		value = strings.Replace(value, ":60 ", ":59 ", 1)
		leap = time.Second
	}
	for _, layout := range dateLayouts {
		t, err := time.Parse(layout, value)
		if err != nil {
			continue
		}
		if value[0] > '9' && !rightCase(value, t) {
			return time.Time{}, false
		}
		if strings.Contains(layout, "-06 ") {
			t = latestWithin50Years(t, now)
		}
		return t.Add(leap), true
	}
	return time.Time{}, false
}

// rightCase reports whether the names of the weekday and the month are in the
// case of HTTP. The weekday need not be the right one.
func rightCase(value string, t time.Time) bool {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if strings.HasPrefix(value, day.String()[:3]) {
			return strings.Contains(value, t.Month().String()[:3])
		}
	}
	return false
}

// latestWithin50Years sets the century of a date with a year of two digits.
func latestWithin50Years(t, now time.Time) time.Time {
	limit := now.AddDate(50, 0, 0)
	year := now.Year()/100*100 + 100 + t.Year()%100
	for {
		d := time.Date(year, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, t.Location())
		if !d.After(limit) {
			return d
		}
		year -= 100
	}
}

// seconds reads numbers of seconds: several if a proxy has joined header lines. A number
// that is a plausible Unix time, in seconds or milliseconds, is the time until then: Docker
// Hub sends one as Retry-After, GitHub as X-RateLimit-Reset.
func (h *hints) seconds(value string) (most time.Duration, ok bool) {
	const (
		plausible = 366 * 24 * time.Hour
		earliest  = 9e8 * time.Second // 1998: fake clocks start in 1970 or, as that of testing/synctest, in 2000
	)
	for item := range strings.SplitSeq(value, ",") {
		number := Trim(item)
		d, ok := Decimal(number, time.Second)
		if !ok {
			return 0, false
		}
		for _, unit := range []time.Duration{time.Second, time.Millisecond} {
			sinceEpoch, _ := Decimal(number, unit)
			if sinceEpoch < earliest {
				break // less still in milliseconds
			}
			now := h.serverTime()
			if now.IsZero() {
				return 0, false // a time or seconds
			}
			if until := time.Unix(0, 0).Add(sinceEpoch).Sub(now); until.Abs() <= plausible {
				d = max(until, 0)
				break
			}
		}
		most = max(most, d)
	}
	return most, true
}

// Decimal reads 1*DIGIT [ "." 1*DIGIT ] in a unit that is a power of ten. It
// saturates, and truncates to nanoseconds.
func Decimal(s string, unit time.Duration) (time.Duration, bool) {
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

// IsZero reports whether nothing is left of a quota: 0, 0.0, or 0 with a parameter.
func IsZero(s string) bool {
	s, _, _ = strings.Cut(s, ";")
	s = Trim(s)
	return s != "" && s[0] == '0' && strings.Trim(s, "0.") == "" && strings.Count(s, ".") <= 1
}

// Trim removes what HTTP calls optional whitespace.
func Trim(s string) string { return strings.Trim(s, " \t") }

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
		pieces[i] = Trim(piece)
	}
	return pieces
}
