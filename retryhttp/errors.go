package retryhttp

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/errtree"
	"github.com/seed-5ff3c98e/retry/internal/redact"
)

// StatusError is a failure with a response. A [Transport] gives it to the
// Classifier and the Observer of its policy; the caller gets the response. [Do]
// returns it.
//
// Its text has no part that may be secret: no user, password, query or fragment
// of the URL, no headers and no body.
type StatusError struct {
	Method     string
	URL        string // scheme, host and path
	StatusCode int
	After      time.Duration // the server's hint, or 0
	Body       []byte        // up to 4 KiB of the body; only from Do

	verdict retry.Verdict // about the response that it stands for
}

func (c *call) statusError(resp *http.Response, after time.Duration) *StatusError {
	req := c.answered(resp)
	shown := c.shown
	switch {
	case req.URL != c.req.URL:
		shown = address(req.URL)
	case shown == "":
		shown = address(req.URL)
		c.shown = shown
	}
	return &StatusError{Method: req.Method, URL: shown, StatusCode: resp.StatusCode, After: after}
}

// address returns the parts of a URL that may be shown.
func address(u *url.URL) string {
	if u == nil {
		return ""
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return shown.String()
}

// Error returns the form "GET https://example.com/path: 503 Service
// Unavailable".
func (e *StatusError) Error() string {
	method := e.Method
	if method == "" {
		method = http.MethodGet
	}
	text := method + " " + e.URL + ": " + strconv.Itoa(e.StatusCode)
	if name := http.StatusText(e.StatusCode); name != "" {
		text += " " + name
	}
	return text
}

// HTTPStatusCode returns StatusCode. [retry.Classify] asks for it.
func (e *StatusError) HTTPStatusCode() int { return e.StatusCode }

// RetryAfter returns After. [retry.Classify] asks for it.
func (e *StatusError) RetryAfter() time.Duration { return e.After }

// NonRetryable reports whether the response says more than its status, and so ends the call:
// with a code such as insufficient_quota, or X-Should-Retry: false. [retry.Classify] asks for
// it, so that a policy around [Do] does not repeat what Do has ended.
func (e *StatusError) NonRetryable() bool {
	return e.verdict.Class == retry.Final && statusVerdict(e.StatusCode, true).Class != retry.Final
}

// ProxyConnectError returns a *[StatusError] if a proxy refuses to connect.
// net/http alone keeps only the status text of the proxy's response. Use it in the
// transport that has the Proxy:
//
//	&http.Transport{Proxy: http.ProxyFromEnvironment, OnProxyConnectResponse: retryhttp.ProxyConnectError}
func ProxyConnectError(_ context.Context, proxy *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	after, _ := ParseHint(resp.StatusCode, resp.Header, time.Now())
	return &StatusError{Method: http.MethodConnect, URL: address(proxy), StatusCode: resp.StatusCode, After: after}
}

// Redact returns an error without the secrets that [http.Client] puts into the
// text of its errors: the user, the password and the query values of a URL, and of
// a Location that was not followed. A [*url.Error] stays a *url.Error. errors.Is
// and errors.As find the same errors as before; those wrapped errors keep their
// texts. A [Transport] and [Do] redact their errors, but an http.Client wraps the
// errors of a Transport in its own. A server can make a text as long as it likes: of more
// than 64 KiB, only a part of the first 64 KiB is kept. Redact(nil) is nil.
func Redact(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*url.Error); ok && e != nil { //nolint:errorlint // http.Client's own
		return &url.Error{Op: e.Op, URL: redact.Text(e.URL), Err: Redact(e.Err)}
	}
	text, _ := errtree.Try(err.Error)
	if shown := redact.Text(text); shown != text {
		return &redactedError{shown, err}
	}
	return err
}

type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }

func (e *redactedError) Unwrap() error { return e.err }
