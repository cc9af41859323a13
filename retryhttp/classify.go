package retryhttp

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/errtree"
	"github.com/seed-5ff3c98e/retry/internal/verdict"
)

// Classify is the Classifier for the errors of HTTP clients. It is
// [retry.Classify] with the errors that net/http tells apart only by value or by
// text. It abstains on unknown errors; a [Transport] treats these as Final.
//
// Retryable: connections that were refused, reset, or closed while idle, timeouts,
// truncated headers and bodies, HTTP/2 streams and connections that the server ended.
// RateLimited: HTTP/2 streams and connections that the server ended with ENHANCE_YOUR_CALM.
// Final: invalid requests, responses that are not HTTP, invalid certificates, names that
// do not exist, too many redirects, and net/http's other errors about misuse. If
// golang.org/x/oauth2 could not get a token, the response to the token request decides.
func Classify(err error) retry.Verdict { return classify(err) }

var classify = retry.Extend(judgeNode)

// judgeNode classifies a single error.
func judgeNode(err error) retry.Verdict {
	switch err {
	case http.ErrSchemeMismatch: //nolint:errorlint // asked about every error of the tree
		return verdict.Permanent("tls")
	case http.ErrBodyNotAllowed, http.ErrBodyReadAfterClose, http.ErrContentLength, http.ErrHandlerTimeout,
		http.ErrLineTooLong, http.ErrMissingFile, http.ErrNoCookie, http.ErrNoLocation, http.ErrHijacked:
		return verdict.Permanent("invalid")
	case http.ErrServerClosed:
		return verdict.Transient("closed")
	}
	if v := tokenVerdict(err); v != (retry.Verdict{}) {
		return v
	}
	if !untyped(err) {
		if reflect.TypeOf(err) == wrapper && strings.HasSuffix(err.Error(), looksLikeHTTP1) {
			return verdict.Permanent("malformed")
		}
		return retry.Verdict{}
	}
	text, _ := errtree.Try(err.Error)
	switch {
	case truncated(text):
		return verdict.Transient("truncated")
	case calmed(text):
		return verdict.Throttled("http2_calm")
	}
	for _, known := range texts {
		if strings.HasPrefix(text, known.prefix) && strings.HasSuffix(text, known.suffix) {
			return known.verdict
		}
	}
	return proxyTexts()[text]
}

// tokenVerdict classifies the *RetrieveError of golang.org/x/oauth2 by the status of
// the token endpoint's response. The request that needed the token was not sent.
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

// untyped reports whether err is of a type that has only a text, or of an
// unexported type of net/http.
func untyped(err error) bool {
	switch pkgPath(err) {
	case "errors", "fmt":
		one, several := errtree.Unwrap(err)
		return one == nil && several == nil
	default:
		return ownType(err)
	}
}

// isForeign reports whether an unknown error is not net/http's own. Then it comes from a
// hook such as DialContext or Proxy, from a connection that the hook has made, or from
// another RoundTripper.
func isForeign(err error) bool {
	if e, ok := err.(*url.Error); ok && e != nil && e.Err != nil { //nolint:errorlint // of an http.Client in Do
		err = e.Err
	}
	if ownType(err) {
		return false
	}
	text, _ := errtree.Try(err.Error)
	return !strings.HasPrefix(text, "net/http: ") && !strings.HasPrefix(text, "http: ")
}

// ownType reports whether an error is of a type of net/http. Its HTTP/2 is a part of it up to
// Go 1.26, and net/http/internal/http2 since; golang.org/x/net/http2 has the same types.
func ownType(err error) bool {
	switch pkg := pkgPath(err); pkg {
	case "net/http", "net/textproto":
		return true
	default:
		return strings.HasSuffix(pkg, "/http2")
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
// connection broke within the status line or a header: net/http reads the part
// that has come as if it were a line.
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

// calmed reports whether a server closed a connection of HTTP/2 because of the client's load.
// It may have processed the request. The debug data at the end may be anything.
func calmed(text string) bool {
	if !strings.HasPrefix(text, goAwayAndClosed) {
		return false
	}
	_, code, _ := strings.Cut(text, "ErrCode=")
	return strings.HasPrefix(code, "ENHANCE_YOUR_CALM,")
}

// texts has the errors for which net/http and its HTTP/2 have no exported type.
// A test provokes the real ones, so that a change of a text in a new version of
// Go is noticed.
var texts = []struct {
	prefix, suffix string
	verdict        retry.Verdict
}{
	{"unsupported protocol scheme", "", verdict.Permanent("invalid")},
	{"http: no Host in request URL", "", verdict.Permanent("invalid")},
	{"http: nil Request.", "", verdict.Permanent("invalid")},
	{"http: Request.RequestURI can't be set", "", verdict.Permanent("invalid")},
	{"http: ContentLength=", "", verdict.Permanent("invalid")},
	{"net/http: invalid ", "", verdict.Permanent("invalid")}, // method, header, trailer
	{"net/http: can't write control character", "", verdict.Permanent("invalid")},
	{"stopped after ", " redirects", verdict.Permanent("redirects")},
	{"failed to parse Location header", "", verdict.Permanent("redirects")},

	{"malformed HTTP ", "", verdict.Permanent("malformed")}, // response, version, status code
	{"malformed MIME header", "", verdict.Permanent("malformed")},
	{"stream error: ", " status pseudo header", verdict.Permanent("malformed")}, // a response without a status
	{"bad Content-Length ", "", verdict.Permanent("malformed")},
	{"unsupported transfer encoding: ", "", verdict.Permanent("malformed")},
	{"too many transfer encodings: ", "", verdict.Permanent("malformed")},
	{"net/http: server response headers exceeded", "", verdict.Permanent("malformed")},
	{"stream error: ", "; http2: response header list larger than advertised limit", verdict.Permanent("malformed")},

	// The replies of a SOCKS proxy.
	// https://www.rfc-editor.org/rfc/rfc1928#section-6
	{socksSays, "connection not allowed by ruleset", verdict.Permanent("socks")},
	{socksSays, " not supported", verdict.Permanent("socks")}, // command, address type
	{"no acceptable authentication methods", "", verdict.Permanent("socks")},
	{"username/password authentication failed", "", verdict.Permanent("socks")},
	{socksSays, "", verdict.Unapplied("socks")}, // refused, unreachable, expired, general failure

	{"net/http: request canceled", "request canceled", verdict.Permanent("canceled")}, // by the deprecated Request.Cancel

	{"http: server closed idle connection", "", verdict.Transient("conn_closed")},
	{"net/http: cannot rewind body", "", verdict.Transient("conn_closed")},
	{"http: unexpected EOF reading trailer", "", verdict.Transient("eof")},
	{"http2: client connection lost", "", verdict.Transient("conn_closed")},
	{"http2: client connection force closed", "", verdict.Transient("conn_closed")},
	{goAwayAndClosed, "", verdict.Transient("http2_goaway")},

	// Without the peer, it is the client's opinion of a malformed response.
	{"stream error: ", "; PROTOCOL_ERROR; received from peer", verdict.Transient("http2_reset")},

	// The server has not processed the request, except in one case in which
	// net/http retries all the same, up to Go 1.26.
	{cannotRetry, "; PROTOCOL_ERROR; received from peer" + defineGetBody, verdict.Transient("http2_reset")},
	{cannotRetry, defineGetBody, verdict.Unapplied("http2_refused")},
	{"http2: Transport received Server's graceful shutdown GOAWAY", "", verdict.Unapplied("http2_goaway")},
	{goAwayAtFirst, "ENHANCE_YOUR_CALM", verdict.Rejected("http2_calm")},
	{goAwayAtFirst, "", verdict.Unapplied("http2_goaway")},
	{"http2: client conn not usable", "", verdict.Unapplied("conn_closed")},
	{"http2: client conn could not be established", "", verdict.Unapplied("conn_closed")},
}

// wrapper is the type of errors that wrap one with %w.
var wrapper = reflect.TypeOf(fmt.Errorf("%w", http.ErrBodyNotAllowed))

const (
	socksSays       = "unknown error "
	looksLikeHTTP1  = ", note that the frame header looked like an HTTP/1.1 header"
	goAwayAndClosed = "http2: server sent GOAWAY and closed the connection; "
	goAwayAtFirst   = "http2: Transport received GOAWAY from server ErrCode:"
	cannotRetry     = "http2: Transport: cannot retry err ["
	defineGetBody   = "] after Request.Body was written; define Request.GetBody to avoid this error"
)

// proxyTexts has the verdicts by status text: net/http keeps only the text of a proxy's
// response to CONNECT. [ProxyConnectError] keeps more.
var proxyTexts = sync.OnceValue(func() map[string]retry.Verdict {
	known := map[string]retry.Verdict{}
	for status := 400; status < 600; status++ {
		if text := http.StatusText(status); text != "" {
			v := statusVerdict(status, false)
			v.NotApplied = false // another error may have the same text
			known[text] = v
		}
	}
	return known
})
