package retryhttp

import (
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/errtree"
)

// ClassifyResponse judges a response without a [Transport], at the instant now. It
// abstains on statuses below 400, which are no failures. NotApplied tells whether
// a request that is not [Idempotent] may be repeated; whether this one is, is for
// the caller to ask.
//
// A hint is what [ParseHint] finds, which becomes After.
//
//   - 429, and 403 with a hint or with X-RateLimit-Remaining: 0: RateLimited. 529
//     too, and any with X-Envoy-Ratelimited.
//   - 408, 421, 425, and 503 with a hint: Retryable and NotApplied. 421 wants
//     another connection.
//   - 500, 502, 503, 504, 520 to 524, 530, 598, 599; 413 and 423 with a hint; 409
//     if the request has an Idempotency-Key: the first one is still at work:
//     Retryable.
//   - All others, also those outside of 100 to 599, and any with X-Should-Retry:
//     false or Stripe-Should-Retry: false: Final.
func ClassifyResponse(resp *http.Response, now time.Time) retry.Verdict {
	if resp == nil || resp.StatusCode >= 100 && resp.StatusCode < 400 {
		return retry.Verdict{}
	}
	after, hinted := ParseHint(resp.StatusCode, resp.Header, now)
	keyed := resp.Request != nil && hasKey(resp.Request)
	return judgeStatus(resp, after, hinted, keyed)
}

// judgeStatus judges a response with the status of a failure. hinted says that
// there is a hint, which may be to come back at once. keyed says that the request
// has an Idempotency-Key.
func judgeStatus(resp *http.Response, after time.Duration, hinted, keyed bool) retry.Verdict {
	status := resp.StatusCode
	v := statusVerdict(status, hinted)
	v.After = after
	switch {
	case status < 100 || status > 599: // there is no telling what the headers mean
	case !mayHint(resp.Header):
		if status == http.StatusConflict && keyed {
			v.Class = retry.Retryable
		}
	case shouldRetry(resp.Header) == "false":
		v.Class = retry.Final
	case resp.Header["X-Envoy-Ratelimited"] != nil,
		status == http.StatusForbidden && isZero(get(resp.Header, "X-Ratelimit-Remaining")):
		v.Class, v.NotApplied = retry.RateLimited, true
	case status == http.StatusConflict && keyed:
		v.Class = retry.Retryable
	}
	if v.Class == retry.Final {
		v.After = 0
	}
	return v
}

// statusVerdict returns the verdict about the status of a failure, After left out.
func statusVerdict(status int, hinted bool) retry.Verdict {
	if status < 400 || status > 599 {
		return final("http_invalid")
	}
	v := statusVerdicts()[status-400]
	if hinted {
		return v.hinted
	}
	return v.plain
}

// statusVerdicts are what [retry.Classify] says about the statuses from 400 to
// 599, kept because it takes its time and memory to say so.
var statusVerdicts = sync.OnceValue(func() []hintVerdicts {
	known := make([]hintVerdicts, 200)
	for i := range known {
		known[i].plain = retry.Classify(&StatusError{StatusCode: 400 + i})
		known[i].hinted = retry.Classify(&StatusError{StatusCode: 400 + i, After: 1})
		known[i].hinted.After = 0
	}
	return known
})

// hintVerdicts are those about a status without a hint and with one.
type hintVerdicts struct{ plain, hinted retry.Verdict }

// shouldRetry returns what the server says to the question, or "".
func shouldRetry(h http.Header) string {
	if value := get(h, "X-Should-Retry"); value != "" {
		return value
	}
	return get(h, "Stripe-Should-Retry")
}

// get is Header.Get for a name in the form that the keys have, to which Get would
// bring it every time.
func get(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// Classify is the Classifier for the errors of HTTP clients: [retry.Classify] and
// what only this package can tell, because net/http has values or mere texts for
// it. It abstains on errors that nobody knows; a [Transport] takes these for
// Final.
//
// Retryable: connections that were refused, reset, or closed while idle, timeouts,
// truncated headers and bodies, HTTP/2 streams and connections that the server ended. Final:
// requests that are invalid, responses that are no HTTP, certificates that do not
// hold, names that do not exist, too many redirects, and net/http's other errors
// about misuse. A token that golang.org/x/oauth2 could not get is judged by the answer
// to that request.
func Classify(err error) retry.Verdict { return classify(err) }

var classify = retry.Extend(judgeNode)

// judgeNode judges a single error.
func judgeNode(err error) retry.Verdict {
	switch err {
	case http.ErrSchemeMismatch: //nolint:errorlint // asked about every error of the tree
		return final("tls")
	case http.ErrBodyNotAllowed, http.ErrBodyReadAfterClose, http.ErrContentLength, http.ErrHandlerTimeout,
		http.ErrLineTooLong, http.ErrMissingFile, http.ErrNoCookie, http.ErrNoLocation, http.ErrHijacked:
		return final("invalid")
	case http.ErrServerClosed:
		return again("closed")
	}
	if v := tokenVerdict(err); v != (retry.Verdict{}) {
		return v
	}
	if !untyped(err) {
		return retry.Verdict{}
	}
	text, _ := errtree.Try(err.Error)
	if truncated(text) {
		return again("truncated")
	}
	for _, known := range texts {
		if strings.HasPrefix(text, known.prefix) && strings.HasSuffix(text, known.suffix) {
			return known.verdict
		}
	}
	return proxyTexts()[text]
}

// tokenVerdict judges the *RetrieveError of golang.org/x/oauth2 by the status that the
// token endpoint has answered with. The request that needed the token was not sent.
func tokenVerdict(err error) retry.Verdict {
	if pkgPath(err) != "golang.org/x/oauth2" {
		return retry.Verdict{}
	}
	e := reflect.Indirect(reflect.ValueOf(err))
	if e.Kind() != reflect.Struct {
		return retry.Verdict{}
	}
	field := e.FieldByName("Response")
	if !field.IsValid() || !field.CanInterface() {
		return retry.Verdict{}
	}
	resp, ok := reflect.TypeAssert[*http.Response](field) //nolint:bodyclose // the client has
	if !ok || resp == nil {
		return retry.Verdict{}
	}
	v := ClassifyResponse(resp, time.Now())
	v.NotApplied = v.Class != retry.Final
	return v
}

// untyped reports whether err is of one of the types that stand for nothing but
// a text, or of one that net/http keeps for itself.
func untyped(err error) bool {
	switch pkgPath(err) {
	case "errors", "fmt":
		one, several := errtree.Unwrap(err)
		return one == nil && several == nil
	default:
		return ownType(err)
	}
}

// ownType reports whether an error is of a type of net/http.
func ownType(err error) bool {
	switch pkgPath(err) {
	case "net/http", "net/textproto", "golang.org/x/net/http2":
		return true
	default:
		return false
	}
}

// pkgPath returns the package of the type of an error.
func pkgPath(err error) string {
	t := reflect.TypeOf(err)
	if t == nil {
		return ""
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath()
}

// truncated reports whether a response is called malformed only because its
// connection broke off within the status line or a header: net/http reads what has
// come as if it were a line.
func truncated(text string) bool {
	const version = "HTTP/1."
	if line, ok := strings.CutPrefix(text, `malformed HTTP response "`); ok {
		line = strings.TrimSuffix(line, `"`)
		return strings.HasPrefix(line, version) || strings.HasPrefix(version, line)
	}
	if code, ok := strings.CutPrefix(text, `malformed HTTP status code "`); ok {
		code = strings.TrimSuffix(code, `"`)
		return len(code) < 3 && strings.Trim(code, "0123456789") == ""
	}
	// A line that ends in a carriage return lacks its line feed.
	return strings.HasPrefix(text, "malformed MIME header: missing colon") ||
		strings.HasPrefix(text, "malformed MIME header line: ") && strings.HasSuffix(text, `\r"`)
}

// texts are the errors for which net/http and its HTTP/2 have no type that can
// be named. A test provokes the real ones, so that a new version of Go cannot
// change the words unnoticed.
var texts = []struct {
	prefix, suffix string
	verdict        retry.Verdict
}{
	{"unsupported protocol scheme", "", final("invalid")},
	{"http: no Host in request URL", "", final("invalid")},
	{"http: nil Request.", "", final("invalid")},
	{"http: Request.RequestURI can't be set", "", final("invalid")},
	{"http: ContentLength=", "", final("invalid")},
	{"net/http: invalid ", "", final("invalid")}, // method, header, trailer
	{"net/http: can't write control character", "", final("invalid")},
	{"stopped after ", " redirects", final("redirects")},
	{"failed to parse Location header", "", final("redirects")},

	{"malformed HTTP ", "", final("malformed")}, // response, version, status code
	{"malformed MIME header", "", final("malformed")},
	{"net/http: server response headers exceeded", "", final("malformed")},
	{"stream error: ", "; http2: response header list larger than advertised limit", final("malformed")},

	// What a SOCKS proxy says. https://www.rfc-editor.org/rfc/rfc1928#section-6
	{socksSays, "connection not allowed by ruleset", final("socks")},
	{socksSays, " not supported", final("socks")}, // command, address type
	{socksSays, "", anew("socks")},                // refused, unreachable, expired, general failure

	{"net/http: request canceled", "request canceled", final("canceled")}, // by the deprecated Request.Cancel

	{"http: server closed idle connection", "", again("conn_closed")},
	{"net/http: cannot rewind body", "", again("conn_closed")},
	{"http: unexpected EOF reading trailer", "", again("eof")},
	{"http2: client connection lost", "", again("conn_closed")},
	{"http2: client connection force closed", "", again("conn_closed")},
	{"http2: server sent GOAWAY", "", again("http2_goaway")},

	// The server has not processed the request, but for one case in which
	// net/http takes its chances.
	{cannotRetry, "; PROTOCOL_ERROR; received from peer" + defineGetBody, again("http2_reset")},
	{cannotRetry, defineGetBody, anew("http2_refused")},
	{"http2: Transport received Server's graceful shutdown GOAWAY", "", anew("http2_goaway")},
	{"http2: Transport received GOAWAY from server", "", anew("http2_goaway")},
	{"http2: client conn not usable", "", anew("conn_closed")},
	{"http2: client conn could not be established", "", anew("conn_closed")},
}

const (
	socksSays     = "unknown error "
	cannotRetry   = "http2: Transport: cannot retry err ["
	defineGetBody = "] after Request.Body was written; define Request.GetBody to avoid this error"
)

// proxyTexts are all that net/http leaves of the answer of a proxy to CONNECT.
// [ProxyConnectError] keeps more of it.
var proxyTexts = sync.OnceValue(func() map[string]retry.Verdict {
	known := map[string]retry.Verdict{}
	for status := 400; status < 600; status++ {
		if text := http.StatusText(status); text != "" {
			v := statusVerdict(status, false)
			v.NotApplied = false // the same words may have been said by somebody else
			known[text] = v
		}
	}
	return known
})

func final(category string) retry.Verdict {
	return retry.Verdict{Class: retry.Final, Category: category}
}

// again is the verdict for a request that may have taken effect.
func again(category string) retry.Verdict {
	return retry.Verdict{Class: retry.Retryable, Category: category}
}

// anew is the verdict for a request that had no effect.
func anew(category string) retry.Verdict {
	return retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: category}
}
